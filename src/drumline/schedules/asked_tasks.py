"""Checks of a strategy's asked tasks: a generation would wait for wrong ones for ever."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, cast

from drumline.errors import StrategyFailed
from drumline.tasks import Evaluate


def refuse_wrong(name: str, tasks: Any, *, version: int, members: range) -> None:
    """Raise `StrategyFailed` unless `tasks` evaluate these members of `version`, in any order.

    `name`: name of the strategy.
    """
    wrong = _kind_fault(tasks, len(members)) or _field_fault(tasks, version, members)
    if wrong:
        raise StrategyFailed(f"{name}.ask({len(members)}) in generation {version} {wrong}")


def _kind_fault(tasks: Any, count: int) -> str:
    """Return what is wrong with the number of tasks and their kind; empty for nothing."""
    wanted = f"it must return {count} tasks, one Evaluate for each member"
    if not isinstance(tasks, Sequence):
        return f"returned {tasks!r:.80}: {wanted}"
    given = cast("Sequence[object]", tasks)
    if len(given) != count:
        return f"returned {len(given)} tasks: {wanted}"
    other = [kind.__name__ for kind in set(map(type, given)) if not issubclass(kind, Evaluate)]
    return f"returned a task of type {min(other)}: {wanted}" if other else ""


def _field_fault(tasks: Sequence[Evaluate], version: int, members: range) -> str:
    """Return what is wrong with the fields of the tasks; empty for nothing."""
    if set(map(attrgetter("version"), tasks)) != {version}:
        other = next(task.version for task in tasks if task.version != version)
        return (
            f"returned a task of version {other!r}: version must be {version}, the number of "
            "generations told so far"
        )
    if not all(map(attrgetter("training"), tasks)):
        member = next(task.member for task in tasks if not task.training)
        return (
            f"returned a task of member {member!r} with training=False, which is an episode of an "
            "evaluation: a member's training must be True"
        )
    asked = list(map(attrgetter("member"), tasks))
    if asked == list(members) or set(asked) == set(members):
        return ""
    absent = min(set(members) - set(asked))
    return (
        f"returned no task of member {absent}: it must return each of the members {members[0]} to "
        f"{members[-1]} once"
    )
