"""Replicas on the nodes of a pool, whose hosts are threads of this process."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import doubles
import numpy as np
import pytest
from runtime.cluster.thread_nodes import ThreadNodes

from drumline.errors import WorkersLost
from drumline.protocols import PublishedLayout
from drumline.runtime.cluster import host_roster, node_pool
from drumline.runtime.cluster.node_messages import Advance, Node, Publish, Seed, Write
from drumline.runtime.cluster.node_pool import NodePool
from drumline.runtime.cluster.replica_commands import INLINE_BYTES
from drumline.runtime.cluster.replicas import Record, UpdateLog
from drumline.runtime.cluster.traffic import Traffic
from drumline.runtime.shared_arrays import SharedArrays
from drumline.types import NodeTraffic, State

VERSIONS = 6


class Sums:
    """A replica of four weights, to which every update adds its record's number."""

    def __init__(self, shared: Mapping[str, np.ndarray], threads: int):
        for array in shared.values():
            array[:] = 7.0
        self.threads = threads
        self.weights = np.full(4, np.nan)

    def load(self, state: State) -> None:
        self.weights = state.tensor("weights")

    def apply(self, record: bytes) -> None:
        self.weights = self.weights * 1.5 + struct.unpack("<d", record[:8])[0]

    def published(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights.copy()}


class Drifting(Sums):
    """A replica whose every update has one wrong bit."""

    def apply(self, record: bytes) -> None:
        super().apply(record)
        self.weights.view(np.uint64)[2] ^= 1


def record(number: int, size: int = 8) -> Record:
    return Record(struct.pack("<d", number).ljust(size, b"\0"), 3)


def tasks(version: int) -> list[doubles.Digest]:
    return [doubles.Digest(number, version, 0.002) for number in range(16)]


@dataclass
class Driver:
    """A driver that publishes a version, waits for its tasks and makes the next one."""

    log: UpdateLog
    sums: Sums
    size: int = 8
    results: dict[int, bytes] = field(default_factory=dict)

    def run(self, pool: NodePool, versions: int) -> None:
        """Work on the next `versions` versions, and make the one after them."""
        for version in range(self.log.version, self.log.version + versions):
            pool.publish(version, self.sums.published())
            pool.submit(tasks(version))
            self.results[version] = doubles.fold(doubles.collect(pool, 16))
            self.log.append(record(version, self.size))
            self.sums.apply(record(version).data)


def driver(factory: Any = Sums, **options: Any) -> Driver:
    state = State({"weights": np.arange(4.0)})
    sums = Sums({}, 1)
    sums.load(state)
    return Driver(UpdateLog(factory, 0, state), sums, **options)


@pytest.fixture(scope="module")
def expected() -> dict[int, bytes]:
    """Results of a pool that is sent the parameters."""
    made = driver()
    nodes = ThreadNodes(1)
    layout = PublishedLayout.of(made.sums.published())
    pool = NodePool(doubles.digest_worker, nodes=nodes, size=0, published=layout)
    made.run(pool, VERSIONS)
    pool.close()
    return made.results


@pytest.fixture
def pool_of() -> Iterator[Any]:
    pools: list[NodePool] = []

    def make(made: Driver, nodes: ThreadNodes, **options: Any) -> NodePool:
        layout = PublishedLayout.of(made.sums.published())
        chosen = {"size": 0, "log": lambda line: None, **options}
        pools.append(
            NodePool(
                doubles.digest_worker, nodes=nodes, published=layout, updates=made.log, **chosen
            )
        )
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def told(nodes: ThreadNodes, kind: Any) -> list[Any]:
    return [command for link in nodes.links for command in link.told if isinstance(command, kind)]


def replica_on(nodes: ThreadNodes, number: int) -> Sums:
    replica = nodes.links[number].host._commands.replica
    assert isinstance(replica, Sums)
    return replica


def test_every_node_makes_every_version_itself(pool_of, expected):
    made, nodes = driver(), ThreadNodes(1, 2)
    made.run(pool_of(made, nodes), VERSIONS)
    assert made.results == expected
    assert not told(nodes, Publish)
    assert len(told(nodes, Seed)) == 2
    assert nodes.puts == 1, "the base is stored once for both nodes, and records travel inline"
    assert [replica_on(nodes, k).threads for k in (0, 1)] == [1, 2]


@pytest.mark.parametrize("size", [INLINE_BYTES, INLINE_BYTES + 1])
def test_long_records_are_stored_once_for_all_nodes(pool_of, expected, size: int):
    made, nodes = driver(size=size), ThreadNodes(1, 1)
    made.run(pool_of(made, nodes), VERSIONS)
    assert made.results == expected
    assert (nodes.puts > VERSIONS) == (size > INLINE_BYTES)
    assert nodes.puts <= 1 + VERSIONS


def test_a_replica_that_drifts_is_replaced_before_a_result_of_its_counts(pool_of, expected):
    made, nodes, lines = driver(), ThreadNodes(1, 1), []
    pool = pool_of(made, nodes, log=lines.append)
    made.run(pool, 3)
    doubles.wait_until(lambda: np.array_equal(replica_on(nodes, 1).weights, made.sums.weights))
    replica_on(nodes, 1).weights.view(np.uint64)[0] ^= 1 << 40  # not rounded away
    made.run(pool, 3)
    assert made.results == expected
    assert len(nodes.links) == 3
    assert [type(command) for command in nodes.links[2].told[:2]] == [Seed, Advance]
    assert len(lines) == 1
    assert "node 10.0.0.1: its parameters of version 4 are not the driver's" in lines[0]


