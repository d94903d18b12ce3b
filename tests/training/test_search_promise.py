"""The promise: what must not matter is changed, and bytes are compared."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from campaigns import FAULTS, cases
from doubles import GatherAt, KillAt, SleepAt

from drumline.api.foreign_code import TRUSTED
from drumline.api.opened_runs import silent
from drumline.api.run import Run, resume, train
from drumline.api.run_document import PROMISE, run_document
from drumline.commands.verify import verify_again
from drumline.errors import ImpureEnvironment
from drumline.recipes.es import ES
from drumline.runs.folder import RunError, RunFolder
from drumline.training.layout import SearchLayout
from drumline.training.run_request import RunRequest

SMALL = ES(
    env="InvertedPendulum-v5",
    total_steps=900,
    population_size=8,
    std=0.1,
    obs_stat_probability=0.5,
    noise_table_size=1 << 16,
    hidden=(8,),
    evaluate_every=3,
    evaluate_episodes=2,
)
LASTING = ("fingerprints.csv", "episodes.csv", "evaluations.csv", "policy-last.safetensors")


def lasting_bytes(folder: Path) -> dict[str, bytes]:
    """Everything in a run folder that wall-clock time has no part in."""
    return {name: (folder / name).read_bytes() for name in LASTING}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("expected") / "run"
    train(SMALL, workers="inline", out=out)
    return lasting_bytes(out)


@pytest.mark.parametrize("workers", cases([1, 2, 3, 7], quick=[3]))
def test_the_number_of_workers_changes_no_byte(tmp_path: Path, expected, workers: int):
    run = train(SMALL, workers=workers, out=tmp_path / "run")
    assert lasting_bytes(run.path) == expected


@FAULTS
def test_an_odd_number_of_members_without_pairs_has_the_same_bytes_however_it_is_run(
    tmp_path: Path,
):
    config = replace(SMALL, mirrored=False, population_size=7, total_steps=600)
    inline = SearchLayout(pool="inline", keep_scalars=True)
    whole = lasting_bytes(train(config, layout=inline, out=tmp_path / "whole").path)
    counted = [line.partition(b",")[0] for line in whole["episodes.csv"].splitlines()[1:]]
    assert {counted.count(update) for update in set(counted)} == {7}
    assert lasting_bytes(train(config, workers=1, out=tmp_path / "one").path) == whole
    probe = KillAt("episode-begun", tmp_path / "flag")
    killed = run_with_probe(tmp_path / "three", probe, config, workers=3)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(killed.path) == whole
    first = train(replace(config, total_steps=200), workers="inline", out=tmp_path / "resumed")
    again = resume(first.folder, SearchLayout(workers=2), total_steps=config.total_steps)
    assert lasting_bytes(again.path) == whole
    assert verify_again(again.folder, 2, SearchLayout(workers=1), TRUSTED) == (2, None)


def test_every_third_version_and_the_last_one_are_evaluated(expected: dict[str, bytes]):
    header, *rows = expected["evaluations.csv"].decode().splitlines()
    assert header.startswith("update,")
    *on_the_way, last = [int(row.partition(",")[0]) for row in rows]
    assert on_the_way == list(range(3, last, 3))
    assert last == int(expected["fingerprints.csv"].decode().splitlines()[-1].partition(",")[0])


def test_update_threads_change_no_byte(tmp_path: Path, expected):
    layout = SearchLayout(pool="inline", update_threads=3)
    assert lasting_bytes(train(SMALL, layout=layout, out=tmp_path / "run").path) == expected


@pytest.mark.parametrize(
    "point",
    cases(
        [
            "child-started",
            "worker-built",
            "lease-received",
            "before-task",
            "episode-begun",
            "episode-ended",
            "after-task",
            "before-result",
            "half-result",
            "result-sent",
        ],
        quick=[],
    ),
)
def test_a_worker_killed_at_any_point_changes_no_byte(tmp_path: Path, expected, point: str):
    probe = KillAt(point, tmp_path / "flag")
    folder = run_with_probe(tmp_path / "run", probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder.path) == expected


@FAULTS
@pytest.mark.skipif(find_spec("envpool") is None, reason="EnvPool exists for Linux")
@pytest.mark.parametrize("env", ["CartPole-v1", "InvertedPendulum-v4"])
def test_envpool_gives_the_same_bytes_on_any_layout_and_after_a_kill(tmp_path: Path, env: str):
    config = replace(SMALL, env=env, engine="envpool", total_steps=200)
    inline = lasting_bytes(train(config, workers="inline", out=tmp_path / "inline").path)
    assert lasting_bytes(train(config, workers=1, out=tmp_path / "one").path) == inline
    probe = KillAt("episode-begun", tmp_path / "flag")
    assert lasting_bytes(run_with_probe(tmp_path / "killed", probe, config).path) == inline
    assert (tmp_path / "flag").exists()


WITHDRAWING = {
    "Pendulum-v1": 500,  # always two blocks of two episodes of 200 steps
    "CartPole-v1": 120,  # three or four blocks, so that a late result's place may be counted
}
"""Environment → env steps of a generation; the more workers, the more blocks are begun in vain."""


@pytest.mark.parametrize("env", cases(WITHDRAWING, quick=["CartPole-v1"]))
def test_steps_of_discarded_episodes_are_counted_apart_on_any_layout(tmp_path: Path, env: str):
    config = replace(
        SMALL,
        env=env,
        population_size=2,
        generation_env_steps=WITHDRAWING[env],
        total_steps=12 * WITHDRAWING[env],
    )
    seen = set()
    # Three workers come to their first episodes together, so none is late for the whole run.
    gathered = GatherAt("episode-begun", 3, tmp_path / "came")
    for workers in ("inline", 1, 3):
        out = tmp_path / str(workers)
        if workers == 3:
            run = Run(run_with_probe(out, gathered, config, workers=3))
        else:
            run = train(config, workers=workers, out=out)
        lengths: dict[int, int] = {}
        for row in (run.path / "episodes.csv").read_text().splitlines()[1:]:
            update, *_, length = row.split(",")
            lengths[int(update)] = lengths.get(int(update), 0) + int(length)
        counted = 0
        for metrics in run.metrics:
            counted += lengths[int(metrics["update"])]
            assert metrics["env_steps"] == counted
            assert lengths[int(metrics["update"])] >= WITHDRAWING[env]
        assert run.metrics[0]["env_steps_discarded"] > 0  # its rehearsals
        seen.add(run.folder.fingerprints_csv.read_bytes())
        seen.add(run.folder.episodes_csv.read_bytes())
    assert sum(row["env_steps_discarded"] for row in run.metrics[1:]) > 0  # three workers
    assert len(seen) == 2


@FAULTS
def test_random_sleeps_change_no_byte(tmp_path: Path, expected):
    probe = SleepAt(("before-task",), 0.01)
    assert lasting_bytes(run_with_probe(tmp_path / "run", probe).path) == expected


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, expected):
    first = train(replace(SMALL, total_steps=400), workers=2, out=tmp_path / "run")
    again = resume(
        first.folder, SearchLayout(pool="inline"), total_steps=SMALL.total_steps, trust=TRUSTED
    )
    assert lasting_bytes(again.path) == expected


STOPPED = replace(SMALL, total_steps=20_000, noise_table_size=1 << 12)


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("whole") / "run"
    return lasting_bytes(train(STOPPED, workers="inline", out=out).path)


@FAULTS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("delay", [pytest.param(0.0, marks=pytest.mark.slow), 0.15])
def test_a_run_stopped_by_a_signal_goes_on_with_the_same_bits(
    tmp_path: Path, never_stopped: dict[str, bytes], number: int, delay: float
):
    out = tmp_path / "stopped"
    flags = [
        f"--total-steps={STOPPED.total_steps}",
        "--population-size=8",
        "--std=0.1",
        "--obs-stat-probability=0.5",
        "--noise-table-size=4096",
        "--hidden",
        "8",
        "--evaluate-every=3",
        "--evaluate-episodes=2",
        "--learning-rate=0.01",
        "--weight-decay=0.005",
        "--workers=2",
        "--quiet",
        f"--out={out}",
    ]
    command = [sys.executable, "-m", "drumline", "train", "es", STOPPED.env, *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    metrics = out / "metrics.csv"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text().count("\n") >= 3):
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(delay)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == (128 + number if number != signal.SIGKILL else -number), errors
    resume(RunFolder.open(out), SearchLayout(workers=1), trust=TRUSTED)
    assert lasting_bytes(out) == never_stopped


def test_an_environment_with_hidden_state_is_caught(tmp_path: Path):
    config = replace(SMALL, env="impure_environment:HiddenState", total_steps=100)
    with pytest.raises(ImpureEnvironment, match="hidden state"):
        train(config, workers=2, out=tmp_path / "run")


def test_no_promise_lets_an_impure_environment_train_and_verify_refuses(tmp_path: Path):
    config = replace(SMALL, env="impure_environment:HiddenState", total_steps=100, promise=False)
    run = train(config, workers="inline", out=tmp_path / "run")
    with pytest.raises(RunError, match="no promise"):
        verify_again(run.folder, None, SearchLayout(pool="inline"), TRUSTED)


def test_verify_repeats_a_run_and_notices_a_changed_row(tmp_path: Path):
    run = train(SMALL, workers="inline", out=tmp_path / "run")
    assert verify_again(run.folder, 4, SearchLayout(workers=1, tensorboard=False), TRUSTED) == (
        4,
        None,
    )
    other = train(replace(SMALL, seed=1), workers="inline", out=tmp_path / "other")
    path = run.folder.fingerprints_csv
    path.write_bytes(other.folder.fingerprints_csv.read_bytes())
    _, difference = verify_again(run.folder, 4, SearchLayout(pool="inline"), TRUSTED)
    assert difference is not None
    assert difference.update == 1


@FAULTS
def test_every_process_of_the_layout_works_and_nothing_is_left_behind(tmp_path: Path):
    before = set(os.listdir("/dev/shm"))
    probe = GatherAt("episode-begun", 2, tmp_path / "came")
    folder = run_with_probe(tmp_path / "run", probe)
    rows = folder.processes_csv.read_text().splitlines()[1:]
    assert len(rows) == 2
    assert all(int(row.split(",")[3]) > 0 for row in rows)
    assert set(os.listdir("/dev/shm")) <= before
    assert not [pid for row in rows if alive(pid := int(row.split(",")[2]))]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def run_with_probe(out: Path, probe, config: ES = SMALL, workers: int = 2) -> RunFolder:
    layout = SearchLayout(workers=workers)
    document = run_document(config, layout, PROMISE)
    folder = RunFolder.create(
        out, method="es", env_id=config.env, seed=config.seed, document=document
    )
    config.build(layout).opened(RunRequest(folder, layout, silent(), probe_factory=probe)).run()
    return folder
