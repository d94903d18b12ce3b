"""Sentences that a user of `--pool ray` reads when something is wrong."""

import pickle
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import doubles
import numpy as np
import pytest
from campaigns import FAULTS
from ray_folders import ray_folder
from runtime.cluster.thread_nodes import ThreadNodes
from runtime.contract import NOTHING

from drumline.errors import WorkersLost
from drumline.protocols import PublishedLayout
from drumline.runtime.cluster import node_host
from drumline.runtime.cluster.node_checks import answer_of, processor
from drumline.runtime.cluster.node_messages import Proof
from drumline.runtime.cluster.node_pool import NodePool
from drumline.runtime.portable import by_reference
from drumline.runtime.shared_arrays import SharedArrays
from drumline.training.layout import SearchLayout

_WITHOUT_RAY = """
import sys
sys.modules["ray"] = None
from drumline.cli import main
sys.argv = ["drumline", "train", "es", "CartPole-v1", "--pool", "ray", "--out", sys.argv[1]]
sys.exit(main())
"""


def pool_over(nodes: Any, factory: Any, **options: Any) -> NodePool:
    return NodePool(factory, **{"nodes": nodes, "size": 0, "published": NOTHING, **options})


def test_a_missing_ray_is_named_with_its_extra_and_nothing_is_left(tmp_path: Path):
    out = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_RAY, str(out)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "pip install 'drumline[ray]'" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("address", ["somewhere", "ray://10.0.0.1:10001", "10.0.0.1:port"])
def test_an_address_that_is_none_is_refused(address: str):
    ray_cluster = pytest.importorskip("drumline.runtime.cluster.ray_cluster")
    with pytest.raises(ValueError, match="is not host:port"):
        ray_cluster._refuse_unreachable(address)


def test_an_address_where_nothing_listens_is_refused_at_once():
    ray_cluster = pytest.importorskip("drumline.runtime.cluster.ray_cluster")
    with pytest.raises(ValueError, match=r"no Ray cluster answers at --ray-address 127\.0\.0\.1:1"):
        ray_cluster._refuse_unreachable("127.0.0.1:1")


def test_an_address_without_the_pool_is_refused():
    with pytest.raises(ValueError, match=r"--ray-address 10\.0\.0\.1:6379 goes with --pool ray"):
        SearchLayout(ray_address="10.0.0.1:6379")


def test_a_node_without_memory_for_the_shared_arrays_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
):
    lines: list[str] = []
    shared = SharedArrays.create(PublishedLayout({"rows": ((4,), "<i8")}))
    create, calls = SharedArrays.create, []

    def full(layout: PublishedLayout) -> SharedArrays:
        calls.append(layout)
        if len(calls) == 1:
            raise MemoryError("shared arrays need 1.0 GiB, but only 0.5 GiB is available")
        return create(layout)

    monkeypatch.setattr(node_host.SharedArrays, "create", full)
    pool = pool_over(
        ThreadNodes(1, 1), doubles.ReadsShared("rows"), shared=shared, log=lines.append
    )
    pool.submit([0, 1, 2])
    assert len(doubles.collect(pool, 3)) == 3
    pool.close()
    shared.close()
    (line,) = [line for line in lines if "goes on without it" in line]
    assert "only 0.5 GiB is available" in line
    assert "--noise counter" in line


def test_a_node_without_a_package_is_left_out_by_name():
    pool = pool_over(ThreadNodes(1), doubles.echo_worker, packages={"mujoco-of-mars": "3.0"})
    pool.submit([1])
    with pytest.raises(WorkersLost, match=r"mujoco-of-mars not installed instead of 3\.0"):
        pool.completed()
    pool.close()


def test_an_environment_that_one_node_lacks_is_named(monkeypatch: pytest.MonkeyPatch):
    lines: list[str] = []
    loads, calls = node_host.pickle.loads, []

    def missing(data: bytes) -> Any:
        calls.append(data)
        if len(calls) == 1:
            raise ModuleNotFoundError("No module named 'my_walker'")
        return loads(data)

    monkeypatch.setattr(node_host, "_loads", missing)
    pool = pool_over(ThreadNodes(1, 1), doubles.echo_worker, log=lines.append)
    pool.submit([1, 2])
    assert sorted(done.result for done in doubles.collect(pool, 2)) == [1, 2]
    pool.close()
    assert "No module named 'my_walker': install it there" in lines[0]


def test_a_node_with_other_bits_is_refused_with_both_processors():
    factory = by_reference(doubles.echo_worker, "a factory")
    proof = Proof(factory, answer_of(factory, 60.0, 60.0), "Old Processor")
    pool = pool_over(ThreadNodes(1), doubles.echo_worker, proof=proof)
    pool.submit([5])
    assert doubles.collect(pool, 1)[0].result == 5
    pool.close()
    pool = pool_over(ThreadNodes(1), doubles.echo_worker, proof=proof._replace(answer=b"another"))
    pool.submit([5])
    refusal = r"other bits \(.+\) than the driver's machine \(Old Processor\).*--no-promise"
    with pytest.raises(WorkersLost, match=refusal):
        pool.completed()
    pool.close()
    same = proof._replace(answer=b"another", processor=processor())
    pool = pool_over(ThreadNodes(1), doubles.echo_worker, proof=same)
    pool.submit([5])
    with pytest.raises(WorkersLost, match="environment may have hidden state"):
        pool.completed()
    pool.close()


