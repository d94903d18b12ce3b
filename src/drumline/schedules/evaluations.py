"""Evaluation of a published version outside any generation: tasks out, results by episode."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drumline.protocols import WorkerPool
from drumline.tasks import Evaluate, Evaluation


def is_due(every: int, update: int) -> bool:
    """Return whether an update is evaluated; `every` is in updates, 0 for never."""
    return every > 0 and update > 0 and update % every == 0


def begin(
    pool: WorkerPool, version: int, published: Mapping[str, Any], tasks: Sequence[Evaluate]
) -> None:
    """Publish a version and submit its episodes."""
    pool.publish(version, published)
    pool.submit(tasks)


def collect(
    pool: WorkerPool, tasks: Sequence[Evaluate], ended: Callable[[int], None] = lambda count: None
) -> list[Evaluation]:
    """Wait for these tasks and return their results by episode; `ended` is told their number.

    Other tasks may still be in flight if a consumer stopped between two generations.
    """
    wanted = set(tasks)
    results: dict[int, Evaluation] = {}
    while len(results) < len(wanted):
        ended(len(results))
        for item in pool.completed():
            if not item.withdrawn and item.task in wanted:
                results[item.result.member] = item.result
    return [results[member] for member in sorted(results)]
