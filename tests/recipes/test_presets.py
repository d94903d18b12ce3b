"""Every preset runs three updates."""

from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import cases

from drumline.api.run import train
from drumline.recipes import ars
from drumline.recipes.aes import ACEMRL, AES, OnePlusOne
from drumline.recipes.aes_presets import PAPER
from drumline.recipes.environment_families import (
    ALPHAS,
    FOOTBALL_IDS,
    PONG_IDS,
    PUBLISHED_GAMES,
)
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.methods import find_method
from drumline.recipes.ppo import PPO
from drumline.training.layout import SearchLayout

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

INLINE = SearchLayout(pool="inline", tensorboard=False)


def three_updates(config, tmp_path):
    small = {
        "total_steps": 3 * 4 * 12 - 1 if config.env != "Pendulum-v1" else 1_500,
        "population_size": 4,
        "evaluate_episodes": 1,
        "noise_table_size": 1 << 20,
        "episode_cap": "adaptive:12,1.0,1.1",
        "promise": False,
    }
    if isinstance(config, ars.ARS):
        small["top_directions"] = 2
    run = train(replace(config, **small), layout=INLINE, out=tmp_path / "run")
    assert len(run.metrics) >= 3
    norms = [row["parameter_norm"] for row in run.metrics]
    assert np.isfinite(norms).all()
    assert len(set(norms)) == len(norms)


GAMES = [env for name in PUBLISHED_GAMES for env in (f"{name}-v5", f"ALE/{name}-v5")]


@pytest.mark.parametrize("env", sorted(set(ES.PRESETS) - set(GAMES)))
def test_every_es_preset_runs(env: str, tmp_path):
    three_updates(ES(env=env, **ES.PRESETS[env]), tmp_path)


def without_ale(env: str) -> bool:
    return env.startswith("ALE/") and find_spec("ale_py") is None


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(env, marks=[] if env.endswith("Freeway-v5") else pytest.mark.slow)
        for env in GAMES
    ],
)
def test_every_game_of_the_paper_is_searched(env: str, tmp_path):
    if without_ale(env):
        pytest.skip("the extra `atari` is not installed")
    preset = {**ES.PRESETS[env], "max_episode_steps": 100 if env.endswith("Freeway-v5") else 500}
    small: dict[str, Any] = {"total_steps": 100, "population_size": 4, "noise_table_size": 1 << 20}
    config = ES(env=env, **{**preset, **small, "evaluate_episodes": 1, "promise": False})
    run = train(config, layout=INLINE, out=tmp_path / "run")
    rows = run.folder.episodes_csv.read_text().splitlines()[1:]
    lengths = [int(row.split(",")[-1]) for row in rows]
    assert len(lengths) == 4
    assert all(0 < length <= preset["max_episode_steps"] for length in lengths)


@pytest.mark.parametrize("env", sorted(ars.ARS.PRESETS))
def test_every_ars_preset_runs(env: str, tmp_path):
    three_updates(ars.ARS(env=env, **ars.ARS.PRESETS[env]), tmp_path)


@pytest.mark.parametrize(("env", "alpha"), ALPHAS.items())
def test_a_short_interval_keeps_the_rows_of_a_minibatch_and_all_times(env: str, alpha: int):
    paper = HTS.VARIANTS["paper"][env]
    for config, long in (
        (HTS(env=env, **HTS.PRESETS[env]), HTS(env=env, **paper)),
        (PPO(env=env, **PPO.PRESETS[env]), PPO(env=env, **paper)),
    ):
        assert (config.alpha, long.alpha) == (alpha, 128)
        assert config.steps_per_update // config.minibatches == 64
        assert long.steps_per_update // long.minibatches == 64
        assert config.renew_intervals * alpha == long.renew_intervals * 128
        assert config.evaluate_every * alpha == long.evaluate_every * 128
    assert HTS(env=env, **HTS.PRESETS[env]).correction_used == "decoupled"
    assert HTS(env=env, **paper).correction_used == "truncated-is"


@pytest.mark.parametrize("env", AES.VARIANTS["paper"])
def test_the_rules_of_the_release_can_be_asked_for(env: str):
    paper = AES(env=env, **AES.VARIANTS["paper"][env])
    rules = (paper.mean_rule, paper.variance_rule, paper.range_spread, paper.variance_from)
    assert rules == ("relative", "welford-adaptive", 0.0, "all")
    assert (paper.batch_size, paper.actor_steps_scale, paper.recentred) == (256, 1.0, False)
    assert paper.fitness_baseline == -paper.fitness_range


def preset_of(method: type[AES], env: str) -> AES:
    fields: dict[str, Any] = {**method.PRESETS[env]}
    return method(env=env, **fields)


