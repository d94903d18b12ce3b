"""Number of usable cores; imports little, because the command line asks for it."""

import math
import os
from pathlib import Path
from typing import NamedTuple

from drumline.runtime.machine_limits import machine_limits


class Cores(NamedTuple):
    """Usable cores, the cores of the machine, and the bound that made them fewer."""

    usable: int
    machine: int
    bound: str
    """Reason why fewer cores than the machine's are usable; empty if all are."""

    def __str__(self) -> str:
        return f"{self.usable} of {self.machine}" + (f", by {self.bound}" if self.bound else "")


def available_cores() -> int:
    """Return the number of cores that this process and its children may use."""
    return usable_cores().usable


def usable_cores(root: Path = Path("/")) -> Cores:
    """Return the cores that affinity and the CPU quota of the control groups below `root` leave.

    Part of a core counts as one: 1.5 cores are used up by two processes.
    """
    machine = os.cpu_count() or 1
    cores = Cores(machine, machine, "")
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
        if allowed < machine:
            cores = Cores(allowed, machine, "the CPU affinity of this process")
    limits = machine_limits(root)
    if limits.cores is not None and math.ceil(limits.cores) < cores.usable:
        quota = f"the CPU quota of {limits.cores:g} in {limits.cores_file}"
        cores = Cores(max(1, math.ceil(limits.cores)), machine, quota)
    return cores
