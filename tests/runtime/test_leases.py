import heapq

import pytest

from drumline.runtime.leases import LEASE_SECONDS, Pace, TaskQueue, lease_size, may_wait


def simulate(durations: list[float], workers: int) -> list[float]:
    """Return when each worker ends, dispatching as `ProcessPool` does (oracle of the tail)."""
    queue, paces = list(durations), [Pace() for _ in range(workers)]
    held: list[list[list[float]]] = [[] for _ in range(workers)]
    ends = [0.0] * workers
    events: list[tuple[float, int]] = []

    def dispatch(now: float) -> None:
        for level in (0, 1):
            for index in range(workers):
                size = lease_size(len(queue), workers, paces[index])
                allowed = level == 0 or may_wait(size, len(queue), workers)
                if queue and len(held[index]) == level and allowed:
                    held[index].append([queue.pop(0) for _ in range(size)])
                    if level == 0:
                        heapq.heappush(events, (now + sum(held[index][0]), index))

    dispatch(0.0)
    while events:
        now, index = heapq.heappop(events)
        ends[index] = now
        lease = held[index].pop(0)
        paces[index].observe(len(lease), sum(lease))
        if held[index]:
            heapq.heappush(events, (now + sum(held[index][0]), index))
        dispatch(now)
    assert not queue
    return ends


@pytest.mark.parametrize("workers", [2, 3, 8])
@pytest.mark.parametrize(("tasks", "seconds"), [(40, 0.04), (41, 0.04), (600, 0.001), (64, 1.0)])
def test_workers_end_within_one_task_of_each_other(workers: int, tasks: int, seconds: float):
    ends = simulate([seconds] * tasks, workers)
    assert max(ends) - min(ends) <= max(seconds, 0.002) * 1.001


def test_one_long_task_near_the_end_holds_up_no_other():
    ends = simulate([0.04] * 36 + [0.4] + [0.04] * 3, workers=2)
    assert max(ends) <= (39 * 0.04 + 0.4) / 2 + 0.2


def test_a_lease_lasts_about_fifty_milliseconds():
    pace = Pace()
    for _ in range(4):
        pace.observe(100, 0.1)
    assert lease_size(100_000, 2, pace) == LEASE_SECONDS / 0.001


def test_the_first_lease_of_a_worker_is_one_task():
    assert lease_size(1000, 2, Pace()) == 1


def test_leases_of_fast_tasks_grow_step_by_step():
    pace = Pace()
    pace.observe(1, 1e-6)
    assert lease_size(1_000_000, 1, pace) == 16


def test_no_task_waits_behind_another_when_few_are_left():
    assert not may_wait(size=1, queued=7, workers=2)
    assert may_wait(size=1, queued=8, workers=2)


def test_tasks_issued_again_come_first_and_keep_their_serials():
    queue = TaskQueue()
    queue.push(["a", "b", "c"])
    lease = queue.take(2)
    queue.push_front(zip(lease.serials, lease.tasks, strict=True))
    queue.push(["d"])
    again = queue.take(len(queue))
    assert again.tasks == ("a", "b", "c", "d")
    assert again.serials == (0, 1, 2, 3)


def test_a_worker_that_runs_tasks_side_by_side_gets_enough_for_that():
    pace = Pace()
    pace.observe(1, 1.0)
    assert lease_size(1000, 2, pace) == 1
    assert lease_size(1000, 2, pace, at_once=8) >= 8


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_tasks_side_by_side_never_exceed_a_workers_share(workers: int):
    pace = Pace()
    pace.observe(1, 1.0)
    for queued in range(1, 40):
        assert lease_size(queued, workers, pace, at_once=8) <= -(-queued // workers)


def test_a_lone_worker_that_runs_tasks_side_by_side_gets_all_within_fifty_milliseconds():
    pace = Pace()
    for _ in range(3):
        pace.observe(20, 20 * LEASE_SECONDS / 100)
    assert lease_size(40, 1, pace, at_once=16) == 40
    assert lease_size(1000, 1, pace, at_once=16) == 100
    assert lease_size(40, 2, pace, at_once=16) == 20


def test_short_tasks_side_by_side_are_shared_out_in_one_lease_each():
    pace = Pace()
    for _ in range(3):
        pace.observe(20, 20 * 0.0004)
    first = lease_size(40, 2, pace, at_once=16)
    assert [first, lease_size(40 - first, 2, pace, at_once=16, leased=first)] == [20, 20]


def test_long_tasks_side_by_side_are_shared_out_evenly_at_the_end():
    pace = Pace()
    for _ in range(3):
        pace.observe(20, 20 * 0.004)
    assert lease_size(20, 2, pace, at_once=16, leased=20) == 10


def test_a_task_issued_again_alone_shares_no_lease():
    queue = TaskQueue()
    queue.push(["a", "b", "c", "d", "e"])
    first = queue.take(3)
    queue.push_front(zip(first.serials, first.tasks, strict=True), alone=True)
    assert [queue.take(4).tasks for _ in range(4)] == [("a",), ("b",), ("c",), ("d", "e")]
