"""Progress of running tasks as the driver sees it, and the marks that wake it."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import doubles
import pytest
from runtime.contract import NOTHING, MakePool

from drumline.protocols import PublishedLayout
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.shared_arrays import SharedArrays

LONG = 10**9


@pytest.fixture
def gate() -> Iterator[Any]:
    shared = SharedArrays.create(PublishedLayout({"gate": ((1,), "<i8")}))
    yield shared
    shared.close()


@pytest.fixture
def make_pool(gate: SharedArrays) -> Iterator[MakePool]:
    pools: list[ProcessPool] = []

    def make(**options: Any) -> ProcessPool:
        factory = doubles.stepping_worker
        defaults = {"published": NOTHING, "shared": gate, "one_task_leases": True}
        pools.append(ProcessPool(factory, **{**defaults, **options}))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def reached(pool: ProcessPool, amount: int) -> bool:
    return not pool.completed(0.01) and [at for _, at in pool.progressed()] == [amount]


def test_progress_never_decreases_when_a_task_is_issued_again(make_pool: MakePool, gate: Any):
    lines: list[str] = []
    pool = make_pool(size=1, log=lines.append)
    task = ("one", 9)
    gate.arrays["gate"][0] = 5
    pool.submit([task])
    doubles.wait_until(partial(reached, pool, 5))
    gate.arrays["gate"][0] = 2
    os.kill(doubles.living(pool)[0], signal.SIGKILL)
    doubles.wait_until(lambda: not pool.completed(0.01) and pool.activity()[-1].progress == 2)
    assert len(lines) == 1
    assert pool.progressed() == [(task, 5)]
    gate.arrays["gate"][0] = 7
    doubles.wait_until(partial(reached, pool, 7))
    gate.arrays["gate"][0] = LONG
    assert [done.result for done in doubles.collect(pool, 1)] == ["one"]
    assert pool.progressed() == []


def test_reaching_a_mark_returns_from_waiting_without_a_result(make_pool: MakePool, gate: Any):
    pool = make_pool(size=1)
    task = ("one", LONG)
    pool.submit([task])
    pool.wake_at(task, 4)
    gate.arrays["gate"][0] = 4
    assert pool.completed() == []
    assert pool.progressed() == [(task, 4)]
    pool.wake_at(task, 6)
    gate.arrays["gate"][0] = 6
    assert pool.completed() == []
    assert pool.progressed() == [(task, 6)]
    assert pool.outstanding == 1


def test_a_mark_outlives_the_worker_that_was_to_reach_it(make_pool: MakePool, gate: Any):
    pool = make_pool(size=1, log=lambda line: None)
    task = ("one", LONG)
    gate.arrays["gate"][0] = 3
    pool.submit([task])
    pool.wake_at(task, 5)
    doubles.wait_until(partial(reached, pool, 3))
    os.kill(doubles.living(pool)[0], signal.SIGKILL)
    gate.arrays["gate"][0] = 5
    assert pool.completed() == []
    assert pool.progressed() == [(task, 5)]


@pytest.mark.parametrize("point", ["mark-reached", "before-task"])
def test_a_kill_where_a_mark_is_reached_loses_nothing(
    make_pool: MakePool, gate: Any, tmp_path: Path, point: str
):
    lines: list[str] = []
    fault = doubles.KillAt(point, tmp_path / "flag")
    pool = make_pool(size=1, probe_factory=fault, log=lines.append)
    task = ("one", LONG)
    gate.arrays["gate"][0] = 5
    pool.submit([task])
    pool.wake_at(task, 5)
    assert pool.completed() == []
    assert pool.progressed() == [(task, 5)]
    assert len(lines) == 1


def test_with_one_task_leases_no_task_waits_while_a_process_is_free(make_pool: MakePool, gate: Any):
    pool = make_pool(size=3)
    gate.arrays["gate"][0] = 1
    quick = [(f"quick {number}", 1) for number in range(60)]
    pool.submit(quick)
    doubles.collect(pool, 60)
    assert all(span.tasks == 1 for span in pool.timeline())
    long = [("long", LONG), ("longer", LONG)]
    pool.submit([*long, *quick])
    assert len(doubles.collect(pool, 60)) == 60
    doubles.wait_until(lambda: len(pool.progressed()) == 2)
    assert sorted(pool.progressed()) == [(task, 1) for task in sorted(long)]


def test_more_processes_than_cores_run_their_tasks_side_by_side(make_pool: MakePool, gate: Any):
    size = 2 * (os.cpu_count() or 1) + 1
    pool = make_pool(size=size)
    gate.arrays["gate"][0] = 1
    tasks = [(str(number), LONG) for number in range(size)]
    pool.submit(tasks)
    doubles.wait_until(lambda: not pool.completed(0.01) and len(pool.progressed()) == size)
    assert sorted(pool.progressed()) == sorted((task, 1) for task in tasks)
