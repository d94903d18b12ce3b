"""Exceptions that one room raises and another handles or explains."""

import importlib
import pickle
import traceback
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any


class Travels(BaseException):
    """An exception that other processes can read, whatever its constructor takes.

    What of it cannot be pickled travels as its words.
    """

    def __reduce__(self) -> Any:
        attributes = {name: _portable(value) for name, value in self.__dict__.items()}
        return _restored, (type(self), self.args, attributes)


def _portable(value: Any) -> Any:
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 - whatever a value's own code raises
        return None if isinstance(value, BaseException) else repr(value)
    return value


def _restored(
    kind: type[BaseException], args: tuple[Any, ...], attributes: Mapping[str, Any]
) -> BaseException:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class WorkerError(Travels, RuntimeError):
    """A worker raised. The error carries the task and the worker's traceback as text.

    `task` is the factory if the worker could not be built; `cause` is the exception, if it travels.
    """

    def __init__(self, task: Any, error: str, traceback: str, cause: BaseException | None = None):
        super().__init__(f"{error}\nwhile running {task!r}; the worker's traceback:\n{traceback}")
        self.task = task
        self.error = error
        self.traceback = traceback
        self.cause = cause


def words_of(error: BaseException) -> str:
    """Return the class and the message of an error; the class alone if its `__str__` raises.

    >>> words_of(KeyError("x"))
    "KeyError: 'x'"
    """
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception as failed:  # noqa: BLE001 - whatever the code of the user's own class raises
        return f"{name} (its __str__ raised {type(failed).__name__})"


def raised(error: BaseException, catcher: str) -> str:
    """Return the words of an error of the user's code, with the line that raised it.

    Frames of `catcher`, the file that called the code, and of the import system are left out.
    """
    text = " ".join(str(error).split())
    shown = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != catcher
        and not frame.filename.startswith("<frozen ")
        and "importlib" not in frame.filename
    ]
    place = (shown[-1].filename, shown[-1].lineno) if shown else ("", None)
    if isinstance(error, SyntaxError) and error.filename:
        place, text = (error.filename, error.lineno), error.msg
    where = f" ({place[0]}, line {place[1]})" if place[0] else ""
    return f"{type(error).__name__}: {text}{where}"


def import_named(what: str, module: str, kind: type[ValueError] = ValueError) -> ModuleType:
    """Import a module of the user's; a `kind` of error about `what` names it, if that fails."""
    try:
        return importlib.import_module(module)
    except MemoryError:
        raise
    except ImportError as error:
        raise kind(
            f"{what}: module {module!r} cannot be imported ({error}); "
            "the current directory is importable"
        ) from error
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise kind(f"{what}: importing {module} raised {raised(error, __file__)}") from error


HANG = "a hang of"
"""Beginning of the cause of a death for which progress stood still too long."""


def about_hangs(causes: Sequence[str]) -> str:
    """Return the flag that sets the time after which a process counts as hung, if one was.

    >>> about_hangs(["SIGKILL"])
    ''
    """
    if not any(cause.startswith(HANG) for cause in causes):
        return ""
    return (
        "; --hang-seconds sets for how long progress may stand still, and --creation-seconds "
        "while an environment is made, reset or stepped, or an objective called, for the first "
        "time in a process"
    )


class TaskKilledWorkers(Travels, RuntimeError):
    """The same task ended (or hung) its worker three times."""

    def __init__(self, task: Any, causes: Sequence[str]):
        super().__init__(
            f"{task!r} ended its worker {len(causes)} times ({', '.join(causes)})"
            f"{about_hangs(causes)}"
        )
        self.task = task
        self.causes = tuple(causes)


class RoleKilled(Travels, RuntimeError):
    """A long-lived role ended (or hung) three times at the same place."""

    def __init__(self, role: str, index: int, causes: Sequence[str], place: str):
        super().__init__(
            f"{role} {index} ended {len(causes)} times ({', '.join(causes)}) at the same place: "
            f"{place}{about_hangs(causes)}"
        )
        self.role = role
        self.index = index
        self.causes = tuple(causes)
        self.place = place


class GroupLost(Travels, RuntimeError):
    """A learner group ended or fell silent; what the others have in hand can be made again."""

    def __init__(self, index: int, cause: str):
        super().__init__(f"group {index} was lost: {cause}")
        self.index = index
        self.cause = cause


class WorkersLost(RuntimeError):
    """One place of a pool lost several workers in a row without finishing a task."""


class ImpureEnvironment(RuntimeError):
    """The same task gave other bits the second time: the environment has hidden state."""


def another_value(objective: str, first: float, second: float) -> ImpureEnvironment:
    """Return the error of an objective whose second call gave another value than the first."""
    return ImpureEnvironment(
        f"the objective {objective}, called again with the same parameters and seed, gave "
        f"{second!r} instead of {first!r}, so no result could be repeated: draw random numbers "
        "from numpy.random.default_rng(seed) and keep nothing between calls, or train without the "
        "promise with --no-promise"
    )


class CallbackFailed(RuntimeError):
    """A callback of the user's raised; the run has written a checkpoint and can go on."""


class StrategyFailed(RuntimeError):
    """An optimiser or a method of the user's raised, or answered with something of no use.

    No state was changed.
    """


class ObjectiveProblem(ValueError):
    """An objective that cannot be used: one sentence that says what to change."""
