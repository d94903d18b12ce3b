"""The Python interface as its users meet it: a bare script, a notebook, one episode."""

import csv
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from campaigns import FAULTS
from nbclient import NotebookClient
from threadpoolctl import threadpool_limits

import drumline
from drumline import cli
from drumline.api.loaded_policy import LoadedPolicy
from drumline.recipes.hts import HTS
from drumline.training.layout import Layout, LockstepLayout, SearchLayout

TESTS = Path(__file__).resolve().parents[1]
CONFIG = drumline.ES(
    env="impure_environment:Counting",
    total_steps=20_000,
    population_size=8,
    noise_table_size=4_096,
    hidden=(4,),
    evaluate_episodes=2,
)
SHORT = replace(CONFIG, total_steps=160)
CELLS = [
    f"""
import os, signal, sys, threading, time
sys.path.insert(0, {str(TESTS)!r})
import drumline, psutil
from drumline import ES
config = {CONFIG!r}
""",
    """
def interrupt():
    while not (os.path.exists("run/metrics.csv") and len(open("run/metrics.csv").readlines()) > 3):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    drumline.train(config, workers=2, out="run")
except BaseException as stop:
    print(type(stop).__name__, stop)
""",
    """
run = drumline.load("run", trust_code=True).resume(workers=2)
again = drumline.load("run", trust_code=True)
print(len(run.metrics), run.evaluate(2).mean == again.evaluate(2).mean)
""",
    """
class Mine:
    pass

try:
    drumline.train(ES(env="__main__:Mine"), workers=2)
except ValueError as error:
    print(error)
print([child for child in psutil.Process().children() if "drumline" in " ".join(child.cmdline())])
""",
]


@pytest.mark.parametrize("config", [CONFIG, HTS(env="", num_envs=8)])
def test_a_wrapper_that_keeps_statistics_is_named_where_bits_differ(tmp_path: Path, config: Any):
    normalized = replace(config, env="faulty_environments:normalized")
    with pytest.raises(drumline.ImpureEnvironment, match="hidden state") as caught:
        drumline.train(normalized, workers="inline", out=tmp_path / "run")
    (note,) = caught.value.__notes__
    for name, flag in (
        ("NormalizeObservation", "--normalize-observations"),
        ("NormalizeReward", "--scale-rewards"),
    ):
        assert re.search(f"its wrapper {name} keeps statistics.* train with {flag}", note), note
    other = replace(config, env="impure_environment:HiddenState")
    with pytest.raises(drumline.ImpureEnvironment, match="hidden state") as caught:
        drumline.train(other, workers="inline", out=tmp_path / "other")
    assert not getattr(caught.value, "__notes__", [])


@pytest.mark.parametrize("method", ["es", "hts"])
def test_numbers_of_numpy_train_as_pythons_own(method: str, tmp_path: Path):
    def config_of(name: str, **given: Any) -> dict[str, Any]:
        run = drumline.train(method, "CartPole-v1", workers="inline", out=tmp_path / name, **given)
        return run.folder.document["config"]

    size = {"es": {"population_size": 4, "noise_table_size": 4096}, "hts": {"num_envs": 8}}[method]
    pythons = config_of("own", seed=3, learning_rate=0.5, hidden=(4,), total_steps=512, **size)
    numpys = config_of(
        "numpys",
        seed=np.int64(3),
        learning_rate=np.float32(0.5),
        hidden=np.array([4]),
        total_steps=np.int32(512),
        **{name: np.int16(value) for name, value in size.items()},
    )
    assert numpys == pythons


