import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import doubles
import numpy as np
import pytest
from campaigns import FAULTS, cases
from descriptors import open_descriptors
from runtime.contract import NOTHING, MakePool, OneMachineContract

from drumline.errors import TaskKilledWorkers, WorkerError
from drumline.protocols import PublishedLayout
from drumline.runtime.board import CREATING, IDLE
from drumline.runtime.inline_pool import InlinePool
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.shared_arrays import SharedArrays


@pytest.fixture
def make_pool() -> Iterator[MakePool]:
    """Makes pools and closes them, whatever the test does."""
    pools: list[ProcessPool] = []

    def make(factory: Any, **options: Any) -> ProcessPool:
        pools.append(ProcessPool(factory, **{"size": 2, "published": NOTHING, **options}))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


class TestProcessPool(OneMachineContract):
    pass


@pytest.mark.parametrize("size", cases([1, 2, 3, 7], quick=[1, 3]))
def test_any_number_of_processes_gives_the_same_bytes(make_pool: MakePool, size: int):
    here = InlinePool(doubles.digest_worker, published=NOTHING)
    sleepy = doubles.SleepAt(longest=0.002)
    folded: set[bytes] = set()
    for pool in (here, make_pool(doubles.digest_worker, size=size, probe_factory=sleepy)):
        pool.publish(0, {})
        pool.submit([doubles.Digest(number) for number in range(40)])
        folded.add(doubles.fold(doubles.collect(pool, 40)))
        pool.close()
    assert len(folded) == 1


def test_every_process_does_its_share(make_pool: MakePool):
    pool = make_pool(doubles.digest_worker, size=3)
    pool.publish(0, {})
    doubles.wait_ready(pool)
    pool.submit([doubles.Digest(number, seconds=0.005) for number in range(30)])
    doubles.collect(pool, 30)
    assert [row.index for row in pool.activity() if row.tasks] == [0, 1, 2]


def test_thousands_of_tiny_tasks_travel_in_few_messages(make_pool: MakePool):
    pool = make_pool(doubles.echo_worker)
    pool.submit(list(range(20_000)))
    results = doubles.collect(pool, 20_000)
    assert sorted(done.result for done in results) == list(range(20_000))
    assert len(pool.timeline()) < 2_000


def test_a_task_that_failed_beside_results_may_still_be_waited_for(make_pool: MakePool):
    pool = make_pool(doubles.refuse_odd, size=1)
    pool.submit([0] * 200)
    doubles.collect(pool, 200)  # tiny tasks travel together from now on
    pool.submit([2, 4, 5])
    doubles.collect(pool, 2)
    pool.wake_at(5, 1)
    with pytest.raises(WorkerError, match="5 is odd"):
        pool.completed()


def test_tasks_and_results_may_be_larger_than_a_pipe(make_pool: MakePool):
    pool = make_pool(doubles.large_worker)
    pool.submit([1_000_000 + k for k in range(6)])
    assert all(done.result.size == done.task for done in doubles.collect(pool, 6))
    echo = make_pool(doubles.echo_worker)
    echo.submit([np.full(500_000, k) for k in range(6)])
    assert sorted(int(done.result[0]) for done in doubles.collect(echo, 6)) == list(range(6))


def test_a_worker_may_reuse_its_arrays_for_the_next_task(make_pool: MakePool):
    pool = make_pool(doubles.reusing_worker)
    pool.submit(list(range(200)))
    assert all(done.result[0] == done.task for done in doubles.collect(pool, 200))


def test_a_result_that_cannot_travel_is_an_error_of_its_task(make_pool: MakePool):
    pool = make_pool(doubles.function_worker)
    pool.submit([5])
    with pytest.raises(WorkerError, match=r"(?i)can't pickle|cannot pickle|can't get") as caught:
        pool.completed()
    assert caught.value.task == 5


def test_a_task_that_cannot_travel_is_refused_alone(make_pool: MakePool):
    pool = make_pool(doubles.echo_worker, size=1)
    doubles.wait_ready(pool)
    with pytest.raises(ValueError, match=r"<lambda>.* cannot be sent to a worker"):
        pool.submit([lambda: 0, 1, 2])
    assert pool.outstanding == 2
    assert sorted(done.result for done in doubles.collect(pool, 2)) == [1, 2]


def test_a_pool_of_no_processes_is_refused():
    with pytest.raises(ValueError, match="size of at least 1, got 0"):
        ProcessPool(doubles.echo_worker, size=0, published=NOTHING)


