"""A long-lived role in a process of its own: `main` is its program.

    role-started → build the role → role-built → (advance … wait for the bell)*
    → close the environments → leave

The driver's end of the control pipe closes when the role should leave, or when the driver dies.
"""

import os
import pickle
import sys
import time
from contextlib import ExitStack, suppress
from typing import NoReturn

from drumline.crew_protocols import Role
from drumline.protocols import Probe, PublishedLayout, no_probe
from drumline.runtime.child_start import begin, leave
from drumline.runtime.crews.exchange import Bells, Ownership, SharedExchange
from drumline.runtime.crews.roles import LEAVING, PHASE, RoleRows, SharedRoleContext, work
from drumline.runtime.doorbell import BellWait, Doorbell
from drumline.runtime.failures import packed
from drumline.runtime.known_answer import refuse_other_bits
from drumline.runtime.links import write_frame
from drumline.runtime.messages import Ready, RoleSpec
from drumline.runtime.published import PublishedSlots
from drumline.runtime.shared_arrays import SharedArrays


def main() -> NoReturn:
    """Build the role, work until the driver closes the control pipe, and leave."""
    parent, control_fd, result_fd, spec_fd = map(int, sys.argv[1:])
    begin(parent)
    with open(spec_fd, "rb") as file:
        spec: RoleSpec = pickle.load(file)
    for fd in (control_fd, result_fd, spec.memory_fd, *_descriptors(spec)):
        os.set_inheritable(fd, False)  # a program that an environment starts must not inherit them
    sys.path[:] = spec.search_path
    memory = SharedArrays.attach(spec.memory_fd, spec.layout)
    bells = Bells(Doorbell(*spec.driver), _bells(spec.executors), _bells(spec.actors))
    own = (bells.executors if spec.role == "executor" else bells.actors)[spec.index]
    exchange = SharedExchange(memory.arrays, bells, Ownership(*spec.ownership))
    rows = RoleRows(memory.arrays)
    row = rows.row(spec.place)
    code = 0
    leaving = ExitStack()
    with suppress(BrokenPipeError):  # the driver is gone, or has closed the crew
        try:
            probe: Probe = pickle.loads(spec.probe_factory)() if spec.probe_factory else no_probe
            probe("role-started")
            refuse_other_bits(spec.numpy_answer)
            slots = PublishedSlots(PublishedLayout(spec.published), memory.arrays)
            start = pickle.loads(spec.start)
            context = SharedRoleContext(
                spec.index, memory.arrays, exchange, slots, row, start, probe, leaving
            )
            role: Role = pickle.loads(spec.factory)(context)
            write_frame(result_fd, pickle.dumps(Ready(time.process_time())), lambda: None)
            probe("role-built")
            waiter = BellWait(own, [control_fd])

            def wait(seconds: float | None) -> bool:
                longest = spec.beat_seconds
                return not waiter.wait(longest if seconds is None else min(seconds, longest))

            work(role, row, wait, lambda: exchange.stopped)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the caller must see it
            code = 1
            write_frame(result_fd, pickle.dumps(packed(error)), lambda: None)
    row.words[PHASE] = LEAVING
    leaving.close()
    leave(code)


def _descriptors(spec: RoleSpec) -> list[int]:
    return [fd for pair in (spec.driver, *spec.executors, *spec.actors) for fd in pair]


def _bells(pairs: tuple[tuple[int, int], ...]) -> list[Doorbell]:
    return [Doorbell(*pair) for pair in pairs]