@pytest.mark.parametrize("config", [SHORT, HTS(SHORT.env, total_steps=256, num_envs=4, alpha=8)])
def test_a_resume_to_a_broken_number_of_steps_is_refused_and_harms_nothing(
    config: Any, tmp_path: Path
):
    run = drumline.train(config, workers="inline", out=tmp_path / "run")
    before = run.folder.config_json.read_bytes()
    again = drumline.load(run.path, trust_code=True)
    with pytest.raises(ValueError, match="--total-steps must be a whole number, got 1000"):
        again.resume(total_steps=1e3)
    assert run.folder.config_json.read_bytes() == before
    assert again.resume(total_steps=np.int64(1_000)).config.total_steps == 1_000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"normalize": "False"}, "--normalize must be True or False, got 'False'"),
        ({"promise": 1}, "--promise must be True or False, got 1"),
        ({"hidden": 64}, r"--hidden must be whole numbers, as in \(64, 64\), got 64"),
        ({"hidden": (8.0,)}, r"--hidden must be whole numbers, as in \(64, 64\), got \(8.0,\)"),
        ({"last_update": -1}, "last_update must be a whole number of 0 or more, got -1"),
        ({"last_update": "2"}, "last_update must be a whole number of 0 or more, got '2'"),
    ],
)
def test_settings_of_another_kind_are_refused_before_a_folder_is_made(
    given: dict[str, Any], words: str, tmp_path: Path
):
    with pytest.raises(ValueError, match=words):
        drumline.train("es", "CartPole-v1", out=tmp_path / "run", workers="inline", **given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("config", [SHORT, HTS(SHORT.env, total_steps=256, num_envs=4, alpha=8)])
def test_a_run_without_an_update_has_no_metrics_and_goes_on(config: Any, tmp_path: Path):
    run = drumline.train(config, workers="inline", out=tmp_path / "run", last_update=0)
    assert run.metrics == []
    again = drumline.load(run.path, trust_code=True).resume(workers="inline")
    whole = drumline.train(config, workers="inline", out=tmp_path / "whole")
    both = [(each.path / "fingerprints.csv").read_bytes() for each in (again, whole)]
    assert both[0] == both[1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"workers": "two"},
            "workers must be a whole number of 0 or more, or \"inline\", got 'two'",
        ),
        ({"workers": 1.5}, 'workers must be a whole number of 0 or more, or "inline", got 1.5'),
        ({"workers": True}, 'workers must be a whole number of 0 or more, or "inline", got True'),
        ({"workers": -1}, 'workers must be a whole number of 0 or more, or "inline", got -1'),
        ({"tags": None}, "tags are a list of words, got None"),
        ({"tags": "first"}, "tags are a list of words, got 'first': write ['first']"),
    ],
)
def test_arguments_of_another_kind_are_refused_before_a_folder_is_made(
    given: dict[str, Any], words: str, tmp_path: Path
):
    with pytest.raises(ValueError, match=re.escape(words)):
        drumline.train(SHORT, out=tmp_path / "run", **{"workers": "inline", **given})
    assert not (tmp_path / "run").exists()


def test_a_method_that_is_no_name_is_refused():
    with pytest.raises(ValueError, match="a method is given by its name, as in 'es', got 3"):
        drumline.configure(3, "CartPole-v1")  # pyright: ignore[reportArgumentType]


def test_a_policy_refuses_the_parts_of_an_observation(tmp_path: Path):
    run = drumline.train(SHORT, workers="inline", out=tmp_path / "run")
    named = {"position": np.zeros(1), "velocity": np.zeros(1)}
    for parts in (named, (np.zeros(2), 1), [np.zeros((2, 2)), np.zeros(3)], [named] * 2):
        with pytest.raises(ValueError, match=r"the vector that training had.*spaces\.flatten"):
            run.policy.act(parts)  # pyright: ignore
    assert run.policy.act([0.5, 1.0]) == run.policy.act(np.array([0.5, 1.0]))