@pytest.mark.parametrize(
    ("env", "rules", "refined"),
    [
        ("HalfCheetah-v5", ("full-move", "one-fifth", 0.0), ("newest", 2, 0.15)),
        ("Hopper-v5", ("full-move", "one-fifth", 0.0), ("newest", 2, 0.15)),
        ("Walker2d-v5", ("linear", "welford-adaptive", 2.0), ("samples", 5, 0.1)),
    ],
)
def test_tuned_tasks_have_the_chosen_rules_and_other_methods_keep_theirs(
    env: str, rules: tuple[str, str, float], refined: tuple[str, int, float]
):
    tuned = preset_of(AES, env)
    assert (tuned.mean_rule, tuned.variance_rule, tuned.range_spread) == rules
    assert (tuned.refined_from, tuned.concurrency, tuned.actor_steps_scale) == refined
    assert (tuned.batch_size, tuned.critic_lag) == (100, 1_000)
    for method, own in ((OnePlusOne, ("full-move", "one-fifth")), (ACEMRL, ("rank", "rank"))):
        other = preset_of(method, env)
        assert (other.mean_rule, other.variance_rule) == own
        assert (other.refined_from, other.concurrency, other.batch_size) == ("samples", 5, 256)


@pytest.mark.parametrize(
    ("method", "env", "setting", "field", "default"),
    [
        ("aes", "Walker2d-v5", {"mean_rule": "full-move"}, "range_spread", 0.0),
        ("es", "Hopper-v5", {"shaping": "sign-rank"}, "reward_shift", 0.0),
        ("es", "InvertedDoublePendulum-v5", {"shaping": "z-score"}, "tie_tolerance", 0.0),
        ("hts", "HalfCheetah-v5", {"learner": "a2c"}, "correction_used", "delayed"),
    ],
)
def test_a_setting_takes_away_what_a_preset_has_no_use_for_beside_it(
    method: str, env: str, setting: dict[str, Any], field: str, default: Any
):
    found: Any = find_method(method)
    assert getattr(found.made(env), field) != default
    assert getattr(found.made(env, **setting), field) == default
    preset = found.preset(env)
    if field in preset:  # both typed: refused, as before
        with pytest.raises(ValueError, match=f"--{field.replace('_', '-')}"):
            found.made(env, **setting, **{field: preset[field]})


@pytest.mark.parametrize(
    "env", ["CartPole-v1", "LunarLander-v3", "Hopper-v5", "Ant-v5", "Pong-v5", FOOTBALL_IDS[0]]
)
def test_hts_with_a2c_begins_with_the_settings_of_a2c(env: str):
    found, other = find_method("hts").made(env, learner="a2c"), find_method("a2c").made(env)
    shared = {field.name for field in fields(found)} & {field.name for field in fields(other)}
    differing = {name for name in shared if getattr(found, name) != getattr(other, name)}
    assert differing <= {"learner_threads"}
    assert (found.learner, found.lag, found.correction_used) == ("a2c", 1, "delayed")
    assert found.learner_threads == 1
    assert found.evaluate_every == other.evaluate_every


@pytest.mark.parametrize("method", ["acem-rl", "one-plus-one"])
@pytest.mark.parametrize("variant", ["", "paper"])
def test_other_methods_of_aes_rls_release_have_one_network_and_share_on_all_tasks(
    method: str, variant: str
):
    for env in sorted(PAPER):
        preset = find_method(method).preset(env, variant)
        config = find_method(method).made(env, None, **preset)
        assert (config.p_desired, config.hidden, config.learning_rate) == (0.5, (400, 300), 1e-3)
    assert find_method("aes").preset("Swimmer-v5", variant)["p_desired"] == 0.1


def test_the_papers_preset_of_ppo_is_refused_beside_a2c():
    with pytest.raises(ValueError, match="hts has no --preset paper with --learner a2c"):
        find_method("hts").made("Hopper-v5", "paper", learner="a2c")


@pytest.mark.parametrize("env", sorted(HTS.PRESETS))
def test_every_preset_of_hts_without_a_lag_is_plain_ppo(env: str):
    assert find_method("hts").made(env, lag=0).correction_used == "ppo-ratio"
    assert find_method("hts").made(env, lag=1) == find_method("hts").made(env)


@pytest.mark.parametrize("method", ["hts", "ppo"])
@pytest.mark.parametrize("env", PONG_IDS)
def test_pong_has_minibatches_of_32_rows_and_the_other_games_settings_by_name(
    method: str, env: str
):
    pong, others = find_method(method), find_method(method).preset("Breakout-v5")
    own = pong.made(env)
    assert own.num_envs * own.alpha // own.minibatches == 32
    assert own.num_envs * own.alpha * own.renew_intervals == 16 * 128 * others["renew_intervals"]
    assert pong.preset(env, "atari") == others != pong.preset(env)


def test_another_strategy_takes_a_preset_of_rules_but_no_rules_that_are_told():
    preset: dict[str, Any] = {**AES.PRESETS["Hopper-v5"]}
    assert AES(env="Hopper-v5", **{**preset, "strategy": "snes"}).mean_rule == "full-move"
    with pytest.raises(ValueError, match="--mean-rule linear goes with --strategy async-es"):
        AES(env="Hopper-v5", **{**preset, "strategy": "snes", "mean_rule": "linear"})


