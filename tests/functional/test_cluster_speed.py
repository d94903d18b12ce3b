"""Which way of bringing nodes to the next generation is cheaper, by the cluster."""

import pytest

from drumline.functional.cluster_speed import Cluster, GenerationCosts, broadcast, replicas

COSTS = GenerationCosts(
    update_core_seconds=0.8, update_tiles=16, parameter_bytes=4_000_000, scalar_bytes=1_000
)


def test_parameters_cross_the_network_once_for_each_other_node():
    sending = broadcast(COSTS, Cluster(nodes=5, cores=8, bits_per_second=1e9))
    assert sending.bytes_sent == 16_000_000
    assert sending.seconds == pytest.approx(0.8 / 8 + 16e6 * 8 / 1e9)


def test_replicas_make_the_update_beside_the_driver():
    sending = replicas(COSTS, Cluster(nodes=5, cores=8, bits_per_second=1e9))
    assert sending.bytes_sent == 4_000
    assert sending.seconds == pytest.approx(2 * 0.8 / 8 + 4e3 * 8 / 1e9)


def test_an_update_has_no_use_for_more_cores_than_tiles():
    wide, wider = (Cluster(1, cores, 1e9) for cores in (16, 64))
    assert broadcast(COSTS, wide) == broadcast(COSTS, wider)
    assert broadcast(COSTS._replace(update_tiles=0), wide).seconds == pytest.approx(0.8)


def test_a_single_node_is_sent_nothing_and_broadcast_is_cheaper_there():
    one = Cluster(1, 4, 1e9)
    assert broadcast(COSTS, one).bytes_sent == replicas(COSTS, one).bytes_sent == 0
    assert broadcast(COSTS, one).seconds < replicas(COSTS, one).seconds


@pytest.mark.parametrize(
    ("nodes", "cores", "rate", "cheaper"),
    [(2, 4, 1e11, "broadcast"), (2, 4, 1e8, "replicas"), (64, 16, 1e10, "replicas")],
)
def test_slow_networks_many_nodes_and_many_cores_favour_replicas(
    nodes: int, cores: int, rate: float, cheaper: str
):
    cluster = Cluster(nodes, cores, rate)
    less = broadcast(COSTS, cluster).seconds < replicas(COSTS, cluster).seconds
    assert ("broadcast" if less else "replicas") == cheaper