def test_a_light_worker_is_ready_soon_and_imports_nothing_heavy(make_pool: MakePool):
    pool = make_pool(doubles.module_worker, size=1)
    pool.submit([["torch", "gymnasium", "scipy", "multiprocessing"]])
    assert pool.completed()[0].result == []
    assert pool.ready_seconds[0] < 0.6


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"])
def test_a_worker_has_one_thread_for_linear_algebra(make_pool: MakePool, name: str):
    pool = make_pool(doubles.environment_worker, size=1)
    pool.submit([name])
    assert pool.completed()[0].result == "1"


def test_a_running_task_learns_that_it_was_called_back(make_pool: MakePool):
    shared = SharedArrays.create(PublishedLayout({"started": ((1,), "<i8")}))
    pool = make_pool(doubles.patient_worker, size=1, shared=shared)
    pool.submit(["wait", *range(50)])
    doubles.wait_until(lambda: not pool.completed(0.01) and shared.arrays["started"][0] == 1)
    pool.withdraw()
    assert pool.outstanding == 0
    assert [done[:3] for done in pool.completed()] == [("wait", True, True)]
    assert pool.completed() == []
    pool.submit(["next"])
    assert [done[:3] for done in pool.completed()] == [("next", False, False)]
    pool.close()
    shared.close()


def test_idle_time_before_a_task_is_no_sign_of_a_hang(make_pool: MakePool):
    """A straggler elsewhere may leave a worker idle for longer than a task may stand still."""
    pool = make_pool(doubles.echo_worker, size=1, hang_seconds=60.0, log=lambda line: None)
    pool.submit([1])
    doubles.collect(pool, 1)
    (worker,) = pool._fleet.workers
    assert not pool._fleet._has_fallen(worker, 100.0)
    os.kill(worker.pid, signal.SIGSTOP)  # it does not begin before the driver looks
    pool.submit([2])
    assert not pool._fleet._has_fallen(worker, 1.0)
    assert not pool._fleet._has_fallen(worker, 59.0)
    os.kill(worker.pid, signal.SIGCONT)
    assert [done.result for done in pool.completed()] == [2]
    os.kill(worker.pid, signal.SIGSTOP)
    pool.submit([3])
    assert not pool._fleet._has_fallen(worker, 1.0)
    assert pool._fleet._has_fallen(worker, 61.0)
    assert [done.result for done in pool.completed()] == [3], "issued again"


def test_another_thread_may_wake_the_pool(make_pool: MakePool, tmp_path: Path):
    hang = doubles.HangAt("before-task", tmp_path / "flag")
    pool = make_pool(doubles.echo_worker, size=1, probe_factory=hang)
    pool.submit([1])
    doubles.wait_until(lambda: not pool.completed(0.01) and hang.flag.exists())
    thread = threading.Timer(0.05, pool.wake)
    thread.start()
    assert pool.completed() == []  # it would wait for a minute
    thread.join()


def test_the_death_of_a_worker_with_withdrawn_tasks_issues_nothing_again(
    make_pool: MakePool, tmp_path: Path
):
    lines: list[str] = []
    hang = doubles.HangAt("before-task", tmp_path / "flag")
    pool = make_pool(doubles.echo_worker, size=1, probe_factory=hang, log=lines.append)
    pool.submit(list(range(20)))
    doubles.wait_until(lambda: not pool.completed(0.01) and hang.flag.exists())
    pool.withdraw()
    os.kill(doubles.living(pool)[0], signal.SIGKILL)
    assert pool.completed() == []
    assert len(lines) == 1
    assert "0 tasks issued again" in lines[0]
    pool.submit(["next"])
    assert [done.result for done in pool.completed()] == ["next"]


def test_a_task_that_kills_three_workers_fails_the_run_with_its_own_name(make_pool: MakePool):
    lines: list[str] = []
    pool = make_pool(doubles.deadly_worker, log=lines.append)
    pool.submit([doubles.Deadly(number, number == 3) for number in range(12)])
    survivors: list[int] = []
    errors: list[TaskKilledWorkers] = []
    while len(survivors) < 11 or not errors:
        try:
            survivors += [done.result for done in doubles.collect(pool, 1)]
        except TaskKilledWorkers as error:
            errors.append(error)
    assert errors[0].task == doubles.Deadly(3, True)
    assert errors[0].causes == ("SIGKILL",) * 3
    assert "Deadly(number=3, kills=True) ended its worker 3 times" in str(errors[0])
    assert len(lines) == 3
    assert pool.completed() == []
    assert sorted(survivors) == [number for number in range(12) if number != 3]


def test_a_worker_that_always_dies_while_it_is_built_fails_the_run(make_pool: MakePool):
    lines: list[str] = []
    pool = make_pool(doubles.suicidal_factory, log=lines.append)
    pool.submit([1])
    with pytest.raises(RuntimeError, match=r"3 times in a row .* SIGKILL while building"):
        pool.completed()
    assert len(lines) >= 3


