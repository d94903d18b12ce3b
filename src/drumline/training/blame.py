"""Notes on a failed run: the task that failed, and the command that runs it alone or goes on."""

from typing import Any

from drumline.errors import StrategyFailed
from drumline.runs.folder import RunFolder
from drumline.runs.next_commands import by_path
from drumline.tasks import (
    Evaluate,
    EvaluateMean,
    EvaluateMembers,
    Explore,
    Live,
    RehearseTwice,
    TrainCritics,
    TrainLearner,
)


def named(task: Any) -> str:
    """Name a task, or the place of a role, as a person would; empty for anything else.

    >>> named(Evaluate(4, 7, -1, 3, 91, 0.02, 0, False, True))
    'member 7 of generation 4 (update 5), episode seed 91'
    """
    if isinstance(task, str):
        return task
    if isinstance(task, (Live, Explore)):
        return f"individual {task.index}, episode seed {task.seed}"
    if isinstance(task, EvaluateMean):
        return f"episodes of the mean beside individual {task.index}, first seed {task.seed}"
    if isinstance(task, (TrainCritics, TrainLearner)):
        return f"gradient steps of the critics, job {task.index}"
    if isinstance(task, EvaluateMembers):
        return f"a call of {len(task.tasks)} members, the first of them {named(task.tasks[0])}"
    return _episode(task) if isinstance(task, Evaluate) else ""


def _episode(task: Evaluate) -> str:
    if task.training:
        place = f"member {task.member} of generation {task.version} (update {task.version + 1})"
    else:
        place = f"evaluation episode {task.member} of update {task.version}"
    return f"{place}, episode seed {task.seed}"


def alone(task: Evaluate, folder: RunFolder) -> str:
    """Return the command that runs the episode alone, in one process."""
    words = ["--member", str(task.member), "--checkpoint", str(task.version)]
    return by_path(folder, "episode", *words, *([] if task.training else ["--evaluation"]))


def explain_strategy(error: BaseException, folder: RunFolder, update: int) -> None:
    """Add to a strategy's failure where the run can go on: `update` is the latest checkpoint's."""
    if isinstance(error, StrategyFailed):
        error.add_note(
            f"checkpoint {update} is of a state before; to go on from there, once the strategy "
            f"is mended: {by_path(folder, 'resume')}"
        )


def explain(error: BaseException, search: RunFolder | None = None) -> None:
    """Add the task to a failure and, in a search, the command that runs it alone.

    A search has just written a checkpoint of the version that every task in flight belongs to.
    Episodes of other methods cannot be run alone.
    """
    task: Any = getattr(error, "task", None)
    tasks = [task.task, task.between] if isinstance(task, RehearseTwice) else [task]
    for blamed in tasks:
        if words := named(blamed):
            error.add_note(f"it was {words}")
        if isinstance(blamed, EvaluateMembers):
            blamed = blamed.tasks[0]
        if isinstance(blamed, Evaluate) and search is not None:
            error.add_note(f"to run it alone: {alone(blamed, search)}")
