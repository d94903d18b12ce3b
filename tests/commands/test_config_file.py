"""`--config FILE`, `--seeds` and `--tags` of `drumline train`."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from typed_commands import TINY, Terminal

from drumline.recipes.methods import config_from
from drumline.runs.folder import RunFolder

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
FOLDERS = Path(__file__).resolve().parents[1] / "v0_1_folders"
MODULE = """
import pathlib
from arguments_environment import Scaled as Environment

pathlib.Path("imported").touch()
"""


def printed(terminal: Terminal, *words: str) -> dict:
    ended = terminal("train", *words, "--print-config")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


@pytest.mark.parametrize(
    "words", [("es", "CartPole-v1"), ("td3", "Pendulum-v1"), ("ppo", "Ant-v5")]
)
def test_a_file_takes_what_print_config_prints(terminal: Terminal, words: tuple[str, ...]):
    config = printed(terminal, *words, "--seed=5", "--evaluate-episodes=3")
    Path("settings.json").write_text(json.dumps(config))
    assert printed(terminal, words[0], "--config=settings.json") == config
    assert printed(terminal, *words, "--config", "settings.json") == config
    again = printed(terminal, words[0], "--config=settings.json", "--seed=6")
    assert again == {**config, "seed": 6}


def test_a_file_of_some_settings_leaves_the_others_to_the_preset(terminal: Terminal):
    Path("some.json").write_text('{"seed": 3, "hidden": [8, 8]}')
    config = printed(terminal, "es", "Hopper-v5", "--config=some.json")
    assert config == {**printed(terminal, "es", "Hopper-v5"), "seed": 3, "hidden": [8, 8]}
    ended = terminal("train", "es", "--config=some.json")
    assert "some.json names no environment: give ENV behind es" in ended.err


@pytest.mark.parametrize(
    ("method", "env", "flag"),
    [
        ("hts", "CartPole-v1", "--learner=a2c"),
        ("hts", "CartPole-v1", "--learner a2c"),
        ("aes", "Walker2d-v5", "--mean-rule=full-move"),
        ("aes", "Walker2d-v5", "--mean_rule=full-move"),
        ("es", "Hopper-v5", "--shaping=sign-rank"),
    ],
)
def test_a_typed_flag_decides_the_preset_beside_a_file(
    terminal: Terminal, method: str, env: str, flag: str
):
    Path("some.json").write_text('{"seed": 3}')
    plain = printed(terminal, method, env, *flag.replace("_", "-").split())
    beside = printed(terminal, method, env, "--config=some.json", *flag.split())
    assert beside == {**plain, "seed": 3}


@pytest.mark.parametrize(
    ("method", "env", "settings", "flag"),
    [
        ("es", "Hopper-v5", {"shaping": "sign-rank"}, "--shaping=centered-rank"),
        ("hts", "Walker2d-v5", {"learner": "a2c"}, "--learner=ppo"),
        ("aes", "Walker2d-v5", {"mean_rule": "full-move"}, "--mean-rule=linear"),
    ],
)
def test_a_typed_flag_takes_the_place_of_a_files_setting_that_decides(
    terminal: Terminal, method: str, env: str, settings: dict[str, str], flag: str
):
    Path("some.json").write_text(json.dumps(settings))
    typed = printed(terminal, method, env, "--config=some.json", flag)
    assert typed == printed(terminal, method, env, flag)


def test_words_that_are_no_flags_names_keep_their_underscores(terminal: Terminal):
    words = ["--out=a--b_c", "--tags", "x--y_z", "d--e_f", *TINY]
    assert terminal("train", "es", "CartPole-v1", "--quiet", *words).code == 0
    assert json.loads(Path("a--b_c/config.json").read_text())["tags"] == ["x--y_z", "d--e_f"]
    assert terminal("report", "a--b_c").code == 0


def test_the_config_of_a_run_begins_the_same_run(terminal: Terminal):
    terminal("train", "es", "CartPole-v1", *TINY, "--out=first", "--quiet", "--tags", "a", "b c")
    assert (
        terminal("train", "es", "--config=first/config.json", *TINY[-2:], "--out=second").code == 0
    )
    assert terminal("verify", "first", "second").code == 0
    assert json.loads(Path("first/config.json").read_text())["tags"] == ["a", "b c"]
    Path("objective.json").write_text('{"objective": "objectives:noisy_sphere", "dimensions": 6}')
    ended = terminal(
        *("train", "es", "--config=objective.json", *TINY[:3], *TINY[-2:]),
        *("--trust-code", "--quiet", "--out=searched"),
    )
    assert ended.code == 0, ended.err


@pytest.mark.parametrize("method", sorted(path.name for path in FOLDERS.iterdir() if path.is_dir()))
def test_the_config_of_an_older_run_has_the_settings_of_its_resume(terminal: Terminal, method: str):
    config = printed(terminal, method, f"--config={FOLDERS / method / 'config.json'}")
    resumed = asdict(config_from(RunFolder.open(FOLDERS / method).document))
    assert config == json.loads(json.dumps(resumed))


T = "--trust-code"


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ('{"env": "CartPole-v1", "learning": 1}', ("es",), "'learning', which es does not know"),
        ('{"env": "CartPole-v1", "policy_delay": 2}', ("es",), "is of td3, and this is es"),
        ('{"env": "CartPole-v1", "seed": "x"}', ("es",), "seed: Expected `int`, got `str`"),
        ('{"env": "CartPole-v1"}', ("es", "Hopper-v5"), "is for CartPole-v1, and ENV is Hopper-v5"),
        ('{"env": "CartPole-v1"', ("es",), "is no config"),
        ("[1]", ("es",), "is no config"),
        ('{"env": "CartPole-v1"}', ("es", "--preset=paper"), "both say what to begin with"),
        ('{"env": "CartPole-v1"}', ("es", "a", "b"), "give METHOD before the flags"),
        ('{"env": "CartPole-v1", "std": -1}', ("es",), "--std must be above 0"),
        ('{"format": 1, "config": {"env": "A-v0", "alpha": 3}}', ("es",), "and this is es"),
        ('{"objective": "a:b"}', ("es", "CartPole-v1", T), "an environment (CartPole-v1) and an"),
        ('{"env": "CartPole-v1", "objective": "a:b"}', ("es", T), "objective (a:b): give one"),
        ('{"env": "CartPole-v1"}', ("es", "--objective=a:b"), "objective (a:b): give one of"),
    ],
)
def test_a_wrong_file_is_one_sentence(
    terminal: Terminal, text: str, words: tuple[str, ...], message: str
):
    Path("settings.json").write_text(text)
    ended = terminal("train", *words, "--config=settings.json", "--print-config")
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
    assert message in ended.err
    assert "No such file" in terminal("train", "es", "--config=nowhere.json").err


@pytest.mark.parametrize(
    "field", [("env", "stranger_file:Environment"), ("policy", "stranger_network:Net")]
)
def test_code_that_a_file_names_is_imported_with_trust_alone(
    terminal: Terminal, field: tuple[str, str]
):
    name, value = field
    Path(f"{value.partition(':')[0]}.py").write_text(MODULE)
    Path("settings.json").write_text(json.dumps({"env": "CartPole-v1", name: value}))
    words = ("train", "es", "--config=settings.json", *TINY, "--out=run")
    refused = terminal(*words)
    assert refused.code == 2
    assert f"names code to import ({value})" in refused.err
    assert refused.err.rstrip().endswith("--trust-code")
    assert not Path("imported").exists()
    assert not Path("run").exists()
    terminal(*words, "--trust-code")
    assert Path("imported").exists()


def test_code_that_is_typed_needs_no_trust_in_the_file(terminal: Terminal):
    Path("settings.json").write_text('{"env": "arguments_environment:Scaled", "seed": 2}')
    words = (
        "train",
        "es",
        "arguments_environment:Scaled",
        "--config=settings.json",
        "--print-config",
    )
    assert terminal(*words).code == 0


def test_several_seeds_train_one_after_the_other(terminal: Terminal):
    ended = terminal("train", "es", "CartPole-v1", "--seeds=0-1,5", *TINY, "--out=runs/sweep")
    assert ended.code == 0, ended.err
    for seed in (0, 1, 5):
        document = json.loads(Path(f"runs/sweep/s{seed}/config.json").read_text())
        assert document["config"]["seed"] == seed
    last = ended.out.splitlines()[-1]
    assert last == "drumline compare runs/sweep/s0 runs/sweep/s1 runs/sweep/s5"
    assert terminal(*last.split()[1:]).code == 0
    assert terminal("train", "es", "CartPole-v1", "--seeds=4", *TINY, "--quiet").code == 0
    assert list(Path("runs").glob("es-CartPole-v1-s4-*"))


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ("5-1", "--seeds 5-1 goes backwards: write 1-5"),
        ("a", "is no range"),
        ("1-", "is no range"),
        ("-3", "is no range"),
        ("1,1", "has a seed twice"),
    ],
)
def test_wrong_seeds_are_refused_before_anything_is_written(
    terminal: Terminal, seeds: str, message: str
):
    ended = terminal("train", "es", "CartPole-v1", f"--seeds={seeds}", *TINY, "--out=run")
    assert ended.code == 2
    assert message in ended.err
    ended = terminal("train", "es", "CartPole-v1", "--seeds=1-2", "--seed=1", *TINY, "--out=run")
    assert "give one of them" in ended.err
    ended = terminal("train", "es", "CartPole-v1", "--tags", "a\x1b[31m", *TINY, "--out=run")
    assert ended.code == 2
    assert not Path("run").exists()


def test_a_typed_flag_decides_a_setting_that_a_file_has_resolved(terminal: Terminal):
    config = printed(terminal, "hts", "CartPole-v1")
    assert config["correction"] == "truncated-is"
    Path("settings.json").write_text(json.dumps(config))
    beside = printed(terminal, "hts", "--config=settings.json", "--lag=0")
    assert beside == printed(terminal, "hts", "CartPole-v1", "--lag=0")
    assert beside["correction"] == "ppo-ratio"
    assert printed(terminal, "hts", "--config=settings.json", "--lag=1") == config


@pytest.mark.parametrize(("made", "asked"), [("ppo", "hts"), ("aes", "acem-rl")])
def test_the_run_of_another_method_is_refused(terminal: Terminal, made: str, asked: str):
    config = printed(terminal, made, "CartPole-v1")
    Path("config.json").write_text(json.dumps({"format": 1, "method": made, "config": config}))
    ended = terminal("train", asked, "--config=config.json", "--print-config")
    assert ended.code == 2
    assert f"--config config.json is of {made}, and this is {asked}" in ended.err


def test_findings_of_another_machine_begin_no_run(terminal: Terminal):
    config = printed(terminal, "hts", "CartPole-v1")
    Path("settings.json").write_text(json.dumps({**config, "inference_rows": 8}))
    assert printed(terminal, "hts", "--config=settings.json") == config
