"""The pool of nodes without a cluster: hosts in threads of this process."""

from collections.abc import Iterator
from typing import Any

import doubles
import numpy as np
import pytest
from runtime.cluster.thread_nodes import ThreadLink, ThreadNodes
from runtime.contract import NOTHING, MakePool, PoolContract, digest_of

from drumline.errors import TaskKilledWorkers, WorkersLost
from drumline.protocols import PublishedLayout
from drumline.runtime.cluster import (
    gathering,
    host_loads,
    host_roster,
    host_supply,
    node_host,
    node_pool,
    stragglers,
)
from drumline.runtime.cluster.kept_results import LEAST_BYTES
from drumline.runtime.cluster.node_messages import HostSpec, Node, Publish, Submit
from drumline.runtime.cluster.node_pool import NodePool
from drumline.runtime.shared_arrays import SharedArrays


class MutedNodes(ThreadNodes):
    """Nodes of which the first has no core free: its host does not begin."""

    def start(self, node: Node, spec: HostSpec, cores: int) -> ThreadLink:
        link = super().start(node, spec, cores)
        if node.id == "node-0":
            link.muted.set()
        return link


@pytest.fixture
def make_pool() -> Iterator[MakePool]:
    """Makes pools over two nodes of one core, or over given nodes, and closes them."""
    pools: list[NodePool] = []

    def make(factory: Any, **options: Any) -> NodePool:
        chosen = {"size": 0, "published": NOTHING, "nodes": ThreadNodes(1, 1), **options}
        pools.append(NodePool(factory, **chosen))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


