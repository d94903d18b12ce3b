from functools import partial

import doubles
import numpy as np
import pytest
from runtime.contract import NOTHING, MakePool, OneMachineContract

from drumline.errors import WorkerError
from drumline.protocols import WorkerContext
from drumline.runtime.inline_pool import InlinePool


class TestInlinePool(OneMachineContract):
    @pytest.fixture
    def make_pool(self) -> MakePool:
        return partial(InlinePool, published=NOTHING)


class TestShuffledInlinePool(OneMachineContract):
    @pytest.fixture
    def make_pool(self) -> MakePool:
        return lambda *a, **k: doubles.ShuffledPool(
            InlinePool(*a, **{"published": NOTHING, **k}), 5
        )


def test_a_callable_of_main_is_welcome_because_nothing_is_pickled():
    pool = InlinePool(lambda context: lambda task: task + 1, published=NOTHING)
    pool.submit([1])
    assert pool.completed()[0].result == 2


def test_a_task_that_an_interrupt_cuts_short_runs_again():
    interrupts = iter([True, False])

    def factory(context: WorkerContext):
        def run(task: int) -> int:
            if next(interrupts):
                raise KeyboardInterrupt
            return task

        return run

    pool = InlinePool(factory, published=NOTHING)
    pool.submit([4])
    with pytest.raises(KeyboardInterrupt):
        pool.completed()
    assert pool.outstanding == 1
    assert [done.result for done in pool.completed()] == [4]


def test_a_task_that_failed_beside_results_may_still_be_waited_for():
    pool = InlinePool(doubles.refuse_odd, published=NOTHING)
    pool.submit([2, 4, 5])
    doubles.collect(pool, 2)
    pool.wake_at(5, 1)
    with pytest.raises(WorkerError, match="5 is odd"):
        pool.completed()


def test_a_worker_cannot_write_into_what_was_published():
    def factory(context: WorkerContext):
        def run(task: int) -> None:
            context.published(0)["weights"][0] = task  # type: ignore[index]

        return run

    weights = {"weights": np.zeros(2)}
    pool = InlinePool(factory, published=NOTHING.of(weights))
    pool.publish(0, weights)
    pool.submit([1])
    with pytest.raises(Exception, match="read-only"):
        pool.completed()


def test_a_task_that_an_interrupt_cuts_short_has_come_as_far_as_its_longest_run():
    lengths = iter([7, 3, 9])

    def factory(context: WorkerContext):
        def run(task: str) -> str:
            length = next(lengths)
            context.progress(length)
            if length < 9:
                raise KeyboardInterrupt
            return task

        return run

    pool = InlinePool(factory, published=NOTHING)
    pool.submit(["first", "second"])
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            pool.completed()
        assert pool.progressed() == [("first", 7)]
    assert pool.completed()[0].result == "first"
    assert pool.progressed() == []
