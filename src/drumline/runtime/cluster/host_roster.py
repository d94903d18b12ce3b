"""Hosts of a node pool, one per node: started where workers are missing, and left out by name."""

import time
from collections.abc import Callable, Mapping

import numpy as np

from drumline.errors import WorkersLost
from drumline.runtime.cluster.driven_host import DrivenHost
from drumline.runtime.cluster.host_loads import WATCH_SECONDS, even_sizes
from drumline.runtime.cluster.node_messages import HostSpec, Node, Nodes
from drumline.types import ProcessActivity

LATE_SECONDS = 30.0
"""Time after which a host that has not begun counts as absent: its cores may be another's."""


class HostRoster:
    """Hosts that there are now, and the nodes that cannot take part."""

    def __init__(
        self,
        nodes: Nodes,
        spec: HostSpec,
        *,
        wanted: int,
        claims_cores: bool,
        patience: float,
        log: Callable[[str], None],
    ):
        """`wanted`: workers of all hosts, 0 for every core; `patience`: seconds without a node."""
        self.hosts: list[DrivenHost] = []
        """Changed in place: others may keep it."""
        self.ended: list[ProcessActivity] = []
        """Rows of the processes of hosts that have ended."""
        self._nodes = nodes
        self._spec = spec
        self._wanted = wanted
        self._claims_cores = claims_cores
        self._patience = patience
        self._log = log
        self._tried: set[str] = set()
        """Identities of the nodes that have had a host."""
        self._refused: dict[str, str] = {}
        self._untold: list[str] = []
        """Refusals that are logged if the run goes on without these nodes."""
        self._workers_made = 0
        self._looked_at = -np.inf
        self._alone_since: float | None = None

    @property
    def workers(self) -> int:
        """Workers of all hosts; at least 1."""
        return max(1, sum(host.size for host in self.hosts))

    @property
    def is_over(self) -> bool:
        """Whether hosts that speak have more workers than were asked for."""
        return 0 < self._wanted < self._speaking

    @property
    def _speaking(self) -> int:
        """Return the workers of hosts that are not silent: only they count as there."""
        return sum(host.size for host in self.hosts if not host.silent)

    @property
    def is_due(self) -> bool:
        """Whether it is time to look at the nodes again."""
        return time.perf_counter() - self._looked_at >= WATCH_SECONDS

    def look_soon(self) -> None:
        """Let the next look be due at once."""
        self._looked_at = -np.inf

    def look(self) -> dict[str, Node]:
        """Return the nodes that there are, by identity."""
        self._looked_at = time.perf_counter()
        present = {node.id: node for node in self._nodes.present()}
        for host in self.hosts:
            host.node = present.get(host.node.id, host.node)
        return present

    def fill(self, present: Mapping[str, Node]) -> list[DrivenHost]:
        """Start hosts on nodes without one, as far as workers are missing, and return them.

        WorkersLost if every node that had a host is refused, or none has one that begins for too
        long.
        """
        taken = {host.node.id for host in self.hosts} | self._refused.keys()
        free = [n for n in present.values() if n.id not in taken and n.leaves_in is None]
        missing = self._wanted - self._speaking
        cores = {node.id: node.cores for node in free}
        sizes = cores if self._wanted == 0 else even_sizes(cores, missing)
        started = [self._start(n, sizes[n.id]) for n in free if sizes[n.id] > 0]
        self._give_up_if_alone()
        for refusal in self._untold:
            self._log(f"{refusal}; the run goes on without it")
        self._untold.clear()
        return started

    def remove(self, host: DrivenHost) -> None:
        """End a host and keep the rows of its processes."""
        self.hosts.remove(host)
        host.link.end()
        self.ended += host.activity

    def refuse(self, host: DrivenHost, why: str) -> None:
        """End a host and leave its node out; another may take its place at the next look."""
        self.hosts.remove(host)
        host.link.end()
        self._refused[host.node.id] = f"node {host.node.name}: {why}"
        self._untold.append(self._refused[host.node.id])
        self.look_soon()

    def _start(self, node: Node, size: int) -> DrivenHost:
        spec = self._spec._replace(size=size)
        cores = min(size, node.cores) if self._claims_cores else 0
        link = self._nodes.start(node, spec, cores)
        self.hosts.append(DrivenHost(node, link, size, self._workers_made))
        self._workers_made += size
        self._tried.add(node.id)
        return self.hosts[-1]

    def _give_up_if_alone(self) -> None:
        if any(host.speaks or not host.silent for host in self.hosts):
            self._alone_since = None
            return
        refusals = "; ".join(self._refused.values())
        if self._tried and self._tried == self._refused.keys():
            raise WorkersLost(f"no node can take part: {refusals}")
        now = time.perf_counter()
        if self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > self._patience:
            others = f"; nodes that cannot take part: {refusals}" if refusals else ""
            lacks, one = ("core free", "a node") if self.hosts else ("node with cores", "one")
            raise WorkersLost(
                f"the cluster has had no {lacks} for {self._patience:g} s: "
                f"start {one}, then go on with drumline resume{others}"
            )
