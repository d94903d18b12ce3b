"""Rehearsal of a task inside a worker."""

import os
import struct
from collections.abc import Callable

from drumline.tasks import Evaluate, Evaluation, Rehearsal, RehearseTwice


def rehearsed(
    worker: object, task: RehearseTwice, evaluate: Callable[[Evaluate, bool], Evaluation]
) -> Rehearsal:
    """Run the task, another one, and the task again; `evaluate` takes whether to make a digest."""
    first = evaluate(task.task, True)
    evaluate(task.between, False)
    place = struct.pack("<QQ", os.getpid(), id(worker))  # as long in every worker
    return Rehearsal(first, evaluate(task.task, True), place)
