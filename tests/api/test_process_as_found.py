"""Calls from Python compute with one thread of NumPy's, with torch's own settings, and in turns."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from thread_counts import threads
from threadpoolctl import threadpool_limits

import drumline
from drumline.api.process_as_found import process_as_found

TESTS = str(Path(__file__).parents[1])
SETS_A_DTYPE = """
import impure_environment
import torch

torch.set_default_dtype(torch.float64)
Counting = impure_environment.Counting
"""
SMALL = "hidden=(4,), evaluate_every=0, evaluate_episodes=2"
SEARCH = f"{SMALL}, total_steps=30, population_size=4, noise_table_size=4096"
STREAM = f"{SMALL}, total_steps=60, replay_size=60, batch_size=4, steps_per_update=20"


def printed(script: str, place: Path) -> list[str]:
    """Run a script in a process of its own, whose libraries are not loaded yet."""
    begin = f"import sys; sys.path.insert(0, {TESTS!r})\nimport drumline\n"
    removed = {"OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"}
    environ = {name: value for name, value in os.environ.items() if name not in removed}
    done = subprocess.run(
        [sys.executable, "-c", begin + script],
        cwd=place,
        env={**environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@threadpool_limits.wrap(limits=2, user_api="blas")  # more than a worker has
def test_a_call_has_one_thread_and_gives_the_others_back():
    with process_as_found():
        assert threads() == 1
    assert threads() == 2


@threadpool_limits.wrap(limits=2, user_api="blas")
def test_an_evaluation_of_a_saved_policy_is_that_of_a_worker(tmp_path: Path):
    small = {"hidden": (4,), "total_steps": 60, "population_size": 4, "noise_table_size": 4096}
    env = "thread_counts:CountsThreads"
    run = drumline.train("es", env, workers=1, out=tmp_path / "run", evaluate_every=0, **small)
    with threadpool_limits(1, "blas"):
        alone = run.evaluate(2)
    assert run.evaluate(2) == alone


@pytest.mark.parametrize(("method", "settings"), [("es", SEARCH), ("td3", STREAM)])
def test_a_library_that_an_environment_loads_has_one_thread_too(
    method: str, settings: str, tmp_path: Path
):
    script = f"""
import os
run = drumline.train({method!r}, "api.late_blas:LateBlas", workers="inline", out="run", {settings})
print(*run.evaluate(3).returns, os.environ.get("OPENBLAS_NUM_THREADS"))
print({{row["episode_return_mean"] for row in run.metrics}})
"""
    assert printed(script, tmp_path) == ["3.0 3.0 3.0 None", "{3.0}"]


@pytest.mark.parametrize(("method", "settings"), [("es", SEARCH), ("td3", STREAM)])
def test_a_module_that_changes_torchs_settings_changes_no_bit(
    method: str, settings: str, tmp_path: Path
):
    (tmp_path / "sets_a_dtype.py").write_text(SETS_A_DTYPE)
    script = f"""
env = "sets_a_dtype:Counting"
for name in ("first", "second"):
    drumline.train({method!r}, env, workers="inline", out=name, {settings})
import torch
print(torch.get_default_dtype())
drumline.train({method!r}, env, workers=1, out="worker", {settings})
"""
    assert printed(script, tmp_path) == ["torch.float32"]
    first, *others = (
        (tmp_path / name / "fingerprints.csv").read_bytes()
        for name in ("first", "second", "worker")
    )
    assert first.count(b"\n") > 2
    assert others == [first, first]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_the_thread_of_its_parent():
    begun, over = threading.Event(), threading.Event()

    def hold() -> None:
        with process_as_found():
            begun.set()
            over.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    begun.wait(30)
    child = os.fork()
    if child == 0:
        with process_as_found():
            os._exit(0)
    waiting = threading.Timer(20, os.kill, (child, 9))
    waiting.start()
    _, status = os.waitpid(child, 0)
    waiting.cancel()
    over.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 0
