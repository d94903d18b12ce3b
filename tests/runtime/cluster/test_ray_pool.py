"""The pool of nodes over Ray: the contract, and losses of actors and of nodes."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import doubles
import pytest
from campaigns import FAULTS
from ray_folders import ray_folder
from runtime.contract import NOTHING, POINTS, MakePool, PoolContract, digest_of

pytest.importorskip("ray", reason="the extra `ray` is not installed")

import ray
from ray.cluster_utils import Cluster

from drumline.runtime.cluster.node_pool import NodePool
from drumline.runtime.cluster.ray_pool import RayNodes

pytestmark = pytest.mark.filterwarnings(
    # Ray's subprocesses and sockets are closed by its own exit handlers, after the warning.
    "ignore:.*:ResourceWarning",
    # pytest turns that warning into this one where it is raised in a destructor.
    "ignore:.*:pytest.PytestUnraisableExceptionWarning",
)
STORE = 100 << 20
SYSTEM = {"health_check_period_ms": 300, "health_check_failure_threshold": 3}
"""A lost node is noticed after a second; Ray's default is tens of seconds."""
TASKS = [doubles.Digest(number, seconds=0.002) for number in range(60)]


SLOW = [task._replace(seconds=0.05) for task in TASKS]
"""The same results, but enough work for a node to be lost with some of it."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    arguments = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    with ray_folder() as folder:
        arguments |= {"temp_dir": folder, "_system_config": SYSTEM}
        made = Cluster(initialize_head=True, head_node_args=arguments)
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def nodes(cluster: Cluster) -> Iterator[RayNodes]:
    joined = RayNodes(cluster.address)
    yield joined
    joined.close()


@pytest.fixture
def make_pool(nodes: RayNodes) -> Iterator[MakePool]:
    """Makes pools over the module's cluster and closes them."""
    pools: list[NodePool] = []

    def make(factory: Any, **options: Any) -> NodePool:
        chosen = {"size": 2, "published": NOTHING, "nodes": nodes, "claims_cores": False, **options}
        pools.append(NodePool(factory, **chosen))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@FAULTS
class TestRayPool(PoolContract):
    pass


@pytest.fixture(scope="module")
def expected() -> bytes:
    return digest_of(TASKS)


def begun(pool: NodePool, tasks: Any = TASKS) -> NodePool:
    pool.publish(0, {})
    pool.submit(tasks)
    return pool


def finish(pool: NodePool, results: list[Any]) -> bytes:
    """Collect what is missing of TASKS and fold."""
    folded = doubles.fold(results + doubles.collect(pool, len(TASKS) - len(results)))
    assert pool.completed() == []
    return folded


HOST_POINTS = ["host-started", "host-told", "host-submitted", "host-finished", "host-heard"]
TRIED_OFTEN = ("host-heard", "lease-received", "half-result")


@FAULTS
@pytest.mark.parametrize(
    "point",
    [
        p if p in TRIED_OFTEN else pytest.param(p, marks=pytest.mark.slow)
        for p in [*HOST_POINTS, *POINTS]
    ],
)
def test_a_kill_at_any_step_changes_no_byte(
    make_pool: MakePool, expected: bytes, point: str, tmp_path: Path
):
    lines: list[str] = []
    fault = doubles.KillAt(point, tmp_path / "flag")
    pool = begun(make_pool(doubles.digest_worker, probe_factory=fault, log=lines.append))
    assert finish(pool, []) == expected
    doubles.wait_until(lambda: not pool.completed(0.0) and bool(lines))
    assert len(lines) == 1, lines
    assert ("host lost by" if point.startswith("host") else "ended by SIGKILL") in lines[0]


@FAULTS
def test_a_killed_actor_is_replaced_on_its_node(make_pool: MakePool, expected: bytes):
    lines: list[str] = []
    pool = begun(make_pool(doubles.digest_worker, log=lines.append))
    results = doubles.collect(pool, 10)
    parent = Path(f"/proc/{doubles.living(pool)[0]}/stat").read_text().rpartition(")")[2].split()
    os.kill(int(parent[1]), signal.SIGKILL)
    assert finish(pool, results) == expected
    assert len(lines) == 1


@FAULTS
@pytest.mark.parametrize("graceful", [False, True])
def test_a_lost_node_costs_only_what_it_had_in_hand(
    make_pool: MakePool, nodes: RayNodes, cluster: Cluster, expected: bytes, graceful: bool
):
    lines: list[str] = []
    doubles.wait_until(lambda: len(nodes.present()) == 1)  # the node of another test may go yet
    node = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    pool = make_pool(doubles.digest_worker, size=0, log=lines.append)
    assert pool.size == 2
    doubles.wait_until(lambda: not pool.completed(0.1) and all(h.speaks for h in pool._hosts))
    results = doubles.collect(begun(pool, SLOW), 10)
    assert pool._hosts[1].held
    cluster.remove_node(node, allow_graceful=graceful)
    assert finish(pool, results) == expected
    doubles.wait_until(lambda: not pool.completed(0.1) and len(pool._hosts) == 1)
    (lost,) = [line for line in lines if "host lost by" in line]
    told = lost if "0 tasks" not in lost else lines[0]
    again = int(told.split(" tasks issued")[0].split()[-1])
    # One that ran, and half of its share of the queue, longest when the first answer comes.
    assert again <= 1 + len(SLOW) // 4


@FAULTS
def test_a_node_that_joins_takes_part(
    make_pool: MakePool, nodes: RayNodes, cluster: Cluster, expected: bytes
):
    doubles.wait_until(lambda: len(nodes.present()) == 1)
    pool = begun(make_pool(doubles.digest_worker, size=0))
    results = doubles.collect(pool, 10)
    node = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    assert finish(pool, results) == expected

    def shared() -> bool:
        pool.submit(TASKS)
        doubles.collect(pool, len(TASKS))
        return len({row.index for row in pool.activity() if row.tasks}) == 2

    doubles.wait_until(shared)
    cluster.remove_node(node)


def test_closing_leaves_no_process(make_pool: MakePool):
    pool = begun(make_pool(doubles.digest_worker))
    doubles.collect(pool, 20)
    pids = doubles.living(pool)
    pool.close()
    assert pids
    doubles.wait_until(lambda: not any(doubles.is_running(pid) for pid in pids))


def test_the_runs_own_signal_handlers_stay(nodes: RayNodes):
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert ray.is_initialized()
