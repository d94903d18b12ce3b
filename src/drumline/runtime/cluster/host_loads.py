"""Which host gets the next tasks, and how many."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from drumline.runtime.cluster.driven_host import DrivenHost
from drumline.runtime.cluster.host_deaths import HostDeaths
from drumline.runtime.leases import TaskQueue

_GATHERS_IN_RESERVE = 3.0
"""Work in reserve for each worker of a node, in longest times between messages of its host."""
_LEAST_SECONDS = 0.05
"""Reserve, in seconds, that a node is given to the end of the queue: a message costs more than
an imbalance of this length."""
_GROWTH = 16
"""Tasks in reserve for each task that the host has answered: one fast task proves little."""
_SHARES = 2
"""A node's reserve is at most this part of its share of the queue, so that no node has tasks
waiting at the end of the queue while another one is idle. Less than the least reserve is not
shared: a few tasks in a message of their own cost the driver more than they save."""
WATCH_SECONDS = 1.0
"""Time between two looks at which nodes there are."""


class HostLoads:
    """Tasks that each host may be sent, by its workers, its pace and what it holds."""

    def __init__(self, queue: TaskQueue, deaths: HostDeaths, *, one_task_leases: bool):
        self._queue = queue
        self._deaths = deaths
        self._one_task_leases = one_task_leases

    def room(self, host: DrivenHost, workers: int, gather: float, *, starting: bool = False) -> int:
        """Return the number of queued tasks that a host may be sent now.

        Each of its workers, of `workers` in all, has one to begin and some in reserve while the
        queue is long. `gather`: longest time between messages of the host, in seconds;
        `starting`: another host will soon take tasks.
        """
        if not takes_tasks(host):
            return 0
        queued, held = len(self._queue), len(host.held)
        if self._deaths.any_suspects:
            if any(map(self._deaths.is_suspect, host.held)):
                return 0
            if any(self._deaths.is_suspect(serial) for serial, _ in self._queue):
                return 1 if held == 0 else 0
        if self._one_task_leases:
            return min(queued, host.size - held)
        share = math.ceil(queued * host.size / workers)
        if held and not starting:  # a short queue is for every node, also for one that starts
            share = max(share, int(host.size * _least(host)))
        return min(queued, share, host.size * (1 + _reserve(host, queued, workers, gather)) - held)


def takes_tasks(host: DrivenHost) -> bool:
    """Return whether a host may be sent tasks at all."""
    ready = host.speaks and not host.silent and not host.unwritten
    return ready and not _leaves_too_soon(host)


def send_to_idle(
    late: Iterable[int], hosts: Sequence[DrivenHost], send: Callable[[DrivenHost, int], None]
) -> None:
    """Send late tasks to idle workers of hosts that do not hold them."""
    idle = {
        host.first: host.size - len(host.held)
        for host in hosts
        if takes_tasks(host) and len(host.held) < host.size
    }
    for serial in late:
        others = [host for host in hosts if idle.get(host.first, 0) and serial not in host.held]
        if others:
            host = max(others, key=lambda host: idle[host.first] / host.size)
            idle[host.first] -= 1
            send(host, serial)


def even_sizes(cores: Mapping[str, int], workers: int) -> dict[str, int]:
    """Return the number of workers on each node: one a core in turn, then beyond the cores.

    >>> even_sizes({"a": 2, "b": 4}, 5)
    {'a': 2, 'b': 3}
    >>> even_sizes({"a": 1, "b": 1}, 4)
    {'a': 2, 'b': 2}
    """
    sizes = dict.fromkeys(cores, 0)
    for _ in range(workers if cores else 0):
        least = min(sizes, key=lambda node: (sizes[node] >= cores[node], sizes[node]))
        sizes[least] += 1
    return sizes


def _reserve(host: DrivenHost, queued: int, workers: int, gather: float) -> int:
    """Return the tasks that wait on a host behind each one that runs."""
    pace = host.pace.seconds_per_task
    if pace is None:
        return int(queued >= _SHARES * workers)
    shrinking = max(queued / (_SHARES * workers), _least(host))
    longest = max(1.0, _GATHERS_IN_RESERVE * gather / pace)
    return int(min(longest, shrinking, _GROWTH * host.answered))


def _least(host: DrivenHost) -> float:
    """Return the tasks that a worker of a host is given to the end of the queue."""
    pace = host.pace.seconds_per_task
    return 0.0 if pace is None else _LEAST_SECONDS / pace


def _leaves_too_soon(host: DrivenHost) -> bool:
    leaves_in = host.node.leaves_in
    if leaves_in is None:
        return False
    pace = host.pace.seconds_per_task
    return pace is None or leaves_in < 2 * pace * host.size + WATCH_SECONDS
