"""Callbacks of a run: code of the user's own that is told what was recorded, and may end the run.

A callback gets copies, and what it does to the process's global generators, to NumPy's treatment
of errors and to torch's threads and settings is undone, so it cannot change a bit. It is called
only where the state of the run is whole.
"""

import inspect
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drumline import seeding
from drumline.errors import CallbackFailed
from drumline.functional.torch_threads import torch_settings_kept
from drumline.types import EpisodeRow, EvaluationRow

HOOKS = ("on_update", "on_episode", "on_evaluation", "on_checkpoint")
"""Methods by which an object is a callback; each has one argument."""


@dataclass(frozen=True)
class Callbacks:
    """Functions as a callback; a class of your own with methods of these names is one too.

    A function that returns `False` ends the run in order: the last checkpoint and evaluation are
    written, and `train` returns. Any other value goes on.
    """

    on_update: Callable[[dict[str, float]], object] | None = None
    """Called after each update with its row of metrics.csv."""
    on_episode: Callable[[EpisodeRow], object] | None = None
    """Called for each training episode with its row of episodes.csv."""
    on_evaluation: Callable[[EvaluationRow], object] | None = None
    """Called for each scheduled evaluation: `update`, `env_steps`, `returns`, `lengths`, `mean`."""
    on_checkpoint: Callable[["SavedCheckpoint"], object] | None = None
    """Called when a checkpoint is on the disk: `update` and `path`; of several, the newest."""


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint that is on the disk; the run keeps the last three."""

    update: int
    path: Path


@dataclass(frozen=True)
class _Hook:
    name: str
    call: Callable[[Any], object]


class CallbackQueue:
    """Records for a run's callbacks, kept until the state of the run is whole."""

    def __init__(self, callbacks: object = ()):
        self._hooks = _hooks_of(callbacks)
        self._waiting: deque[tuple[str, Any]] = deque()
        self._saved: list[SavedCheckpoint] = []
        """Checkpoints that the recorder has been given."""

    def update(
        self, update: int, metrics: dict[str, float], episodes: Iterable[EpisodeRow]
    ) -> None:
        """Keep an update and its episodes, which come first."""
        if self._hooks["on_episode"]:
            self._waiting += [("on_episode", row) for row in episodes]
        if self._hooks["on_update"]:
            self._waiting.append(("on_update", {"update": update, **metrics}))

    def evaluation(self, row: EvaluationRow) -> None:
        """Keep an evaluation."""
        if self._hooks["on_evaluation"]:
            self._waiting.append(("on_evaluation", row))

    def checkpoint(self, update: int, path: Path) -> None:
        """Keep a checkpoint until it is on the disk."""
        if self._hooks["on_checkpoint"]:
            self._saved.append(SavedCheckpoint(update, path))

    @property
    def awaits_checkpoints(self) -> bool:
        """Whether a callback has still to be told of a checkpoint."""
        return bool(self._saved)

    def call(self, newest_checkpoint: int | None) -> bool:
        """Tell the callbacks all that is kept; return whether one of them ends the run.

        `newest_checkpoint`: update of the newest checkpoint on the disk. Raises `CallbackFailed`
        for a callback that raises.
        """
        done = [each for each in self._saved if each.update <= (newest_checkpoint or 0)]
        if newest_checkpoint is not None and done:
            self._waiting.append(("on_checkpoint", done[-1]))
            self._saved = self._saved[len(done) :]
        if not self._waiting:
            return False
        ends = False
        with _process_kept():
            while self._waiting:
                name, record = self._waiting.popleft()
                for hook in self._hooks[name]:
                    ends |= _called(hook, copy(record))
        return ends


def _hooks_of(callbacks: object) -> dict[str, list[_Hook]]:
    """Return hook name → its functions; ValueError for an object without one, or with a wrong name.

    Functions are called in the order in which the callbacks were given.
    """
    several = type(callbacks) in (list, tuple)
    given: Any = callbacks if several else (callbacks,)
    found: dict[str, list[_Hook]] = {hook: [] for hook in HOOKS}
    each: Any
    for each in given:
        callback: object = each
        name = type(callback).__qualname__
        if isinstance(callback, type):
            raise ValueError(
                f"callbacks: {callback.__qualname__} is a class: give one of its instances, as in "
                f"callbacks=[{callback.__qualname__}()]"
            )
        named = [name for name in dir(callback) if name.startswith("on_")]
        if wrong := sorted(set(named) - set(HOOKS)):
            raise ValueError(f"callback {name} has {wrong[0]}: there are {', '.join(HOOKS)}")
        if not named:
            raise ValueError(
                f"callback {name} has no hook: give an object with {', '.join(HOOKS)}, or "
                "drumline.Callbacks(on_update=function)"
            )
        for hook in HOOKS:
            call: Any = getattr(callback, hook, None)
            if call is None:
                continue
            if not callable(call):
                raise ValueError(f"callback {name}: {hook} is {call!r:.80}, which cannot be called")
            if _only_begins(call):
                raise ValueError(
                    f"callback {name}: {hook} is a coroutine or generator function, whose body a "
                    "call does not run: give an ordinary function (def, without async and yield)"
                )
            words = getattr(call, "__qualname__", f"{type(call).__qualname__}")
            found[hook].append(_Hook(f"{words} ({hook})", call))
    return found


def _only_begins(call: Any) -> bool:
    """Return whether a call makes a coroutine or a generator and runs nothing of its body."""
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(kind(each) for kind in kinds for each in (call, type(call).__call__))


def _called(hook: _Hook, record: object) -> bool:
    """Call a callback; return whether it ends the run."""
    try:
        answer = hook.call(record)
    except Exception as error:
        raise CallbackFailed(
            f"callback {hook.name} raised {type(error).__name__}: {error}"
        ) from error
    return isinstance(answer, (bool, np.bool_)) and not answer


@contextmanager
def _process_kept() -> Generator[None]:
    """Restore what callbacks may change: global generators, and settings of NumPy and torch."""
    torch: Any = sys.modules.get("torch")
    threads = None if torch is None else torch.get_num_threads()
    try:
        with seeding.kept_globals(), torch_settings_kept(), np.errstate():
            yield
    finally:
        if torch is not None:
            torch.set_num_threads(threads)
