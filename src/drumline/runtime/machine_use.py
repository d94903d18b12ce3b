"""Memory and cores that a run's processes use on the driver's machine, sampled seldom."""

import time
from typing import Any, NamedTuple


class MachineUse(NamedTuple):
    """Use of the driver and of all its descendants."""

    memory_bytes: int
    """Resident memory of each process's own, and once what the driver shares with others."""
    cores_busy: float
    """Processor seconds in a second, since the sample before."""


class UseSampler:
    """Samples every few seconds, less often where a sample takes long.

    A process that ends between two samples is not in the second: its last moments are not counted.
    """

    def __init__(self, sample_seconds: float = 2.0, cost_share: float = 0.005):
        self._sample_seconds = sample_seconds
        self._cost_share = cost_share
        self._next = 0.0
        self._before: tuple[float, dict[tuple[int, float], float]] | None = None
        self.newest: MachineUse | None = None

    def sample(self) -> None:
        """Take a sample if one is due; None in `newest` before the second one."""
        began = time.perf_counter()
        if began < self._next:
            return
        spent_before = time.thread_time()
        memory, seconds = _measured()
        cost = time.thread_time() - spent_before
        if self._before is not None:
            then, before = self._before
            worked = sum(spent - before.get(process, 0.0) for process, spent in seconds.items())
            self.newest = MachineUse(memory, max(0.0, worked) / (began - then))
        self._before = (began, seconds)
        self._next = began + max(self._sample_seconds, cost / self._cost_share)


def _measured() -> tuple[int, dict[tuple[int, float], float]]:
    """Return resident bytes, and each (process, begin) with its processor seconds."""
    import psutil

    driver = psutil.Process()
    memory = 0
    seconds: dict[tuple[int, float], float] = {}
    for process in [driver, *driver.children(recursive=True)]:
        try:
            with process.oneshot():
                used: Any = process.memory_info()
                times = process.cpu_times()
                seconds[process.pid, process.create_time()] = times.user + times.system
        except psutil.Error:  # it has just ended, or is another user's
            continue
        memory += used.rss if process == driver else used.rss - getattr(used, "shared", 0)
    return memory, seconds
