"""A crew inside the driver: roles take turns while it waits. For debugging and tests."""

import os
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import numpy as np

from drumline.crew_protocols import Role
from drumline.errors import WorkerError, words_of
from drumline.protocols import Probe, Unwatched, Whereabouts, no_probe
from drumline.runtime.crews.crew_plan import CrewPlan
from drumline.runtime.crews.exchange import Bells, SharedExchange
from drumline.runtime.crews.roles import (
    PHASE,
    PROGRESS,
    WAITING,
    RoleRow,
    RoleRows,
    SharedRoleContext,
)
from drumline.runtime.doorbell import BellWait, Doorbell
from drumline.runtime.published import PublishedSlots
from drumline.runtime.shared_arrays import refuse_too_large
from drumline.types import ProcessActivity, Span


class InlineCrew:
    """A `Crew` whose roles live in the driver: nothing is pickled and no role dies alone."""

    def __init__(
        self,
        plan: CrewPlan,
        *,
        probe_factory: Callable[[], Probe] | None = None,
        tick: Callable[[], None] = lambda: None,
        whereabouts: Whereabouts | None = None,
    ):
        """Call `tick` after each env step that is replayed while the roles are built."""
        self._plan = plan
        self._tick = tick
        self._whereabouts = whereabouts or Unwatched()
        self._counted = self._whereabouts.step
        self._next_note = 0.0
        self._noted = -1
        """`entered` of the whereabouts after the latest note of this crew's."""
        self._probe: Probe = no_probe if probe_factory is None else probe_factory()
        layout = plan.layout()
        refuse_too_large(layout)
        self.arrays = {name: np.zeros(*array) for name, array in layout.arrays.items()}
        counts = [len(plan.ownership.executors) - 1, len(plan.ownership.actors) - 1]
        self._bells = Bells(
            Doorbell.create(), *([Doorbell.create() for _ in range(n)] for n in counts)
        )
        self.exchange = SharedExchange(self.arrays, self._bells, plan.ownership)
        self._slots = PublishedSlots(plan.published, self.arrays)
        self._slots.clear()
        self._rows = RoleRows(self.arrays)
        self._roles: list[tuple[str, int, Role, RoleRow]] = []
        self._leaving = ExitStack()
        self._closed = False

    def start(self) -> None:
        """Build every role."""
        for place, (name, index) in enumerate(self._plan.roles):
            row = self._rows.row(place)
            start = self._plan.start_of(name, index)
            context = SharedRoleContext(
                index,
                self.arrays,
                self.exchange,
                self._slots,
                row,
                start,
                self._probe,
                self._leaving,
                self._tick,
                self._whereabouts,
            )
            try:
                role = self._plan.factory(name)(context)
            except (Exception, SystemExit) as error:
                raise self._failure(name, index, error) from error
            row.words[PHASE] = WAITING
            self._roles.append((name, index, role, row))

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Make `version` visible to every role; the latest three are kept."""
        self._slots.publish(version, arrays)

    def published(self, version: int) -> Mapping[str, np.ndarray]:
        """Return the arrays of `version`, read in place."""
        return self._slots.read(version)

    def wait(self, until: Callable[[], bool], timeout: float | None = None) -> bool:
        """Let the roles work in turn until `until()` holds; False after `timeout` seconds."""
        deadline = None if timeout is None else time.perf_counter() + timeout
        self._note()
        try:
            return self._work(until, deadline)
        finally:
            self._whereabouts.leave()

    def _note(self) -> None:
        """Note where the roles are: in words at most each second, because words take time."""
        now = time.perf_counter()
        others = self._noted != self._whereabouts.entered
        if (now < self._next_note and not others) or not self._roles:
            self._whereabouts.again()
            return
        self._next_note = now + 1.0
        name, index, *_ = self._roles[0]
        self._whereabouts.enter(f"{name} {index}, {self._plan.place_of(name, index)} or later")
        self._noted = self._whereabouts.entered

    def _work(self, until: Callable[[], bool], deadline: float | None) -> bool:
        waiter = BellWait(self._bells.driver)
        while not until():
            if deadline is not None and time.perf_counter() >= deadline:
                return False
            if not any([self._turn(*entry) for entry in self._roles]):
                due = [role.due_seconds() for _, _, role, _ in self._roles]
                known = [seconds for seconds in due if seconds is not None]
                if not known and deadline is None and not until():
                    raise RuntimeError("every role waits for a bell that no role can ring")
                waiter.wait(min([0.05, *known]))
        return True

    def look(self) -> None:
        """Do nothing: no role can die alone."""

    def restoring(self) -> tuple[int, int]:
        """Return the env steps replayed, and those to replay, of roles that are not yet built."""
        return self._rows.restoring(len(self._plan.roles))

    def activity(self) -> list[ProcessActivity]:
        """Return one row per role."""
        rows: list[ProcessActivity] = []
        for place, (name, index) in enumerate(self._plan.roles):
            status = self._rows.status(place)
            busy, done, pieces = status.busy_seconds, status.progress, status.pieces
            rows.append(ProcessActivity(name, index, os.getpid(), pieces, done, busy, 0))
        return rows

    def timeline(self) -> list[Span]:
        """Return the latest stretches of work of every role, oldest first."""
        spans = [
            span
            for place, (role, index) in enumerate(self._plan.roles)
            for span in self._rows.spans(role, index, place)
        ]
        return sorted(spans, key=lambda span: span.start)

    def close(self) -> None:
        """Let the roles free their resources and close the doorbells; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._leaving.close()
        self._roles.clear()
        for bell in (self._bells.driver, *self._bells.executors, *self._bells.actors):
            bell.close()

    def _turn(self, name: str, index: int, role: Role, row: RoleRow) -> bool:
        begin = time.perf_counter()
        try:
            worked = role.advance()
        except (Exception, SystemExit) as error:
            raise self._failure(name, index, error) from error
        if worked:
            self._counted[0] = row.words[PROGRESS]
            row.worked(begin, time.perf_counter())
        return worked

    def _failure(self, name: str, index: int, error: BaseException) -> WorkerError:
        where = f"{name} {index}, {self._plan.place_of(name, index)}"
        text = "".join(traceback.format_exception(error))
        return WorkerError(where, words_of(error), text, error)
