"""A pool that is attended: signals stop the run only where it waits, and the display ticks."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from drumline.protocols import Completed, WorkerPool
from drumline.schedules.member_groups import grouped, singly
from drumline.training.stop_signals import StopSignals
from drumline.training.unended_episodes import UnendedEpisodes
from drumline.types import ProcessActivity, Span

TICK_SECONDS = 0.25


class AttendedPool:
    """A pool whose `completed` ends at a signal; all other calls go to the wrapped pool."""

    def __init__(
        self,
        pool: WorkerPool,
        signals: StopSignals,
        tick: Callable[[WorkerPool], None],
        unended: UnendedEpisodes,
        members_per_call: int = 1,
    ):
        """`members_per_call`: tasks of members that travel as one (`EvaluateMembers`)."""
        self._pool = pool
        self._members_per_call = members_per_call
        self._unended = unended
        self._signals = signals
        self._tick = tick
        self._early: list[Completed] = []
        """Tasks that had finished by the latest `look`."""
        self._failure: Exception | None = None
        self.size = pool.size

    def submit(self, tasks: Sequence[Any]) -> None:
        """Queue tasks."""
        self._pool.submit(grouped(tasks, self._members_per_call))

    def completed(self, timeout: float | None = None) -> list[Completed]:
        """Return the finished tasks; may raise `Stopped` while it waits."""
        while True:
            self._signals.arm()
            try:
                done = self._finished(TICK_SECONDS if timeout is None else timeout)
            finally:
                self._signals.disarm()
            # Code of the user's own that an inline pool calls may catch what a signal raises: what
            # it has returned then is no result.
            self._signals.look()
            self._tick(self._pool)
            if done:
                self._unended.ended()
            elif self._unended.due():
                self._unended.going(sum(steps for _, steps in self._pool.progressed()))
            self._signals.state_whole = not (done or timeout is not None)
            if done or timeout is not None:
                if self._members_per_call == 1:
                    return done
                return [single for item in done for single in singly(item)]

    def look(self) -> None:
        """Send idle workers their next tasks, without a wait that a signal could end.

        `completed` returns the results that have come, and raises the failure: where that happens
        does not depend on how long a task takes. An inline pool would run its tasks here.
        """
        if self._failure is None:
            try:
                self._early += self._pool.completed(0.0)
            except Exception as error:  # noqa: BLE001 - `completed` raises it, whatever it is
                self._failure = error

    def progressed(self) -> list[tuple[Any, int]]:
        """Return the tasks in flight that have begun and how far they have come."""
        return self._pool.progressed()

    def wake_at(self, task: Any, amount: int) -> None:
        """Let `completed` return once a task has progressed by `amount`."""
        self._pool.wake_at(task, amount)

    def withdraw(self) -> None:
        """Call back every task submitted so far."""
        self._pool.withdraw()
        self._early = [done._replace(withdrawn=True) for done in self._early]
        self._failure = None

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Make the arrays of `version` visible."""
        self._pool.publish(version, arrays)

    def retain(self, versions: Collection[int]) -> None:
        """Keep these versions until the next call."""
        self._pool.retain(versions)

    def activity(self) -> list[ProcessActivity]:
        """Return one row per process."""
        return self._pool.activity()

    def timeline(self) -> list[Span]:
        """Return the latest stretches of work."""
        return self._pool.timeline()

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()

    def _finished(self, timeout: float) -> list[Completed]:
        """Return what `look` has met, else what finishes now."""
        early, self._early = self._early, []
        if early:
            return early
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return self._pool.completed(timeout)
