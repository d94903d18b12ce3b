"""A pool whose processes are replaced: nothing of the version before stays."""

import os
from typing import Any

import numpy as np
from doubles import is_running

from drumline.protocols import PublishedLayout, WorkerContext
from drumline.runtime.process_pool import ProcessPool
from drumline.training.replaced_pool import ReplacedPool

PUBLISHED = {"parameters": np.arange(3.0)}


class Telling:
    """Says which process runs it, and what it was given."""

    def __init__(self, context: WorkerContext):
        self._context = context

    def __call__(self, task: int) -> tuple[int, int, float]:
        return task, os.getpid(), float(self._context.published(task)["parameters"].sum())


def make() -> ProcessPool:
    return ProcessPool(Telling, size=1, published=PublishedLayout.of(PUBLISHED))


def ask(pool: ReplacedPool, version: int) -> tuple[int, int, float]:
    pool.publish(version, {"parameters": np.full(3, float(version))})
    pool.submit([version])
    found: list[Any] = []
    while not found:
        found = pool.completed(1.0)
    return found[0].result


def test_every_version_is_worked_on_by_a_new_process_and_the_old_one_is_gone():
    pool = ReplacedPool(make)
    first, second = ask(pool, 1), ask(pool, 2)
    assert (first[2], second[2]) == (3.0, 6.0)
    assert first[1] != second[1]
    assert not is_running(first[1])
    pool.close()
    assert [row.pid for row in pool.activity()] == [first[1], second[1]]
    assert len(pool.timeline()) == 2


def test_processes_that_have_run_nothing_are_not_replaced():
    pool = ReplacedPool(make)
    for version in (1, 2):
        pool.publish(version, PUBLISHED)
    pool.close()
    assert len(pool.activity()) == 1