def test_the_best_policy_is_loaded_by_name_and_actions_are_drawn_if_asked(tmp_path: Path):
    small = {"num_envs": 2, "alpha": 8, "minibatches": 1, "evaluate_every": 1, "hidden": (4,)}
    run = drumline.train("ppo", "CartPole-v1", total_steps=64, out=tmp_path / "run", **small)
    best = run.load_policy("best")
    assert np.array_equal(best.vector, run.parameters("best"))
    assert np.array_equal(run.load_policy().vector, run.policy.vector)
    rows = np.zeros((64, 4))
    assert isinstance(best, LoadedPolicy)
    drawn = [best.act(rows, rng=np.random.default_rng(seed)).tolist() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 2
    assert len(set(best.act(rows).tolist())) == 1


def test_a_policy_without_a_distribution_draws_nothing(tmp_path: Path):
    config = replace(SHORT, env="Pendulum-v1", action_noise_std=0.0)
    run = drumline.train(config, workers="inline", out=tmp_path / "run")
    with pytest.raises(ValueError, match="this policy is deterministic"):
        run.load_policy().act(np.zeros(3), rng=np.random.default_rng(0))  # pyright: ignore


def test_a_finished_run_says_how_it_would_go_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    config = replace(SHORT, env="CartPole-v1")
    drumline.train(config, workers="inline", out=tmp_path / "run")
    assert cli.run(["resume", str(tmp_path / "run")]) == 0
    said = "".join(capfd.readouterr())
    assert "has made all of its 160 env steps: a greater --total-steps" in " ".join(said.split())


def test_a_resume_refuses_settings_of_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    config = replace(SHORT, env="CartPole-v1")
    run = drumline.train(config, workers="inline", out=tmp_path / "run")
    assert cli.run(["resume", str(run.path), "--learning-rate", "0.1"]) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "--learning-rate is a setting of the run, which keeps its config to the end" in said


@pytest.mark.parametrize(
    ("method", "name", "said"),
    [
        ("ppo", "num_workers", "it is called workers"),
        ("ppo", "vf_coef", "it is called value_coefficient \\(twice Stable-Baselines3's"),
        ("ppo", "batch_size", "it is called minibatches \\(num_envs x alpha / batch_size"),
        ("ppo", "eval_freq", "it is called evaluate_every \\(counted in updates"),
        ("ppo", "anneal_lr", "it is called anneal"),
    ],
)
def test_a_name_of_another_library_is_translated_with_what_differs(
    method: str, name: str, said: str
):
    with pytest.raises(ValueError, match=f"ppo has no setting '{name}': {said}"):
        drumline.configure(method, "CartPole-v1", **{name: 2})


def test_whole_numbers_of_numpy_are_arguments_as_pythons_own(tmp_path: Path):
    two = np.int64(2)
    layout = drumline.Layout(workers=np.int32(1), hang_seconds=np.float32(50))  # pyright: ignore[reportArgumentType]
    run = drumline.train(SHORT, layout=layout, out=tmp_path / "layout")
    assert run.folder.document["layout"]["hang_seconds"] == 50.0
    run = drumline.train(SHORT, workers=np.int32(1), last_update=two, out=tmp_path / "run")  # pyright: ignore[reportArgumentType]
    assert len(run.metrics) == 2
    assert run.episode(two).episode_return == run.episode(2).episode_return  # pyright: ignore[reportArgumentType]
    assert run.evaluate(two, seed=two).returns == run.evaluate(2, seed=2).returns  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("given", [{"episodes": "3"}, {"episodes": 2.5}, {"seed": 1.5}])
def test_episodes_and_seeds_that_are_no_whole_numbers_are_refused(
    given: dict[str, Any], tmp_path: Path
):
    run = drumline.train(SHORT, workers="inline", out=tmp_path / "run")
    again = drumline.load(run.path, trust_code=True)
    with pytest.raises(ValueError, match=f"{next(iter(given))} must be a whole number"):
        again.evaluate(**given)


TWO_MODULES = """
import sys
sys.path.insert(0, {tests!r})
import drumline, mine
before = list(sys.path)
run = drumline.train("es", mine.Env, total_steps=160, population_size=8, noise_table_size=4096,
                     hidden=(4,), evaluate_episodes=2, workers={workers!r}, out={out!r})
assert [path for path in sys.path if path in before] == before
print((run.path / "fingerprints.csv").read_text())
"""
ENVIRONMENT = """
import impure_environment
class Env(impure_environment.Counting):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward + {bonus}, *rest
"""


def test_workers_import_the_module_that_the_script_has_and_not_one_in_the_current_directory(
    tmp_path: Path,
):
    printed: set[str] = set()
    for folder, bonus in (("scripts", 1), ("elsewhere", 1000)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(ENVIRONMENT.format(bonus=bonus))
    for workers in ("inline", 1):
        script = tmp_path / "scripts" / "run.py"
        out = str(tmp_path / f"run-{workers}")
        script.write_text(TWO_MODULES.format(tests=str(TESTS), workers=workers, out=out))
        words = [sys.executable, str(script)]
        done = subprocess.run(
            words, cwd=tmp_path / "elsewhere", capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        printed.add(done.stdout)
    assert len(printed) == 1


class Meets:
    """Holds a training until another thread has tried to begin one."""

    def __init__(self) -> None:
        self.begun, self.tried = threading.Event(), threading.Event()

    def on_update(self, told: Any) -> None:
        self.begun.set()
        self.tried.wait(60)


def test_a_change_of_the_current_directory_moves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Elsewhere:
        def on_update(self, update: dict[str, float]) -> None:
            os.chdir(elsewhere)

    config = replace(SHORT, total_steps=480)
    whole = drumline.train(config, workers="inline", out=tmp_path / "whole")
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(home)
    run = drumline.train(config, workers="inline", out="run", last_update=2, callbacks=Elsewhere())
    assert repr(run).startswith("Run('run': ")
    assert len(run.resume(workers="inline").metrics) == len(whole.metrics)
    assert run.path == home / "run"
    assert not list(elsewhere.iterdir())
    chains = [one.path / "fingerprints.csv" for one in (run, whole)]
    assert chains[0].read_bytes() == chains[1].read_bytes()


def test_trainings_in_two_threads_take_turns_and_have_their_bits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    def fingerprints(name: str, **options: Any) -> bytes:
        run = drumline.train(SHORT, workers="inline", out=tmp_path / name, **options)
        return (run.path / "fingerprints.csv").read_bytes()

    alone = fingerprints("alone")
    meets, found = Meets(), dict[str, bytes]()

    def first() -> None:
        found["first"] = fingerprints("first", callbacks=meets)

    def second() -> None:
        found["second"] = fingerprints("second")

    threads = [threading.Thread(target=each) for each in (first, second)]
    threads[0].start()
    assert meets.begun.wait(60)
    threads[1].start()
    deadline = time.monotonic() + 60
    while "waits for its end" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    exits = os._exit
    meets.tried.set()
    for thread in threads:
        thread.join()
    assert found == {"first": alone, "second": alone}
    assert os._exit is not exits, "the guard's, while a training ran"
    assert "processes can train at the same time" in caplog.text


@pytest.mark.parametrize("closed", [0, 1])
def test_a_process_without_standard_input_or_output_trains(closed: int, tmp_path: Path):
    out = str(tmp_path / "run")
    script = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r}); import drumline; "
        f"drumline.train('hts', 'impure_environment:Counting', total_steps=64, num_envs=4, "
        f"alpha=8, minibatches=1, evaluate_episodes=1, workers=1, out={out!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        stderr=subprocess.PIPE,
        preexec_fn=lambda: os.close(closed),
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_an_exported_policy_leaves_torchs_random_numbers_alone(tmp_path: Path):
    import torch

    run = drumline.train(SHORT, workers="inline", out=tmp_path / "run")
    policy = drumline.load(run.path, trust_code=True).policy
    before = torch.random.get_rng_state()
    policy.to_torch()
    assert torch.equal(torch.random.get_rng_state(), before)


@FAULTS
def test_a_notebook_trains_is_interrupted_and_goes_on_with_the_same_bits(tmp_path: Path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=place).execute()
    printed = [
        "".join(output["text"] for output in cell.outputs if output.get("name") == "stdout")
        for cell in notebook.cells
    ]
    assert printed[1].split() == ["Stopped", signal.SIGINT.name]
    assert printed[2].split() == ["500", "True"]
    shown = [out.data for out in notebook.cells[2].outputs if out.output_type == "display_data"]
    assert len(shown) == 1  # each drawing replaces the one before
    assert "update 500  " in shown[0]["text/plain"]
    assert "<progress" in shown[0]["text/html"]
    assert "__main__:Mine" in printed[3]
    assert 'workers="inline"' in printed[3]
    assert printed[3].splitlines()[-1] == "[]"
    whole = drumline.train(CONFIG, workers="inline", out=tmp_path / "whole")
    for name in ("fingerprints.csv", "episodes.csv", "evaluations.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (whole.path / name).read_bytes()


def test_a_bare_script_without_main_guard_trains(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import drumline\n"
        "config = drumline.ES(env='CartPole-v1', total_steps=60, population_size=4,\n"
        "                     noise_table_size=4096, hidden=(4,), evaluate_episodes=2)\n"
        "run = drumline.train(config, workers=2, out='run')\n"
        "print(len(run.metrics) > 0, run.evaluate(2).mean > 0, drumline.load('run').path.name)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["True", "True", "run"], done.stderr


@pytest.mark.parametrize("config", [CONFIG, drumline.CEM(env="CartPole-v1")])
def test_a_layout_with_flags_that_a_method_does_not_heed_is_refused(tmp_path: Path, config: Any):
    with pytest.raises(ValueError, match=r"(es|cem) takes a \w+, got a LockstepLayout"):
        drumline.train(config, layout=LockstepLayout(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("config", [SHORT, drumline.CEM(env="CartPole-v1", total_steps=60)])
def test_a_general_layout_serves_every_method(tmp_path: Path, config: Any):
    layout = Layout(pool="inline", tensorboard=False)
    run = drumline.train(config, layout=layout, out=tmp_path / "run")
    assert run.resume(workers="inline").metrics == run.metrics


@threadpool_limits.wrap(limits=2, user_api="blas")  # more than a worker has
def test_an_episode_run_alone_is_the_runs_own(tmp_path: Path):
    often = SearchLayout(pool="inline", checkpoint_minutes=1e-6)
    env = "thread_counts:CountsThreads"
    config = replace(SHORT, env=env, evaluate_every=1)
    run = drumline.train(config, layout=often, out=tmp_path / "run")
    with open(run.folder.episodes_csv, newline="") as lines:
        rows = {(int(row["update"]), int(row["member"])): row for row in csv.DictReader(lines)}
    for version in (2, 3):
        for member in (0, 5, 7):
            alone, row = run.episode(member, checkpoint=version), rows[version + 1, member]
            assert alone.episode_return == float(row["episode_return"])
            assert alone.length == int(row["length"])
    with open(run.folder.evaluations_csv, newline="") as lines:
        returns = {int(row["update"]): row["returns"].split(";") for row in csv.DictReader(lines)}
    for version in (3, 4):
        alone = run.episode(1, checkpoint=version, evaluation=True)
        assert alone.episode_return == float(returns[version][1])


@pytest.mark.parametrize("checkpoint", [2.0, "0", -1, True])
def test_a_checkpoint_that_is_no_whole_number_is_refused_as_such(tmp_path: Path, checkpoint: Any):
    run = drumline.train(SHORT, workers="inline", out=tmp_path / "run")
    with pytest.raises(ValueError, match="checkpoint must be a whole number of 0 or more"):
        run.episode(0, checkpoint=checkpoint)


@pytest.mark.parametrize("field", ["env", "policy"])
def test_code_of_a_script_is_refused_for_workers_before_anything_is_written(
    tmp_path: Path, field: str
):
    config = replace(CONFIG, **{field: "__main__:Mine"})
    with pytest.raises(ValueError, match=r"'__main__:Mine' .* workers cannot import"):
        drumline.train(config, workers=2, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
