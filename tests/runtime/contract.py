"""Contract of every worker pool. A test class inherits it and has a `make_pool` fixture."""

from collections.abc import Callable
from typing import Any

import doubles
import numpy as np
import pytest

from drumline.errors import WorkerError
from drumline.protocols import PublishedLayout
from drumline.runtime.inline_pool import InlinePool
from drumline.runtime.shared_arrays import SharedArrays

NOTHING = PublishedLayout({})
WEIGHTS = {"weights": np.arange(6.0).reshape(2, 3), "moments": np.zeros(3, np.float32)}

MakePool = Callable[..., Any]

POINTS = [
    "child-started",
    "worker-built",
    "lease-received",
    "before-task",
    "after-task",
    "before-result",
    "half-result",
    "result-sent",
]
"""Steps of a child's protocol at which faults are planted."""


def digest_of(tasks: list[doubles.Digest]) -> bytes:
    """Return what any pool must fold these tasks to."""
    pool = InlinePool(doubles.digest_worker, published=NOTHING)
    pool.publish(0, {})
    pool.submit(tasks)
    return doubles.fold(doubles.collect(pool, len(tasks)))


class PoolContract:
    def test_every_task_comes_back_exactly_once(self, make_pool: MakePool):
        pool = make_pool(doubles.echo_worker)
        pool.submit(list(range(300)))
        results = doubles.collect(pool, 300)
        assert sorted(done.task for done in results) == list(range(300))
        assert all(done.task == done.result and not done.withdrawn for done in results)
        assert pool.completed() == []

    def test_a_pool_without_tasks_returns_nothing_at_once(self, make_pool: MakePool):
        assert make_pool(doubles.echo_worker).completed() == []

    def test_tasks_may_be_submitted_while_others_are_out(self, make_pool: MakePool):
        pool = make_pool(doubles.echo_worker)
        pool.submit([0, 1])
        seen: list[int] = []
        while done := pool.completed():
            seen += [one.task for one in done]
            if len(seen) < 40:
                pool.submit([len(seen) + 100])
        assert len(seen) == len(set(seen)) >= 40

    def test_published_arrays_are_seen_by_later_tasks(self, make_pool: MakePool):
        pool = make_pool(doubles.digest_worker, published=PublishedLayout.of(WEIGHTS))
        digests: list[bytes] = []
        for version in range(5):
            pool.publish(version, {**WEIGHTS, "weights": WEIGHTS["weights"] + version})
            pool.submit([doubles.Digest(number, version) for number in range(4)])
            digests.append(doubles.fold(doubles.collect(pool, 4)))
        assert len(set(digests)) == 5
        pool.submit([doubles.Digest(number, 3) for number in range(4)])
        assert doubles.fold(doubles.collect(pool, 4)) == digests[3]

    def test_a_version_that_was_overwritten_is_refused_by_name(self, make_pool: MakePool):
        pool = make_pool(doubles.digest_worker, published=PublishedLayout.of(WEIGHTS))
        for version in range(4):
            pool.publish(version, WEIGHTS)
        pool.submit([doubles.Digest(0, version=0)])
        with pytest.raises(
            WorkerError,
            match="version 0 is not published: of 3 versions that may be kept there are 1, 2, 3",
        ):
            pool.completed()

    def test_a_retained_version_outlasts_those_that_come_after_it(self, make_pool: MakePool):
        pool = make_pool(doubles.digest_worker, published=PublishedLayout.of(WEIGHTS), versions=4)
        digests: list[bytes] = []
        for version in range(9):
            pool.retain({0, 2} & set(range(version)))
            pool.publish(version, {**WEIGHTS, "weights": WEIGHTS["weights"] + version})
            pool.submit([doubles.Digest(0, version)])
            digests.append(doubles.collect(pool, 1)[0].result)
        pool.submit([doubles.Digest(0, version) for version in (0, 2, 7, 8)])
        again = {done.task.version: done.result for done in doubles.collect(pool, 4)}
        assert again == {version: digests[version] for version in (0, 2, 7, 8)}

    def test_a_version_that_finds_every_slot_retained_is_refused(self, make_pool: MakePool):
        pool = make_pool(doubles.digest_worker, published=PublishedLayout.of(WEIGHTS), versions=2)
        pool.publish(3, WEIGHTS)
        pool.publish(4, WEIGHTS)
        pool.retain([3, 4])
        with pytest.raises(
            RuntimeError, match=r"version 5 finds no slot: all 2 .* still needed \(3, 4\)"
        ):
            pool.publish(5, WEIGHTS)
        pool.retain([4])
        pool.publish(5, WEIGHTS)

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"weights": WEIGHTS["weights"]}, r"published arrays are \['moments', 'weights'\]"),
            ({**WEIGHTS, "weights": np.zeros((3, 2))}, r"is \[2, 3\] float64, got \[3, 2\]"),
            ({**WEIGHTS, "moments": np.zeros(3)}, "is .* float32, got .* float64"),
        ],
    )
    def test_arrays_that_do_not_fit_the_layout_are_refused(
        self, make_pool: MakePool, arrays: dict[str, np.ndarray], message: str
    ):
        pool = make_pool(doubles.digest_worker, published=PublishedLayout.of(WEIGHTS))
        with pytest.raises(ValueError, match=message):
            pool.publish(0, arrays)

    def test_an_exception_arrives_with_its_task_traceback_and_cause(self, make_pool: MakePool):
        pool = make_pool(doubles.refuse_odd)
        pool.submit([7])
        with pytest.raises(WorkerError, match="OddNumber: 7 is odd") as caught:
            pool.completed()
        assert caught.value.task == 7
        assert 'raise OddNumber(f"{task} is odd")' in caught.value.traceback
        assert isinstance(caught.value.cause, doubles.OddNumber)
        assert isinstance(caught.value.__cause__, doubles.OddNumber)

    def test_an_exception_without_words_arrives_with_its_name(self, make_pool: MakePool):
        pool = make_pool(doubles.refuse_silently)
        pool.submit([7])
        with pytest.raises(WorkerError, match=r"^SilentError .its __str__ raised ZeroDivision"):
            pool.completed()

    def test_an_exception_costs_no_other_task_its_result(self, make_pool: MakePool):
        pool = make_pool(doubles.refuse_odd)
        pool.submit([0, 2, 4, 5, 6, 8])
        results, errors = [], []
        while len(results) + len(errors) < 6:
            try:
                results += [done.result for done in pool.completed()]
            except WorkerError as error:
                errors.append(error.task)
        assert sorted(results) == [0, 2, 4, 6, 8]
        assert errors == [5]
        assert pool.completed() == []

    def test_a_factory_that_raises_reaches_the_caller(self, make_pool: MakePool):
        pool = make_pool(doubles.broken_factory)
        pool.submit([1])
        with pytest.raises(WorkerError, match="no such environment: Walk-v9") as caught:
            pool.completed()
        assert caught.value.task is doubles.broken_factory
        assert "in broken_factory" in caught.value.traceback

    def test_a_worker_that_calls_exit_is_an_error_too(self, make_pool: MakePool):
        pool = make_pool(doubles.exiting_worker)
        pool.submit([3])
        with pytest.raises(WorkerError, match="SystemExit: cannot run 3"):
            pool.completed()

    def test_withdrawn_tasks_come_back_marked_or_not_at_all(self, make_pool: MakePool):
        pool = make_pool(doubles.echo_worker)
        pool.submit(list(range(1000)))
        pool.withdraw()
        pool.submit([-1, -2])
        results = []
        while batch := pool.completed():
            results += batch
        assert sorted(done.task for done in results if not done.withdrawn) == [-2, -1]
        assert all(done.task >= 0 for done in results if done.withdrawn)

    def test_what_the_driver_writes_into_shared_arrays_is_read_by_later_tasks(
        self, make_pool: MakePool
    ):
        shared = SharedArrays.create(PublishedLayout({"rows": ((20,), "<i8")}))
        shared.arrays["rows"][:] = np.arange(20)
        pool = make_pool(doubles.ReadsShared("rows"), shared=shared)
        pool.submit(list(range(20)))
        assert all(done.result == done.task for done in doubles.collect(pool, 20))
        shared.arrays["rows"][5:9] = -1
        shared.wrote("rows", 5, 9)
        pool.submit(list(range(20)))
        changed = {done.task: done.result for done in doubles.collect(pool, 20)}
        assert changed == {row: -1 if 5 <= row < 9 else row for row in range(20)}
        pool.close()
        shared.close()

    def test_a_finished_task_says_when_it_ran_and_leaves_no_progress_behind(
        self, make_pool: MakePool
    ):
        pool = make_pool(doubles.digest_worker)
        pool.publish(0, {})
        tasks = [doubles.Digest(number, seconds=0.002) for number in range(4)]
        pool.submit(tasks)
        assert pool.progressed() == []
        finished = doubles.collect(pool, 4)
        assert all(done.ended - done.began >= 0.002 for done in finished)
        assert pool.progressed() == []
        with pytest.raises(ValueError, match="is not in flight"):
            pool.wake_at(tasks[3], 1)

    def test_activity_and_timeline_account_for_every_task(self, make_pool: MakePool):
        pool = make_pool(doubles.digest_worker)
        pool.publish(0, {})
        pool.submit([doubles.Digest(number) for number in range(50)])
        doubles.collect(pool, 50)
        assert sum(row.tasks for row in pool.activity()) == 50
        assert sum(row.progress for row in pool.activity()) == 50
        assert all(row.busy_seconds > 0 for row in pool.activity() if row.tasks)
        assert sum(span.tasks for span in pool.timeline()) == 50
        assert all(span.start <= span.end for span in pool.timeline())

    def test_closing_twice_is_closing_once(self, make_pool: MakePool):
        pool = make_pool(doubles.echo_worker)
        pool.submit([1, 2, 3])
        pool.close()
        pool.close()

    def test_a_closed_pool_refuses_work(self, make_pool: MakePool):
        pool = make_pool(doubles.echo_worker)
        pool.close()
        with pytest.raises(RuntimeError, match="this pool is closed"):
            pool.submit([1])
        with pytest.raises(RuntimeError, match="this pool is closed"):
            pool.completed()


class OneMachineContract(PoolContract):
    """Further contract of a pool whose workers share the driver's memory."""

    def test_workers_write_into_shared_arrays(self, make_pool: MakePool):
        shared = SharedArrays.create(PublishedLayout({"rows": ((20,), "<i8")}))
        pool = make_pool(doubles.WritesShared("rows"), shared=shared)
        pool.submit(list(range(20)))
        doubles.collect(pool, 20)
        assert shared.arrays["rows"].tolist() == list(range(1, 21))
        pool.close()
        shared.close()