def test_a_node_that_drifts_again_and_again_is_left_out(pool_of, monkeypatch):
    monkeypatch.setattr(host_roster, "WATCH_SECONDS", 0.01)
    made, nodes = driver(Drifting), ThreadNodes(1)
    with pytest.raises(WorkersLost, match="drifted 3 times, the last time at version") as raised:
        made.run(pool_of(made, nodes), VERSIONS)
    assert "node 10.0.0.0" in str(raised.value)
    assert list(made.results) == [0]


def test_a_node_that_joins_starts_from_the_base_and_the_records(pool_of, expected, monkeypatch):
    monkeypatch.setattr(host_roster, "WATCH_SECONDS", 0.01)
    made, nodes = driver(), ThreadNodes(1)
    pool = pool_of(made, nodes)
    made.run(pool, 2)
    nodes.nodes.append(Node("late", "10.0.0.9", 1))
    made.run(pool, VERSIONS - 2)
    assert made.results == expected
    assert made.log.route(None).base_version == 0
    first = next(command for command in nodes.links[1].told if isinstance(command, Advance))
    assert first.version >= 2


def test_a_lost_node_changes_no_result(pool_of, expected):
    made, nodes = driver(), ThreadNodes(1, 1)
    pool = pool_of(made, nodes)
    made.run(pool, 2)
    nodes.lose(nodes.nodes[1])
    made.run(pool, VERSIONS - 2)
    assert made.results == expected


@pytest.mark.faults
def test_a_silent_node_gets_the_updates_that_it_missed_when_it_is_back(
    pool_of, expected, monkeypatch
):
    monkeypatch.setattr(node_pool, "_SILENT_SECONDS", 0.3)
    made, nodes = driver(), ThreadNodes(1, 1)
    pool = pool_of(made, nodes)
    made.run(pool, 1)
    nodes.links[1].muted.set()
    made.run(pool, 3)
    nodes.links[1].muted.clear()
    doubles.wait_until(lambda: not (pool.completed(0.01) or pool._hosts[1].silent))
    made.run(pool, VERSIONS - 4)
    assert made.results == expected
    versions = [c.version for c in nodes.links[1].told if isinstance(c, Advance)]
    assert versions[-1] == VERSIONS
    assert len(versions) < VERSIONS, "several updates came in one command"
    assert len([c for c in nodes.links[1].told if isinstance(c, Seed)]) == 1


def test_a_log_begun_again_makes_no_difference(pool_of, expected):
    made, nodes = driver(), ThreadNodes(1, 1)
    pool = pool_of(made, nodes)
    for _ in range(VERSIONS):
        made.run(pool, 1)
        made.log.renew(made.log.version, State({"weights": made.sums.weights.copy()}))
    assert made.results == expected
    assert len(told(nodes, Seed)) == 2, "replicas that are up to date need no base"


def test_shared_arrays_are_filled_by_the_replica_and_not_sent(pool_of, expected):
    made, nodes = driver(), ThreadNodes(1, 1)
    shared = SharedArrays.create(PublishedLayout({"table": ((5,), "<f8")}))
    made.run(pool_of(made, nodes, shared=shared), VERSIONS)
    assert made.results == expected
    assert not told(nodes, Write)
    for link in nodes.links:
        assert link.host._commands.shared is not None
        assert link.host._commands.shared.arrays["table"].tolist() == [7.0] * 5


def test_another_version_than_the_replicas_is_refused(pool_of):
    made = driver()
    pool = pool_of(made, ThreadNodes(1))
    with pytest.raises(ValueError, match="published version 3, but the replicas are of 0"):
        pool.publish(3, made.sums.published())


def test_bytes_are_counted_by_node_update_and_kind(pool_of):
    made, nodes, traffic = driver(), ThreadNodes(1, 1), Traffic()
    pool = pool_of(made, nodes, traffic=traffic)
    made.run(pool, 1)
    doubles.wait_until(lambda: not pool.completed(0.0) and all(h.speaks for h in pool._hosts))
    made.run(pool, 3)
    rows = traffic.take(4)
    assert traffic.take(4) == []
    later = [row for row in rows if row.update > 2]
    assert {row.node for row in later} == {"10.0.0.0", "10.0.0.1"}
    for row in later:
        assert (row.results, row.moments, row.parameters, row.shared) == (5, 3, 0, 0)
    assert sum(row.parameters for row in rows) == 2 * 32, "the base, once for each node"
    for update in (1, 2, 3, 4):
        sums = NodeTraffic(update, "", *np.sum([r[2:] for r in rows if r.update == update], axis=0))
        assert sums.tasks > 16 * 20
        assert sums.answers > 16 * 32


def test_bytes_of_parameters_that_are_sent_are_counted():
    made, nodes, traffic = driver(), ThreadNodes(1), Traffic()
    layout = PublishedLayout.of(made.sums.published())
    pool = NodePool(doubles.digest_worker, nodes=nodes, size=0, published=layout, traffic=traffic)
    made.run(pool, 3)
    pool.close()
    assert [(row.update, row.parameters, row.results) for row in traffic.take(3)] == [
        (update, 32, 0) for update in (1, 2, 3)
    ]