PLAIN = ES(
    env="InvertedPendulum-v5",
    total_steps=500,
    population_size=8,
    noise_table_size=1 << 14,
    hidden=(4,),
    obs_stat_probability=0.5,
    evaluate_episodes=1,
    std=0.1,
)


@pytest.fixture(scope="module")
def without_options(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    run = train(PLAIN, workers="inline", out=tmp_path_factory.mktemp("plain") / "run")
    return run.folder.fingerprints_csv.read_bytes()


OPTIONS: list[dict[str, Any]] = [
    {"std": 0.2},
    {"shaping": "z-score"},
    {"tie_tolerance": 0.3},
    {"reward_shift": 2.0},
    {"shaping": "none", "optimizer": "sgd"},
    {"noise": "counter"},
    {"policy": "linear"},
    {"policy": "torch_policies:Linear"},
    {"subset": "perturb"},
    {"subset": "use"},
    {"initialization": "orthogonal"},
    {"initialization": "uniform", "policy": "linear"},
    {"output_scale": 1.0},
    {"mirrored": False},
    {"mirrored": False, "subset": "use"},
    {"mirrored": False, "population_size": 7},
    {"subspace": 5},
    {"subspace": 5, "noise": "counter"},
    {"episode_cap": "mean:1"},
    {"frame_skip": 3},
    {"generation_env_steps": 120},
    {"learning_rate_decay": 0.5, "learning_rate_floor": 0.004},
    {"common_seeds": True, "normalize": False, "std_decay": 0.5, "std_floor": 0.03},
]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subspace": -1}, "--subspace"),
        ({"tie_tolerance": 1.5}, "--tie-tolerance must be in"),
        ({"reward_shift": 1.0, "shaping": "sign-rank"}, "--reward-shift 1.0 is of returns"),
        ({"reward_shift": float("nan")}, "--reward-shift must be"),
        ({"tie_tolerance": 0.1, "shaping": "none"}, "--tie-tolerance 0.1 is of ranks, and"),
        ({"subspace": 3, "subset": "use"}, "leave out --subset"),
        ({"mirrored": False, "common_seeds": True}, "^--common-seeds is of mirrored pairs: leave"),
        ({"population_size": 7}, "even for mirrored pairs, got 7: --no-mirrored takes any number"),
        ({"mirrored": False, "population_size": 1}, "must be at least 2, got 1"),
        (
            {"policy": "a3c-cnn", "output_scale": 1.0},
            "a3c-cnn has its own initial parameters",
        ),
        (
            {"policy": "m:C", "initialization": "uniform"},
            "m:C has its own initial parameters",
        ),
        ({"initialization": "uniform", "output_scale": 1.0}, "--output-scale has no meaning"),
        ({"output_scale": 0.0}, "--output-scale"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        replace(PLAIN, **options)


def test_a_subspace_of_more_dimensions_than_parameters_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="--subspace 500 has more dimensions"):
        train(replace(PLAIN, subspace=500), workers="inline", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def chain(options: dict[str, Any], workers: Any, out: Path) -> bytes:
    run = train(replace(PLAIN, **options), workers=workers, out=out)
    assert len(run.metrics) >= 1
    return run.folder.fingerprints_csv.read_bytes()


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
def test_options_have_bits_of_their_own(
    options: dict[str, Any], tmp_path: Path, without_options: bytes
):
    assert chain(options, "inline", tmp_path / "run") != without_options


@pytest.mark.parametrize(
    "options",
    cases(OPTIONS, quick=[{"noise": "counter"}]),
    ids=repr,
)
def test_options_have_the_same_bits_inline_and_on_two_workers(
    options: dict[str, Any], tmp_path: Path
):
    assert chain(options, 2, tmp_path / "two") == chain(options, "inline", tmp_path / "one")


def test_a_game_has_one_preset_whichever_engine_plays_it():
    assert HTS.PRESETS["ALE/Pong-v5"] == HTS.PRESETS["Pong-v5"] != {}


def test_signs_of_rewards_are_ranked_otherwise_than_returns_where_rewards_differ(tmp_path: Path):
    base = replace(PLAIN, env="Swimmer-v5", episode_cap="adaptive:12,1.0,1.1", total_steps=200)
    found = [
        train(replace(base, shaping=shaping), layout=layout, out=tmp_path / name)
        for name, shaping, layout in (
            ("returns", "centered-rank", INLINE),
            ("signs", "sign-rank", INLINE),
            ("again", "sign-rank", SearchLayout(workers=1, tensorboard=False)),
        )
    ]
    returns, signs, again = (run.folder.fingerprints_csv.read_bytes() for run in found)
    assert signs == again
    assert signs != returns


def test_the_page_says_which_of_the_published_ranges_a_preset_has():
    page = (Path(__file__).resolve().parents[2] / "docs" / "aes-rl.md").read_text()
    table = page.split("| r of the script |")[1].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    assert len(rows) == 6
    for task, of_config_files, _ in rows:
        preset = AES.PRESETS[task.strip("`")]
        assert preset["fitness_range"] == -preset["fitness_baseline"] == float(of_config_files)
