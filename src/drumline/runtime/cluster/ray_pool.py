"""RayNodes: the nodes of a Ray cluster, for a `NodePool`. Only files named `ray_…` import Ray.

A host is an actor that is never restarted or retried by Ray: the driver issues lost tasks again
itself. Ray would keep the order of an actor's calls, and one failure would hold up its followers.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (Ray's annotations are partial)

import pickle
import threading
import time
from collections.abc import Sequence
from typing import Any

try:
    import ray
    from ray import exceptions
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise ValueError(
        "--pool ray needs Ray, which is not installed: pip install 'drumline[ray]'"
    ) from error

from drumline.runtime.cluster.node_checks import versions_of
from drumline.runtime.cluster.node_messages import Heard, HostSpec, Link, Lost, Node
from drumline.runtime.cluster.ray_cluster import STORE_BYTES, RayCluster
from drumline.runtime.cluster.ray_link import RayHost, RayLink
from drumline.runtime.cluster.ray_places import RayPlaces


class RayNodes:
    """Nodes of a Ray cluster that this process has joined, or has started on this machine."""

    def __init__(self, address: str = "", cores: int = 0, store_bytes: int = STORE_BYTES):
        """Join the cluster at `address` (host:port, or auto); empty: start one of `cores` here."""
        self._cluster = RayCluster(address, cores, store_bytes)
        self._bell = threading.Event()

    def present(self) -> list[Node]:
        """Return the nodes that are alive and have cores, the driver's own first."""
        return self._cluster.present()

    def start(self, node: Node, spec: HostSpec, cores: int) -> "RayLink":
        """Start a host that claims `cores` of a node's cores."""
        actor = (
            ray.remote(RayHost)
            .options(
                num_cpus=cores,
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=4,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
            )
            .remote(versions_of(["drumline"])["drumline"], pickle.dumps(spec, protocol=5))
        )
        return RayLink(self._cluster, node, actor, self._bell)

    def places(self) -> "RayPlaces":
        """Return the nodes as places for the groups of a run."""
        return RayPlaces(self._cluster)

    def put(self, value: Any) -> Any:
        """Store a value once for all nodes."""
        try:
            return ray.put(value)
        except (exceptions.ObjectStoreFullError, exceptions.OutOfDiskError) as error:
            raise MemoryError(
                "Ray's object store on the driver's node is full, and so is the disk that it "
                "spills to: start that node with a larger --object-store-memory, or free its disk"
            ) from error

    def wait(self, links: Sequence[Link], seconds: float) -> list[tuple[Link, Heard | Lost]]:
        """Wait for news of any host; at most `seconds`."""
        deadline = time.perf_counter() + seconds
        while True:
            self._bell.clear()
            spoken = [link for link in links if _ray(link).listen()]
            taken = [(link, _ray(link).take()) for link in spoken]
            news = [(link, what) for link, what in taken if what is not None]
            remaining = deadline - time.perf_counter()
            if news or remaining <= 0:
                return news
            self._bell.wait(remaining)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._cluster.close()


def _ray(link: Link) -> RayLink:
    assert isinstance(link, RayLink), "a cluster waits for its own links only"
    return link
