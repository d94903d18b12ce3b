"""Time between two generations on a cluster, by what every node is sent: parameters or scalars."""

from typing import NamedTuple


class GenerationCosts(NamedTuple):
    """Costs of one generation that do not depend on the cluster."""

    update_core_seconds: float
    """Update of the search on one core."""
    update_tiles: int
    """Parts of the update that cores can share."""
    parameter_bytes: int
    """Published arrays of a generation."""
    scalar_bytes: int
    """Record of everything that the search is told."""


class Cluster(NamedTuple):
    """Equal nodes; the driver runs on one of them."""

    nodes: int
    cores: int
    """Cores of each node."""
    bits_per_second: float
    """Rate at which the driver's node sends."""


class Sending(NamedTuple):
    """Bytes and seconds of one way to bring every node to the next generation."""

    bytes_sent: int
    seconds: float


def broadcast(costs: GenerationCosts, cluster: Cluster) -> Sending:
    """U / min(cores, tiles) + 8 (nodes − 1) b / rate: one update, then b bytes to each other node.

    Nodes that pass parameters on to others would take less.
    """
    sent = (cluster.nodes - 1) * costs.parameter_bytes
    return Sending(sent, _update(costs, cluster) + 8.0 * sent / cluster.bits_per_second)


def replicas(costs: GenerationCosts, cluster: Cluster) -> Sending:
    """8 (nodes − 1) s / rate + 2 U / min(cores, tiles): s bytes of scalars, then the update.

    The driver's node makes two at the same time, the driver's and its replica's.
    """
    sent = (cluster.nodes - 1) * costs.scalar_bytes
    return Sending(sent, 8.0 * sent / cluster.bits_per_second + 2.0 * _update(costs, cluster))


def _update(costs: GenerationCosts, cluster: Cluster) -> float:
    return costs.update_core_seconds / min(cluster.cores, max(1, costs.update_tiles))
