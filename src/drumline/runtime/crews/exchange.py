"""Exchange: the meeting point of long-lived roles, with words per environment and doorbells.

The exchange moves indices without knowing their meaning. Every word has one writer at a time:

    state     executor (REQUESTED) → actor (SERVED) → executor
    version   executor: the parameters that it wants its request served with
    finished  executor: steps that are stored, counted from the start of the run
    released  driver: the newest interval that may be begun, for each environment

The contents of a request are written before its state word and read after it. On processors that
keep stores in order (x86-64) this is enough. On others only a doorbell's system call orders them,
and a process looks at words of those that have not rung, so nothing is promised there (ADR 18).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from drumline.protocols import PublishedLayout
from drumline.runtime.doorbell import Doorbell

IDLE, REQUESTED, SERVED = range(3)


class Ownership(NamedTuple):
    """The executor and the actor of each environment: a fixed map, so no role claims anything."""

    executors: tuple[int, ...]
    """`executors[e]`: first environment of executor e; the last entry ends the last one's."""
    actors: tuple[int, ...]
    """The same for actors; with one entry there are none, and the driver answers requests."""


def exchange_layout(environments: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the arrays that an exchange needs."""
    return {
        "exchange/state": ((environments,), "<i4"),
        "exchange/version": ((environments,), "<i8"),
        "exchange/finished": ((environments,), "<i8"),
        "exchange/released": ((environments,), "<i8"),
        "exchange/stopped": ((1,), "<i8"),
    }


@dataclass(frozen=True)
class Bells:
    """One doorbell per process of a layout."""

    driver: Doorbell
    executors: Sequence[Doorbell]
    actors: Sequence[Doorbell]


class SharedExchange:
    """The words and bells of one run, in any of its processes."""

    def __init__(self, arrays: Mapping[str, np.ndarray], bells: Bells, ownership: Ownership):
        self.state = arrays["exchange/state"]
        self.version = arrays["exchange/version"]
        self.finished = arrays["exchange/finished"]
        self._released = arrays["exchange/released"]
        self._stopped: memoryview[int] = arrays["exchange/stopped"].data
        self._bells = bells
        self.ownership = ownership
        self._own = slice(ownership.executors[0], ownership.executors[-1])
        self._executor_of = _owner_of(ownership.executors)
        self._actor_of = _owner_of(ownership.actors)

    @property
    def released(self) -> int:
        """The newest interval that every environment may begin."""
        return int(self._released.min())

    @property
    def stopped(self) -> bool:
        """Whether all roles should leave."""
        return self._stopped[0] != 0

    # executors

    def may_begin(self, environments: np.ndarray, interval: int) -> np.ndarray:
        """Return for each of these environments whether `interval` is released."""
        return self._released[environments] >= interval

    def request(self, environments: np.ndarray, versions: np.ndarray) -> None:
        """Request actions for these environments from these versions."""
        self.version[environments] = versions
        self.state[environments] = REQUESTED
        if self._bells.actors:
            self._ring(self._bells.actors, self._actor_of, environments)
        else:
            self._bells.driver.ring()

    def finish(self, environments: np.ndarray | slice, steps: np.ndarray | int) -> None:
        """Note that these environments have stored `steps` steps."""
        self.finished[environments] = steps

    def tell_driver(self) -> None:
        """Wake the driver: an interval of some environments is full."""
        self._bells.driver.ring()

    # actors

    def serve(self, environments: np.ndarray) -> None:
        """Mark these requests as answered and wake their executors."""
        self.state[environments] = SERVED
        self._ring(self._bells.executors, self._executor_of, environments)

    # driver

    def release(self, interval: int) -> None:
        """Let every environment begin `interval` once it has finished the one before."""
        if interval < self.released:
            raise ValueError(f"interval {self.released} is released already, got {interval}")
        self._released[:] = interval
        for bell in self._bells.executors:
            bell.ring()

    def release_to(self, environments: np.ndarray, intervals: np.ndarray) -> None:
        """Let each of these environments (ascending) go as far as its own interval."""
        self._released[environments] = intervals
        self._ring(self._bells.executors, self._executor_of, environments)

    def standing(self, environments: np.ndarray | slice, steps: int) -> bool:
        """Return whether each of these environments waits for an answer or has stored `steps`."""
        waiting = self.state[environments] == REQUESTED
        return bool((waiting | (self.finished[environments] >= steps)).all())

    def all_finished(self, steps: int) -> bool:
        """Return whether every environment of an executor has stored `steps` steps."""
        return bool((self.finished[self._own] >= steps).all())

    def stop(self) -> None:
        """Ask all roles to leave."""
        self._stopped[0] = 1
        bells: list[Doorbell] = [*self._bells.executors, *self._bells.actors]
        for bell in bells:
            bell.ring()

    @staticmethod
    def _ring(bells: Sequence[Doorbell], owner_of: np.ndarray, environments: np.ndarray) -> None:
        owners = owner_of[environments]
        first, last = int(owners[0]), int(owners[-1])  # environments ascend, so owners do
        if first == last:
            bells[first].ring()
        else:
            for owner in sorted(set(map(int, owners))):
                bells[owner].ring()


def even_chunks(environments: int, owners: int) -> tuple[int, ...]:
    """Return the bounds of nearly equal chunks.

    >>> even_chunks(7, 3)
    (0, 3, 5, 7)
    """
    base, extra = divmod(environments, owners)
    bounds = [0]
    for owner in range(owners):
        bounds.append(bounds[-1] + base + (1 if owner < extra else 0))
    return tuple(bounds)


def _owner_of(bounds: Sequence[int]) -> np.ndarray:
    """Return the owner of each environment; those before the first bound have none (−1)."""
    sizes = np.diff(bounds, prepend=0)
    return np.repeat(np.arange(-1, len(sizes) - 1), sizes)


def combined(*parts: Mapping[str, tuple[tuple[int, ...], str]]) -> PublishedLayout:
    """Return one layout of the arrays of several parts; ValueError for a name used twice."""
    arrays: dict[str, tuple[tuple[int, ...], str]] = {}
    for part in parts:
        twice = arrays.keys() & part.keys()
        if twice:
            raise ValueError(f"two parts want arrays of the same name: {sorted(twice)}")
        arrays.update(part)
    return PublishedLayout(arrays)
