"""Which episode a run failed in, in words, and the command that runs it alone."""

from typing import Any

from drumline.runs.folder import RunFolder
from drumline.runs.next_commands import by_path
from drumline.types import Evaluate, RehearseTwice


def named(task: Evaluate) -> str:
    """Name an episode as a person would.

    >>> named(Evaluate(4, 7, -1, 3, 91, 0.02, 0, False, True))
    'member 7 of generation 4 (update 5), episode seed 91'
    """
    if task.training:
        place = f"member {task.member} of generation {task.version} (update {task.version + 1})"
    else:
        place = f"evaluation episode {task.member} of update {task.version}"
    return f"{place}, episode seed {task.seed}"


def alone(task: Evaluate, folder: RunFolder) -> str:
    """Return the command that runs the episode alone, in one process."""
    words = ["--member", str(task.member), "--checkpoint", str(task.version)]
    return by_path(folder, "episode", *words, *([] if task.training else ["--evaluation"]))


def explain(error: BaseException, search: RunFolder | None = None) -> None:
    """Add to a failure whose task is known: what it was and, in a search, how to run it alone.

    A search has just written a checkpoint of the version that every task in flight belongs to.
    Episodes of other methods do not stand alone.
    """
    task: Any = getattr(error, "task", None)
    tasks = [task.task, task.between] if isinstance(task, RehearseTwice) else [task]
    for episode in tasks:
        if isinstance(episode, Evaluate):
            error.add_note(f"it was {named(episode)}")
            if search is not None:
                error.add_note(f"to run it alone: {alone(episode, search)}")