def test_a_worker_that_builds_more_of_itself_in_a_task_has_as_long_as_at_its_creation(
    make_pool: MakePool, tmp_path: Path
):
    pool = make_pool(doubles.late_builder, size=1)
    doubles.wait_until(lambda: phase(pool) == IDLE)
    pool.submit([tmp_path / "built"])
    # What the fleet takes its limit from.
    doubles.wait_until(lambda: not pool.completed(0.0) and phase(pool) == CREATING)
    (tmp_path / "built").touch()
    assert [done.result for done in pool.completed()] == [True]
    doubles.wait_until(lambda: phase(pool) == IDLE)


def phase(pool: ProcessPool) -> int:
    return pool._fleet.board.status(0).phase


def test_progress_keeps_a_long_task_from_being_taken_for_hung(make_pool: MakePool):
    worker = make_pool(doubles.echo_worker, size=1)._fleet.workers[0]
    assert worker.stillness.seconds(("running", 1), 30.0) == 0.0
    assert worker.stillness.seconds(("running", 1), 30.0) == 30.0
    assert worker.stillness.seconds(("running", 2), 30.0) == 0.0
    assert worker.stillness.seconds(("running", 2), 30.0) == 30.0


def test_closing_leaves_no_process_and_no_descriptor(make_pool: MakePool):
    make_pool(doubles.echo_worker, size=1).close()
    before = open_descriptors()
    pool = make_pool(doubles.digest_worker, size=3)
    pool.publish(0, {})
    pool.submit([doubles.Digest(number, seconds=30.0) for number in range(9)])
    pool.completed(0.3)
    pids = doubles.living(pool)
    pool.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert open_descriptors() <= before
    assert not list(Path("/dev/shm").glob("*drumline*"))
    assert [row.pid for row in pool.activity()] == pids


@FAULTS
def test_an_abandoned_pool_leaves_no_process():
    pool = ProcessPool(doubles.echo_worker, size=2, published=NOTHING)
    pids = doubles.living(pool)
    del pool
    gc.collect()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_the_search_path_of_the_driver_is_the_workers_too(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "far_away.py").write_text("def factory(context):\n    return lambda task: -task\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from far_away import factory  # type: ignore[import-not-found]

    pool = make_pool(factory, size=1)
    pool.submit([4])
    assert pool.completed()[0].result == -4
    del sys.modules["far_away"]


def test_a_worker_that_is_built_and_never_says_so_has_fallen_after_the_time_of_its_creation(
    make_pool: MakePool,
):
    pool = make_pool(doubles.echo_worker, size=1)
    doubles.wait_until(lambda: phase(pool) == IDLE)
    fleet, (worker,) = pool._fleet, pool._fleet.workers
    assert worker.ready_seconds is None  # as if it was stopped before its message
    fallen = [fleet._has_fallen(worker, fleet._creation_seconds / 2) for _ in range(3)]
    assert fallen == [False, False, True]
    assert worker.hung


def test_a_stacking_worker_runs_the_tasks_of_a_lease_side_by_side(make_pool: MakePool):
    pool = make_pool(doubles.stacking_worker, size=1)
    pool.submit([0, *range(2, 100, 2)])
    done = doubles.collect(pool, 50)
    assert sorted(each.result[0] for each in done) == list(range(0, 100, 2))
    assert max(each.result[1] for each in done) >= 4
    assert pool.activity()[0].tasks == 50


def test_a_failure_side_by_side_is_of_its_own_task_alone(make_pool: MakePool):
    pool = make_pool(doubles.stacking_worker, size=1)
    pool.submit([0] * 20)
    doubles.collect(pool, 20)  # a lease has many tasks from now on
    pool.submit([2, 4, 5, 6, 8])
    results: list[int] = []
    failed: list[WorkerError] = []
    more = True
    while more:  # tasks that are issued again may end before the exception is raised
        try:
            done = pool.completed()
            more = bool(done)
            results += [each.result[0] for each in done]
        except WorkerError as error:
            failed.append(error)
    assert [(error.task, "5 is odd" in str(error)) for error in failed] == [(5, True)]
    assert sorted(results) == [2, 4, 6, 8]


def test_a_task_that_kills_a_stack_is_told_from_those_beside_it(make_pool: MakePool):
    lines: list[str] = []
    pool = make_pool(doubles.stacking_worker, size=1, log=lines.append)
    pool.submit([0] * 20)
    doubles.collect(pool, 20)
    pool.submit([2, -4, 6, 8])
    with pytest.raises(TaskKilledWorkers) as raised:
        doubles.collect(pool, 4)
    assert raised.value.task == -4
