"""Leases that two workers hold at once: no task is lost, and none counts twice."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import doubles
import numpy as np
import pytest
from campaigns import cases
from hypothesis import given
from hypothesis import strategies as st
from runtime.contract import NOTHING, digest_of

from drumline.errors import WorkerError
from drumline.protocols import PublishedLayout
from drumline.runtime.board import Board
from drumline.runtime.messages import Lease
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.shared_leases import BACK, FRONT, SharedLeases, from_one_end

FIRST = [doubles.Digest(number) for number in range(40)]
TASKS = [doubles.Digest(number, seconds=0.002) for number in range(100, 120)]


@pytest.fixture(scope="module")
def expected() -> bytes:
    return digest_of(TASKS)


class Words:
    """The two counts of a shared lease, whose reader may be stopped between read and write."""

    def __init__(self) -> None:
        self.counts = np.zeros((2, 1), np.int64)

    def places(self, count: int, side: int) -> Iterator[int]:
        return from_one_end(self.counts[side].data, self.counts[1 - side].data, count, side)


@given(st.integers(1, 12), st.lists(st.sampled_from([FRONT, BACK]), max_size=30))
def test_both_ends_together_begin_every_task_once(count: int, turns: list[int]):
    words, begun = Words(), list[int]()
    ends = [words.places(count, side) for side in (FRONT, BACK)]
    for side in [*turns, *[FRONT] * (count + 1)]:
        begun += [place for place in (next(ends[side], None),) if place is not None]
    assert sorted(begun) == list(range(count))


def test_a_stale_count_begins_the_last_task_twice_rather_than_never():
    words = Words()
    front = words.places(1, FRONT)
    assert next(front) == 0
    stale = np.zeros(1, np.int64)  # as the back read it before the front wrote
    back = from_one_end(words.counts[BACK].data, stale.data, 1, BACK)
    assert next(back) == 0
    assert next(front, None) is None


@given(st.integers(0, 2**32), st.integers(2, 9))
def test_whoever_dies_each_task_ends_once(seed: int, count: int):
    """A random scheduler lets holders begin, answer and die; tasks that come back are counted."""
    rng = random.Random(seed)
    board = Board.create(2, PublishedLayout({}), 2)
    try:
        shared = SharedLeases(board, 2)
        whole = Lease(tuple(range(count)), tuple(f"task {k}" for k in range(count)))
        front = shared.begin(whole)
        holders: dict[int, tuple[Lease, Iterator[int], list[int]]] = {}

        def hold(lease: Lease) -> None:
            assert lease.end is not None
            slot, side = lease.end
            words = board.ends(slot, side), board.ends(slot, 1 - side)
            holders[side] = lease, from_one_end(*words, count, side), []

        hold(front)
        ended: Counter[int] = Counter()
        while holders:
            if BACK not in holders and rng.random() < 0.3 and (lease := shared.join()):
                hold(lease)
            side = rng.choice(list(holders))
            lease, places, begun = holders[side]
            if rng.random() < 0.1:
                lost, rest = shared.lose(lease)
                assert set(lost.serials) <= set(begun)
                ended.update([*lost.serials, *(serial for serial, _ in rest)])
                del holders[side]
            elif (place := next(places, None)) is not None:
                begun.append(place)
            else:
                counted = shared.take(lease, begun)
                assert counted <= set(begun)
                ended.update([*counted, *(serial for serial, _ in shared.leave(lease))])
                del holders[side]
        assert ended == Counter(range(count))
        assert not shared.waiting()
        assert shared.join() is None
    finally:
        board.close()


def pool_of(*, warm: bool = True, **options: Any) -> ProcessPool:
    pool = ProcessPool(doubles.stacking_digest_worker, size=2, published=NOTHING, **options)
    if warm:  # a worker's first lease is of one task
        pool.publish(0, {})
        pool.submit(FIRST)
        doubles.collect(pool, len(FIRST))
    return pool


def test_a_worker_begins_what_the_other_is_too_busy_for(tmp_path: Path):
    """The first task waits for one that lies in the first half, but not among those begun."""
    pool = ProcessPool(doubles.flag_worker, size=2, published=NOTHING)
    try:
        doubles.wait_ready(pool)
        pool.submit([doubles.Flagged(-1)] * 2)  # one each: then both take leases of many
        doubles.collect(pool, 2)
        flag = str(tmp_path / "flag")
        tasks = [doubles.Flagged(number) for number in range(20)]
        tasks[0] = doubles.Flagged(0, wait=flag)
        tasks[6] = doubles.Flagged(6, make=flag)
        before = [row.tasks for row in pool.activity()]
        pool.submit(tasks)
        done = doubles.collect(pool, len(tasks))
        own = [row.tasks - count for row, count in zip(pool.activity(), before, strict=True)]
    finally:
        pool.close()
    assert sorted(each.result for each in done) == list(range(20))
    assert max(own) >= 14
    assert sum(own) in (20, 21)  # both may begin the last one


@pytest.mark.parametrize("nth", cases([1, 3, 9, 14], quick=[3]))
def test_a_kill_of_either_holder_changes_no_byte(nth: int, expected: bytes, tmp_path: Path):
    lines: list[str] = []
    fault = doubles.KillAtNth((("side-by-side", nth),), tmp_path)
    pool = pool_of(warm=False, probe_factory=fault, log=lines.append)
    try:
        pool.publish(0, {})
        for _ in range(4):
            pool.submit(TASKS)
            assert doubles.fold(doubles.collect(pool, len(TASKS))) == expected
        assert pool.completed() == []
    finally:
        pool.close()
    assert len(lines) == 1
    assert "ended by SIGKILL" in lines[0]


@pytest.mark.parametrize("seed", cases(range(4), quick=[0]))
def test_kills_at_random_moments_change_no_byte(seed: int, expected: bytes):
    lines: list[str] = []
    pool = doubles.FlakyPool(pool_of(log=lines.append), seed, every=3, deaths=4)
    try:
        for _ in range(6):
            pool.submit(TASKS)
            assert doubles.fold(doubles.collect(pool, len(TASKS))) == expected
        assert pool.completed() == []
    finally:
        pool.close()
    assert pool.deaths > 0


def test_a_failure_in_a_shared_lease_is_of_its_own_task_alone():
    pool = ProcessPool(doubles.stacking_worker, size=2, published=NOTHING)
    try:
        pool.submit([0] * 20)
        doubles.collect(pool, 20)
        pool.submit([2, 4, 5, 6, 8, 10])
        with pytest.raises(WorkerError, match="5 is odd") as raised:
            doubles.collect(pool, 6)
        assert raised.value.task == 5
        left = pool.outstanding
        assert [each.result[0] % 2 for each in doubles.collect(pool, left)] == [0] * left
        assert pool.completed() == []
    finally:
        pool.close()


def test_tasks_that_cannot_run_side_by_side_may_lie_in_a_shared_lease():
    mixed = [task._replace(version=number % 3 // 2) for number, task in enumerate(TASKS)]
    pool = pool_of()
    try:
        pool.publish(1, {})
        pool.submit(mixed)
        done = doubles.collect(pool, len(mixed))
    finally:
        pool.close()
    assert {each.task for each in done} == set(mixed)


def test_withdrawn_tasks_of_a_shared_lease_are_marked(expected: bytes):
    pool = pool_of()
    try:
        pool.submit([task._replace(seconds=0.02) for task in TASKS])
        pool.completed(0.01)
        pool.withdraw()
        assert pool.outstanding == 0
        pool.submit(TASKS)
        results, old = [], []
        while len(results) < len(TASKS):
            for done in pool.completed():
                (old if done.withdrawn else results).append(done)
        assert doubles.fold(results) == expected
        assert len(old) <= len(TASKS)
    finally:
        pool.close()