@FAULTS
def test_parameters_may_be_larger_than_the_object_store():
    """Ray spills to disk: slower, and the same arrays."""
    ray_pool = pytest.importorskip("drumline.runtime.cluster.ray_pool")
    from ray.cluster_utils import Cluster

    with ray_folder() as folder:
        cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 1,
                "object_store_memory": 80 << 20,
                "include_dashboard": False,
                "temp_dir": folder,
            },
        )
        nodes = ray_pool.RayNodes(cluster.address)
        weights = {"weights": np.arange(12_000_000.0)}
        layout = PublishedLayout.of(weights)
        pool = NodePool(doubles.digest_worker, nodes=nodes, size=1, published=layout)
        for version in range(2):
            pool.publish(version, weights)
            pool.submit([doubles.Digest(0, version)])
            assert len(doubles.collect(pool, 1)) == 1
        pool.close()
        nodes.close()
        cluster.shutdown()


_MISMATCH = """Version mismatch: The cluster was started with:
    Ray: 2.50.0
    Python: 3.12.3
This process on node 10.0.0.1 was started with:
    Ray: 2.60.0
    Python: 3.11.7
"""


def refusal(error: Exception) -> str:
    ray_cluster = pytest.importorskip("drumline.runtime.cluster.ray_cluster")
    return ray_cluster._not_joined("10.0.0.1:6379", error)


def test_other_versions_of_ray_or_python_are_named_on_both_sides():
    said = refusal(RuntimeError(_MISMATCH))
    assert "\n" not in said
    for version in ("Ray: 2.50.0", "Python: 3.12.3", "Ray: 2.60.0", "Python: 3.11.7"):
        assert version in said


@pytest.mark.parametrize(("mode", "given"), [("token", "a token is given"), ("", "no token is")])
def test_a_cluster_that_does_not_let_in_asks_for_a_token(
    monkeypatch: pytest.MonkeyPatch, mode: str, given: str
):
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    said = refusal(ConnectionError("Failed to connect to Ray cluster at 10.0.0.1:6379"))
    assert "RAY_AUTH_MODE=token" in said
    assert given in said


def test_a_token_that_cannot_be_read_is_named():
    exceptions = pytest.importorskip("ray.exceptions")
    said = refusal(exceptions.AuthenticationError("RAY_AUTH_TOKEN_PATH is set but /none is empty"))
    assert "RAY_AUTH_TOKEN_PATH is set but /none is empty" in said


def test_a_node_with_another_drumline_says_so_before_it_reads_a_record():
    ray_link = pytest.importorskip("drumline.runtime.cluster.ray_link")
    host = ray_link.RayHost("0.0.1", b"no record of this version")
    host.tell(0, b"no record of this version")
    news = ray_link._read(host.hear(pickle.dumps((-1, 0, ()))), 0)
    assert f"drumline {metadata.version('drumline')} instead of 0.0.1" in news.refused


_OF_ANOTHER_COMMIT = b"cdrumline.runtime.cluster.node_host\nof_another_commit\n."
"""Pickle of a class that is not there."""


def test_records_that_the_other_side_does_not_have_are_refused_in_words():
    ray_link = pytest.importorskip("drumline.runtime.cluster.ray_link")
    host = ray_link.RayHost(metadata.version("drumline"), _OF_ANOTHER_COMMIT)
    for said in (host.hear(pickle.dumps((-1, 0, ()))), _OF_ANOTHER_COMMIT):
        news = ray_link._read(said, 3)
        assert news.number == 3
        assert "of_another_commit" in news.refused
        assert "install the driver's Drumline there" in news.refused


@pytest.mark.parametrize(
    ("said", "monitor"),
    [
        ("1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed", True),
        ("1 worker(s) were killed due to the node running low on memory.", True),
        (
            "Worker exits unexpectedly. (1) the process was killed by the OOM killer …, or (2)",
            False,
        ),
    ],
)
def test_rays_memory_monitor_is_named_where_it_was(said: str, monitor: bool):
    ray_cluster = pytest.importorskip("drumline.runtime.cluster.ray_cluster")
    assert ("Ray's memory monitor" in ray_cluster.cause_of(RuntimeError(said))) == monitor


_WITH_A_SHORT_PATIENCE = """
import sys
from drumline.runtime.cluster import ray_cluster
ray_cluster._HEAD_SECONDS = 3.0
from drumline.cli import main
sys.argv = ["drumline", *sys.argv[1:]]
sys.exit(main())
"""


@FAULTS
def test_a_run_whose_head_is_lost_says_so_and_leaves_a_checkpoint(tmp_path: Path):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from ray.cluster_utils import Cluster

    with ray_folder() as folder:
        head = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args={**head, "temp_dir": folder})
        words = ["train", "es", "CartPole-v1", "--total-steps", "100000000", "--workers", "1"]
        words += ["--hidden", "8", "--noise-table-size", "4096", "--no-tensorboard"]
        words += ["--pool", "ray", "--ray-address", cluster.address, "--out", str(tmp_path / "run")]
        run = subprocess.Popen(
            [sys.executable, "-c", _WITH_A_SHORT_PATIENCE, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        rows = tmp_path / "run" / "metrics.csv"
        doubles.wait_until(lambda: rows.exists() and rows.read_text().count("\n") >= 2)
        address = cluster.address
        cluster.head_node.kill_gcs_server(check_alive=False)
        _, said = run.communicate(timeout=60)
        cluster.shutdown()
    assert run.returncode == 3
    assert f"the head of the Ray cluster at {address} has not answered for 3 s" in said
    assert "drumline resume" in said
    assert "Traceback" not in said
    assert any((tmp_path / "run" / "checkpoints").iterdir())
