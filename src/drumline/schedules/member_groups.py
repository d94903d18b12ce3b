"""Members of a generation, or episodes of an evaluation, that one call evaluates.

Groups are cut by index, so they are the same on any layout.
"""

from collections.abc import Sequence
from typing import Any

from drumline.protocols import Completed
from drumline.tasks import Evaluate, EvaluateMembers


def grouped(tasks: Sequence[Any], size: int) -> Sequence[Any]:
    """Return tasks of at most `size` members each; a size of 1 leaves them as they are.

    >>> tasks = [Evaluate(0, member, 1, 0, 0, 0.1, 0, False, True) for member in range(5)]
    >>> [len(group.tasks) for group in grouped(tasks, 2)]
    [2, 2, 1]
    """
    if size == 1 or not all(isinstance(task, Evaluate) for task in tasks):
        return tasks
    starts = range(0, len(tasks), size)
    return [EvaluateMembers(tuple(tasks[start : start + size])) for start in starts]


def group_of(tasks: Sequence[Evaluate], member: int, size: int) -> EvaluateMembers:
    """Return the group that member number `member` of these tasks is in."""
    first = member - member % size
    return EvaluateMembers(tuple(tasks[first : first + size]))


def singly(done: Completed) -> list[Completed]:
    """Return a finished task as those of its members."""
    if not isinstance(done.task, EvaluateMembers):
        return [done]
    results = done.result or [None] * len(done.task.tasks)
    return [
        done._replace(task=task, result=result)
        for task, result in zip(done.task.tasks, results, strict=True)
    ]
