"""Nodes of a Ray cluster as places for the groups of a run."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (Ray's annotations are partial)

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from drumline.errors import WorkersLost
from drumline.runtime.cluster.group_host import GroupHost
from drumline.runtime.cluster.group_messages import NODE_LOST, GroupSpec
from drumline.runtime.cluster.node_messages import Node
from drumline.runtime.cluster.ray_cluster import RayCluster, cause_of


class RayPlaces:
    """Nodes of the cluster for the groups of a run: its head is in this process."""

    def __init__(self, cluster: RayCluster):
        self._cluster = cluster
        self._placed: dict[int, str] = {}
        """Group → node, of the latest start of each."""
        self._losses: Counter[str] = Counter()
        """Groups that were lost on each node."""

    @property
    def host(self) -> str:
        """Address at which other nodes reach this process."""
        own = ray.get_runtime_context().get_node_id()
        return next(row["NodeManagerAddress"] for row in ray.nodes() if row["NodeID"] == own)

    def start(self, index: int, count: int, spec_on: Callable[[str], GroupSpec]) -> "RayGroup":
        """Start a group on the node that lost and has the fewest of them, the driver's node last.

        Each claims its node's cores, or an equal share where a node may get several groups.
        """
        nodes = [node for node in self._cluster.present() if node.leaves_in is None]
        if not nodes:
            raise WorkersLost("the cluster has no node with cores: start one, then drumline resume")
        own = ray.get_runtime_context().get_node_id()
        placed = {group: node for group, node in self._placed.items() if group != index}
        taken = Counter([own, *placed.values()])

        def order(node: Node) -> tuple[int, int, bool, str, str]:
            return self._losses[node.id], taken[node.id], node.id == own, node.name, node.id

        node = min(nodes, key=order)
        self._placed[index] = node.id
        shared = len(nodes) < count or any(self._losses.values())
        cores = node.cores // count if shared else node.cores
        actor = (
            ray.remote(GroupHost)
            .options(
                num_cpus=cores,
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=2,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
            )
            .remote(spec_on(node.name))
        )
        return RayGroup(self._cluster, node, actor, self._losses)

    def look(self) -> None:
        """Raise WorkersLost once the cluster's head has been silent for too long."""
        self._cluster.present()


class RayGroup:
    """A group on a node."""

    def __init__(self, cluster: RayCluster, node: Node, actor: Any, losses: Counter[str]):
        """`losses` counts the groups that each node has lost."""
        self._cluster = cluster
        self._losses = losses
        self.where = f"node {node.name}"
        self._node = node
        self._actor = actor
        self._ended = actor.ended.remote()
        self._cause: str | None = None

    def ended(self) -> str | None:
        """Return the cause of its end; None while it lives, as far as is known."""
        if self._cause is None and ray.wait([self._ended], timeout=0)[0]:
            try:
                self._cause = str(ray.get(self._ended))
            except exceptions.ActorUnavailableError:
                self._ended = self._actor.ended.remote()
            except exceptions.RayError as error:
                gone = self._cluster.is_gone(self._node)
                self._cause = NODE_LOST if gone else cause_of(error)
        return self._cause

    def end(self, *, lost: bool = False) -> None:
        """Kill the actor; its process ends with it."""
        self._losses[self._node.id] += lost
        if self._cluster.headless:
            return  # Ray would wait for the head; the actor ends with this process
        with suppress(exceptions.RayError):
            ray.kill(self._actor)
