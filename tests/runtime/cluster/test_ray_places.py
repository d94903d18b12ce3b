"""Cores that groups claim on the nodes of a cluster; Ray itself is not asked."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

from drumline.runtime.cluster import ray_places
from drumline.runtime.cluster.node_messages import Node
from drumline.runtime.cluster.ray_places import RayPlaces


class Cluster:
    """A cluster of nodes of eight cores; the first is the driver's."""

    headless = False

    def __init__(self, count: int):
        self.nodes = [Node(f"n{k}", f"10.0.0.{k}", 8) for k in range(count)]

    def present(self) -> list[Node]:
        return list(self.nodes)


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(node, cores) of each group that is started."""
    found: list[tuple[str, int]] = []

    def remote(kind: type) -> Any:
        def options(*, num_cpus: int, scheduling_strategy: Any, **others: Any) -> Any:
            found.append((scheduling_strategy.node_id, num_cpus))
            ended = SimpleNamespace(remote=lambda: None)
            return SimpleNamespace(remote=lambda spec: SimpleNamespace(ended=ended))

        return SimpleNamespace(options=options)

    context = SimpleNamespace(get_node_id=lambda: "n0")
    pretended = SimpleNamespace(remote=remote, get_runtime_context=lambda: context)
    monkeypatch.setattr(ray_places, "ray", pretended)
    monkeypatch.setattr(
        ray_places,
        "NodeAffinitySchedulingStrategy",
        lambda node_id, soft: SimpleNamespace(node_id=node_id),
    )
    return found


@pytest.mark.parametrize(
    ("nodes", "count"), [(1, 3), (2, 2), (2, 4), (3, 3), (3, 4), (4, 3), (2, 9)]
)
@pytest.mark.parametrize("lost", [False, True])
def test_groups_never_claim_more_than_a_node_has(
    claims: list[tuple[str, int]], nodes: int, count: int, lost: bool
):
    cluster = Cluster(nodes)
    places: Any = RayPlaces(cluster)  # pyright: ignore[reportArgumentType]
    started = [places.start(index, count, lambda host: None) for index in range(1, count)]
    if lost:
        started[0]._losses[started[0]._node.id] += 1
        claims.clear()
        for index in range(1, count):
            places.start(index, count, lambda host: None)
    taken: dict[str, int] = {}
    for node, cores in claims:
        taken[node] = taken.get(node, 0) + cores
    assert len(claims) == count - 1
    assert max(taken.values()) <= 8
    if nodes >= count and not lost:
        assert set(taken.values()) == {8}
        assert "n0" not in taken  # the head's