class TestNodePool(PoolContract):
    @pytest.fixture(autouse=True)
    def _no_task_is_late(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On a busy machine tasks would run twice, and be counted twice."""
        monkeypatch.setattr(stragglers, "FLOOR_SECONDS", 3600.0)


TASKS = [doubles.Digest(number, seconds=0.002) for number in range(40)]


@pytest.fixture(scope="module")
def expected() -> bytes:
    return digest_of(TASKS)


def begun(pool: NodePool) -> NodePool:
    pool.publish(0, {})
    pool.submit(TASKS)
    return pool


def finish(pool: NodePool, results: list[Any]) -> bytes:
    """Collect what is missing of TASKS and fold."""
    return doubles.fold(results + doubles.collect(pool, len(TASKS) - len(results)))


def work_until_all_share(pool: NodePool, workers: int) -> None:
    def shared() -> bool:
        pool.submit(TASKS)
        doubles.collect(pool, len(TASKS))
        return {row.index for row in pool.activity() if row.tasks} == set(range(workers))

    doubles.wait_until(shared)


def test_every_node_does_its_share_and_has_workers_by_its_cores(make_pool: MakePool, expected):
    pool = begun(make_pool(doubles.digest_worker, nodes=ThreadNodes(1, 2)))
    assert doubles.fold(doubles.collect(pool, len(TASKS))) == expected
    assert pool.size == 3
    work_until_all_share(pool, 3)


def test_parameters_are_stored_once_a_version_for_all_nodes(make_pool: MakePool):
    nodes = ThreadNodes(1, 1, 1)
    weights = {"weights": np.arange(4.0)}
    pool = make_pool(doubles.digest_worker, nodes=nodes, published=PublishedLayout.of(weights))
    for version in range(3):
        pool.publish(version, weights)
        pool.submit([doubles.Digest(k, version, 0.01) for k in range(12)])
        doubles.collect(pool, 12)
    assert nodes.puts == 3
    sent = [c for link in nodes.links for c in link.told if isinstance(c, Publish)]
    assert sorted(command.version for command in sent) == sorted([0, 1, 2] * 3)


def test_a_lost_node_costs_only_what_it_had_in_hand(make_pool: MakePool, expected):
    nodes, lines = ThreadNodes(1, 1), []
    pool = begun(make_pool(doubles.digest_worker, nodes=nodes, log=lines.append))
    results = doubles.collect(pool, 10)
    nodes.lose(nodes.nodes[1])
    assert finish(pool, results) == expected
    assert pool.completed() == []
    assert len(lines) == 1
    assert "node 10.0.0.1: host lost by" in lines[0]


def test_a_node_that_joins_gets_work_at_once(make_pool: MakePool, expected, monkeypatch):
    monkeypatch.setattr(host_roster, "WATCH_SECONDS", 0.01)
    nodes = ThreadNodes(1)
    pool = begun(make_pool(doubles.digest_worker, nodes=nodes))
    results = doubles.collect(pool, 3)
    nodes.nodes.append(Node("late", "10.0.0.9", 1))
    assert finish(pool, results) == expected
    work_until_all_share(pool, 2)


def test_workers_of_a_lost_node_move_to_one_that_joins(make_pool: MakePool, expected):
    nodes = ThreadNodes(2)
    pool = begun(make_pool(doubles.digest_worker, nodes=nodes, size=2))
    results = doubles.collect(pool, 5)
    nodes.lose(nodes.nodes[0])
    nodes.nodes.append(Node("other", "10.0.0.9", 4))
    assert finish(pool, results) == expected
    assert pool.size == 2


def test_a_silent_node_holds_up_nothing_and_its_late_results_are_dropped(
    make_pool: MakePool, expected, monkeypatch
):
    monkeypatch.setattr(node_pool, "_SILENT_SECONDS", 0.3)
    nodes, lines = ThreadNodes(1, 1), []
    pool = begun(make_pool(doubles.digest_worker, nodes=nodes, log=lines.append))
    assert finish(pool, []) == expected
    work_until_all_share(pool, 2)
    nodes.links[1].muted.set()
    pool.submit(TASKS)
    assert finish(pool, []) == expected
    assert any("has said nothing for 0.3 s" in line for line in lines)
    nodes.links[1].muted.clear()
    pool.submit(TASKS)
    assert finish(pool, []) == expected


def test_a_task_of_a_silent_node_and_of_one_that_is_lost_is_issued_again(
    make_pool: MakePool, monkeypatch
):
    monkeypatch.setattr(node_pool, "_SILENT_SECONDS", 0.3)
    nodes, lines = ThreadNodes(1, 1), []
    pool = begun(make_pool(doubles.digest_worker, nodes=nodes, log=lines.append))
    finish(pool, [])
    work_until_all_share(pool, 2)
    nodes.links[1].muted.set()
    pool.submit([doubles.Digest(number, seconds=2.0) for number in range(2)])
    done: list[Any] = []

    def both_hold_one() -> bool:
        done.extend(pool.completed(0.05))
        return any("has said nothing for 0.3 s" in line for line in lines)

    doubles.wait_until(both_hold_one)
    doubles.wait_until(lambda: done.extend(pool.completed(0.05)) or len(done) == 1)
    nodes.links[0].lose(node_gone=False)  # now it has the silent node's task, too
    doubles.wait_until(lambda: done.extend(pool.completed(0.05)) or len(done) == 2)
    assert nodes.links[1].muted.is_set()


def test_a_node_to_spare_takes_the_place_of_a_silent_one_which_is_not_taken_back(
    make_pool: MakePool, expected, monkeypatch
):
    monkeypatch.setattr(node_pool, "_SILENT_SECONDS", 0.3)
    nodes, lines = ThreadNodes(1, 1, 1), []
    pool = begun(make_pool(doubles.digest_worker, nodes=nodes, size=2, log=lines.append))
    results = doubles.collect(pool, 10)
    assert [link.node.name for link in nodes.links] == ["10.0.0.0", "10.0.0.1"]
    nodes.links[1].muted.set()
    assert finish(pool, results) == expected

    def worked() -> bool:
        pool.submit(TASKS)
        assert finish(pool, []) == expected
        return any(row.index == 2 and row.tasks for row in pool.activity())

    doubles.wait_until(worked)
    assert nodes.links[2].node.name == "10.0.0.2"
    nodes.links[1].muted.clear()

    def dismissed() -> bool:
        pool.submit(TASKS)
        assert finish(pool, []) == expected
        return any("others have taken its place" in line for line in lines)

    doubles.wait_until(dismissed)
    assert pool.size == 2
    assert len(nodes.links) == 3, "no host is started beyond the workers asked for"


def test_a_host_that_waits_for_cores_is_named_and_another_node_works(
    make_pool: MakePool, expected, monkeypatch
):
    monkeypatch.setattr(node_pool, "LATE_SECONDS", 0.3)
    nodes, lines = MutedNodes(1, 1), []
    pool = begun(make_pool(doubles.digest_worker, nodes=nodes, size=1, log=lines.append))
    assert finish(pool, []) == expected
    assert [link.node.name for link in nodes.links] == ["10.0.0.0", "10.0.0.1"]
    assert lines == ["waiting for node 10.0.0.0, which may have no core free"]


def test_hosts_that_never_get_cores_end_the_wait(make_pool: MakePool, monkeypatch):
    monkeypatch.setattr(node_pool, "LATE_SECONDS", 0.1)
    monkeypatch.setattr(host_roster, "WATCH_SECONDS", 0.05)
    pool = begun(make_pool(doubles.digest_worker, nodes=MutedNodes(1), creation_seconds=0.5))
    with pytest.raises(WorkersLost, match=r"no core free for 0\.5 s: start a node"):
        doubles.collect(pool, len(TASKS))


def test_hosts_are_told_to_speak_less_often_the_more_of_them_there_are(
    make_pool: MakePool, expected, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gathering, "MESSAGES_PER_SECOND", 4)
    nodes = ThreadNodes(1, 1)
    assert finish(begun(make_pool(doubles.digest_worker, nodes=nodes)), []) == expected
    told = [command for link in nodes.links for command in link.told]
    assert {command.waits.gather for command in told if isinstance(command, Submit)} == {0.5}


def test_a_node_that_leaves_soon_gets_no_task_beyond_its_time(make_pool: MakePool, expected):
    nodes = ThreadNodes(1, 1)
    pool = make_pool(doubles.digest_worker, nodes=nodes)
    nodes.nodes[1] = nodes.nodes[1]._replace(leaves_in=0.5)
    pool._watch()
    begun(pool)
    assert doubles.fold(doubles.collect(pool, 40)) == expected
    assert {row.index for row in pool.activity() if row.tasks} == {0}


@pytest.mark.faults
def test_finished_tasks_and_neighbours_are_not_blamed_for_hosts_that_end(
    make_pool: MakePool, expected
):
    nodes = ThreadNodes(2)
    pool = make_pool(doubles.digest_worker, nodes=nodes, log=lambda line: None)
    pool.publish(0, {})
    pool.submit([task._replace(seconds=0.05) for task in TASKS])  # some are open at every loss
    results: list[Any] = []
    for _ in range(4):  # more often than the three deaths that condemn a task
        while len(pool._hosts[0].held) < 2:
            results += pool.completed(0.01)
        nodes.links[-1].lose(node_gone=False)
        results += pool.completed(0.0)
        results += pool.completed()
    assert finish(pool, results) == expected


@pytest.mark.faults
def test_a_task_that_ends_three_hosts_is_named(make_pool: MakePool):
    nodes = ThreadNodes(2)
    pool = make_pool(doubles.digest_worker, nodes=nodes, log=lambda line: None)
    pool.publish(0, {})
    slow = doubles.Digest(7, seconds=0.6)
    pool.submit([slow, *TASKS])

    def end_hosts_with_it() -> None:
        while True:
            pool.completed(0.3)
            if any(slow in host.held.values() for host in pool._hosts):
                nodes.links[-1].lose(node_gone=False)

    with pytest.raises(TaskKilledWorkers) as caught:
        end_hosts_with_it()
    assert caught.value.task == slow
    assert len(caught.value.causes) >= 3


def test_a_host_that_always_ends_fails_the_run(make_pool: MakePool):
    nodes = ThreadNodes(1)
    pool = begun(make_pool(doubles.patient_worker, nodes=nodes, log=lambda line: None))

    def end_every_host() -> None:
        while True:
            nodes.links[-1].lose(node_gone=False)
            pool.completed(0.1)

    with pytest.raises(WorkersLost, match=r"host on node 10\.0\.0\.0 ended 3 times in a row"):
        end_every_host()


def test_nodes_that_differ_are_refused_by_name_and_the_others_go_on(make_pool: MakePool):
    pool = make_pool(doubles.echo_worker, packages={"numpy": "0.1"})
    pool.submit([1])
    with pytest.raises(WorkersLost, match=r"no node can take part.*numpy .* instead of 0\.1"):
        pool.completed()


def test_a_cluster_without_nodes_is_given_up_after_a_while(make_pool: MakePool):
    pool = make_pool(doubles.echo_worker, nodes=ThreadNodes(), creation_seconds=0.1)
    pool.submit([1])

    def wait_for_nodes() -> None:
        while True:
            pool._roster.look_soon()
            pool.completed(0.1)

    with pytest.raises(WorkersLost, match=r"no node with cores for 0\.1 s"):
        wait_for_nodes()


@pytest.fixture
def first_is_refused(monkeypatch: pytest.MonkeyPatch) -> SharedArrays:
    """Shared arrays for which the first host that is made has no memory."""
    shared = SharedArrays.create(PublishedLayout({"rows": ((4,), "<i8")}))
    create, calls = SharedArrays.create, []

    def full_once(layout: PublishedLayout) -> SharedArrays:
        calls.append(layout)
        if len(calls) == 1:
            raise MemoryError("shared arrays need 1.0 GiB")
        return create(layout)

    monkeypatch.setattr(node_host.SharedArrays, "create", full_once)
    return shared


def beside_a_refused_node(
    make_pool: MakePool, nodes: ThreadNodes, shared: SharedArrays, **options: Any
) -> Any:
    """A pool of two nodes that has lost the one that was not refused."""
    worker = doubles.ReadsShared("rows")
    pool = make_pool(worker, nodes=nodes, shared=shared, log=lambda line: None, **options)
    pool.submit([0, 1, 2])
    assert len(doubles.collect(pool, 3)) == 3
    nodes.lose(nodes.nodes[1])
    pool.completed(0.0)
    return pool


def test_after_the_loss_of_all_nodes_but_a_refused_one_a_new_node_is_waited_for(
    make_pool: MakePool, first_is_refused: SharedArrays
):
    nodes = ThreadNodes(1, 1)
    pool = beside_a_refused_node(make_pool, nodes, first_is_refused)
    pool.submit([0, 1, 2])
    assert pool.completed(0.0) == []
    nodes.nodes.append(Node("other", "10.0.0.9", 1))
    pool._roster.look_soon()
    assert len(doubles.collect(pool, 3)) == 3
    pool.close()
    first_is_refused.close()


def test_a_node_that_was_refused_is_named_where_no_other_came(
    make_pool: MakePool, first_is_refused: SharedArrays
):
    options = {"creation_seconds": 0.1}
    pool = beside_a_refused_node(make_pool, ThreadNodes(1, 1), first_is_refused, **options)
    pool.submit([0])

    def wait_for_nodes() -> None:
        while True:
            pool._roster.look_soon()
            pool.completed(0.1)

    refusal = r"nodes that cannot take part: node 10\.0\.0\.0: shared arrays need 1\.0 GiB"
    with pytest.raises(
        WorkersLost, match=rf"no node with cores for 0\.1 s: start one.*; {refusal}"
    ):
        wait_for_nodes()
    pool.close()
    first_is_refused.close()


def test_large_shared_arrays_arrive_in_pieces(make_pool: MakePool, monkeypatch):
    monkeypatch.setattr(host_supply, "_CHUNK_BYTES", 1 << 10)
    shared = SharedArrays.create(PublishedLayout({"rows": ((5000,), "<i8")}))
    shared.arrays["rows"][:] = np.arange(5000)
    pool = make_pool(doubles.ReadsShared("rows"), shared=shared)
    tasks = list(range(0, 5000, 7))
    pool.submit(tasks)
    assert all(done.result == done.task for done in doubles.collect(pool, len(tasks)))
    pool.close()
    shared.close()


def test_a_host_keeps_few_results_though_its_shared_arrays_are_written_once(make_pool: MakePool):
    shared = SharedArrays.create(PublishedLayout({"rows": ((4,), "<i8")}))
    nodes = ThreadNodes(1)
    pool = make_pool(doubles.large_worker, nodes=nodes, shared=shared)
    for _ in range(6):
        pool.submit([LEAST_BYTES] * 100)
        doubles.collect(pool, 100)
    kept = nodes.links[0].host._news.kept
    assert 0 < len(kept) <= 32 + 2 * 100, "those of the latest answers, and of the one before"
    pool.close()
    shared.close()


def test_another_node_takes_the_place_of_one_that_is_refused(
    make_pool: MakePool, first_is_refused: SharedArrays
):
    shared = first_is_refused
    nodes, lines = ThreadNodes(1, 1), []
    worker = doubles.ReadsShared("rows")
    pool = make_pool(worker, nodes=nodes, size=1, shared=shared, log=lines.append)
    pool.submit([0, 1, 2])
    assert len(doubles.collect(pool, 3)) == 3
    assert [link.node.name for link in nodes.links] == ["10.0.0.0", "10.0.0.1"]
    (line,) = lines
    assert line.startswith("node 10.0.0.0: shared arrays need 1.0 GiB")
    assert line.endswith("the run goes on without it")
    pool.close()
    shared.close()


@pytest.mark.parametrize(
    ("cores", "workers", "sizes"),
    [({"a": 4, "b": 2}, 3, [2, 1]), ({"a": 1, "b": 3}, 4, [1, 3]), ({"a": 1}, 3, [3]), ({}, 2, [])],
)
def test_workers_are_spread_by_cores(cores: dict[str, int], workers: int, sizes: list[int]):
    assert list(host_loads.even_sizes(cores, workers).values()) == sizes


def test_a_node_that_is_lost_after_its_host_blames_no_task(make_pool: MakePool, expected: bytes):
    """A cluster notices the end of a process long before it notices that its node is gone."""
    nodes = ThreadNodes(1)
    pool = make_pool(doubles.digest_worker, nodes=nodes, log=lambda line: None)
    pool.publish(0, {})
    pool.submit(TASKS)
    results: list[Any] = []
    for number in range(4):  # more often than the three deaths that condemn a task
        while not any(host.held for host in pool._hosts):
            results += pool.completed(0.01)
        nodes.links[-1].lose(node_gone=False)
        nodes.nodes[:] = [Node(f"next-{number}", "10.0.1.0", 1)]
        results += pool.completed(0.0)
    assert not pool._tasks.deaths.any_suspects
    assert finish(pool, results) == expected
