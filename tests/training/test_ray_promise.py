"""The promise over Ray: every method of a pool has the bytes of one process."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import doubles
import pytest
from campaigns import FAULTS
from ray_folders import ray_folder
from whole_runs import SMALL_CEM_RL, SMALL_ERL, SMALL_P_CEM_RL, folder_for, lasting_bytes

pytest.importorskip("ray", reason="the extra `ray` is not installed")

from ray.cluster_utils import Cluster

from drumline.api.foreign_code import TRUSTED
from drumline.api.opened_runs import silent
from drumline.api.run import resume, train
from drumline.recipes.aes import AES
from drumline.recipes.ars import ARS
from drumline.recipes.cem import CEM
from drumline.recipes.es import ES
from drumline.recipes.methods import method_of
from drumline.recipes.td3 import TD3
from drumline.runs.folder import RunFolder
from drumline.runtime.cluster.ray_pool import RayNodes
from drumline.training.layout import Layout
from drumline.training.run_request import RunRequest

pytestmark = [
    pytest.mark.usefixtures("unchecked_shapes"),
    # Ray's subprocesses and sockets are closed by its own exit handlers, after the warning.
    pytest.mark.filterwarnings("ignore:.*:ResourceWarning"),
    # pytest turns that warning into this one where it is raised in a destructor.
    pytest.mark.filterwarnings("ignore:.*:pytest.PytestUnraisableExceptionWarning"),
]
_SEARCHED: dict[str, Any] = {
    "env": "InvertedPendulum-v5",
    "hidden": (8,),
    "evaluate_every": 3,
    "evaluate_episodes": 2,
}
CONFIGS = {
    "es": ES(
        **_SEARCHED,
        total_steps=900,
        population_size=8,
        std=0.1,
        obs_stat_probability=0.5,
        noise_table_size=1 << 16,
    ),
    "ars": ARS(
        env="InvertedPendulum-v5",
        total_steps=600,
        noise_table_size=1 << 16,
        evaluate_every=3,
        evaluate_episodes=2,
    ),
    "cem": CEM(**_SEARCHED, total_steps=300),
    "aes": AES(
        **_SEARCHED,
        total_steps=250,
        concurrency=3,
        fitness_range=5.0,
        warmup_steps=40,
        replay_size=120,
        batch_size=16,
        critic_batches=30,
        mean_evaluations=2,
        recent_episodes=3,
    ),
    "cem-rl": SMALL_CEM_RL,
    "p-cem-rl": SMALL_P_CEM_RL,
    "erl": SMALL_ERL,
}
SYSTEM = {"health_check_period_ms": 300, "health_check_failure_threshold": 3}
"""A lost node is noticed after a second; Ray's default is tens of seconds."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    arguments = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
    with ray_folder() as folder:
        arguments |= {"temp_dir": folder, "_system_config": SYSTEM}
        made = Cluster(initialize_head=True, head_node_args=arguments)
        made.add_node(num_cpus=1, object_store_memory=100 << 20)
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def nodes(cluster: Cluster) -> Iterator[RayNodes]:
    joined = RayNodes(cluster.address)
    yield joined
    joined.close()


class Inline(dict[str, dict[str, bytes]]):
    """Lasting bytes of an inline run of each method, made when they are first asked for."""

    def __init__(self, out: Path):
        super().__init__()
        self.out = out

    def __missing__(self, name: str) -> dict[str, bytes]:
        config = CONFIGS[name]
        layout = method_of(config).layout(pool="inline", tensorboard=False)
        self[name] = lasting_bytes(train(config, layout=layout, out=self.out / name).folder)
        return self[name]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Inline:
    return Inline(tmp_path_factory.mktemp("expected"))


class Disturbed:
    """Nodes to which `event` happens in the first wait at which `due` holds."""

    def __init__(self, nodes: RayNodes, due: Callable[[], bool], event: Callable[[], None]):
        self.waiting = True
        self._nodes = nodes
        self._due = due
        self._event = event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nodes, name)

    def wait(self, links: Any, seconds: float) -> Any:
        if self.waiting and self._due():
            self.waiting = False
            self._event()
        return self._nodes.wait(links, seconds)


def on_ray(config: Any, **flags: Any) -> Layout:
    return method_of(config).layout(pool="ray", tensorboard=False, **flags)


def run_over(nodes: Any, out: Path, config: Any, probe: Any = None, **flags: Any) -> RunFolder:
    layout = on_ray(config, **flags)
    folder = folder_for(out, config, layout)
    request = RunRequest(folder, layout, silent(), probe_factory=probe, nodes=nodes)
    config.build(layout).opened(request).run()
    return folder


OFTEN = {"es": (), "aes": FAULTS}
"""All other methods are tried with the slow tests."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=OFTEN.get(name, pytest.mark.slow)) for name in CONFIGS]
)
def test_two_nodes_have_the_bytes_of_one_process(
    nodes: RayNodes, expected: Inline, tmp_path: Path, name: str
):
    assert lasting_bytes(run_over(nodes, tmp_path / "run", CONFIGS[name])) == expected[name]


@FAULTS
def test_evaluations_of_a_stream_run_on_the_cluster(nodes: RayNodes, tmp_path: Path):
    config = TD3(
        **_SEARCHED,
        total_steps=120,
        steps_per_update=20,
        random_steps=20,
        replay_size=60,
        batch_size=4,
    )
    layout = method_of(config).layout(pool="inline", tensorboard=False)
    inline = lasting_bytes(train(config, layout=layout, out=tmp_path / "inline").folder)
    assert lasting_bytes(run_over(nodes, tmp_path / "ray", config)) == inline


@FAULTS
@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("es", "host-told"),
        ("es", "host-finished"),
        ("aes", "host-heard"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("es", "host-started"),
                ("es", "episode-begun"),
                ("aes", "host-submitted"),
                ("aes", "critic-begun"),
                ("cem-rl", "host-finished"),
            )
        ),
    ],
)
def test_a_host_or_worker_killed_at_any_point_changes_no_byte(
    nodes: RayNodes, expected: Inline, tmp_path: Path, name: str, point: str
):
    probe = doubles.KillAt(point, tmp_path / "flag")
    folder = run_over(nodes, tmp_path / "run", CONFIGS[name], probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder) == expected[name]


@FAULTS
@pytest.mark.parametrize("name", ["es", pytest.param("ars", marks=pytest.mark.slow)])
def test_replicas_on_two_nodes_have_the_bytes_of_one_process(
    nodes: RayNodes, expected: Inline, tmp_path: Path, name: str
):
    folder = run_over(nodes, tmp_path / "run", CONFIGS[name], parameters="replicas")
    assert lasting_bytes(folder) == expected[name]
    header, *rows = (folder.path / "nodes.csv").read_text().splitlines()
    results = header.split(",").index("results_bytes")
    assert any(int(row.split(",")[results]) for row in rows)


@FAULTS
@pytest.mark.parametrize(
    "point", ["host-advanced", pytest.param("host-seeded", marks=pytest.mark.slow)]
)
def test_a_host_killed_beside_its_replica_changes_no_byte(
    nodes: RayNodes, expected: Inline, tmp_path: Path, point: str
):
    probe = doubles.KillAt(point, tmp_path / "flag")
    folder = run_over(nodes, tmp_path / "run", CONFIGS["es"], probe, parameters="replicas")
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder) == expected["es"]


@FAULTS
@pytest.mark.parametrize("name", [pytest.param("es", marks=pytest.mark.slow), "aes"])
def test_a_node_lost_and_a_node_joined_on_the_way_change_no_byte(
    cluster: Cluster, nodes: RayNodes, expected: Inline, tmp_path: Path, name: str
):
    doomed = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    doubles.wait_until(lambda: len(nodes.present()) == 3)
    metrics = tmp_path / "run" / "metrics.csv"

    def disturb() -> None:
        cluster.remove_node(doomed, allow_graceful=False)
        cluster.add_node(num_cpus=1, object_store_memory=100 << 20)

    disturbed = Disturbed(
        nodes, lambda: metrics.exists() and metrics.read_text().count("\n") >= 3, disturb
    )
    folder = run_over(disturbed, tmp_path / "run", CONFIGS[name])
    assert not disturbed.waiting
    assert lasting_bytes(folder) == expected[name]
    for node in list(cluster.worker_nodes)[1:]:
        cluster.remove_node(node)


@FAULTS
@pytest.mark.parametrize("name", ["es", pytest.param("aes", marks=pytest.mark.slow)])
def test_a_run_goes_on_from_one_pool_on_another(
    cluster: Cluster, nodes: RayNodes, expected: Inline, tmp_path: Path, name: str
):
    config = CONFIGS[name]
    first = replace(config, total_steps=config.total_steps // 2)
    folder = run_over(nodes, tmp_path / "run", first)
    layout = method_of(config).layout(workers=2, tensorboard=False)
    again = resume(folder, layout, total_steps=config.total_steps, trust=TRUSTED)
    assert lasting_bytes(again.folder) == expected[name]

    local = train(first, layout=layout, out=tmp_path / "local").folder
    over = on_ray(config, ray_address=cluster.address)
    again = resume(local, over, total_steps=config.total_steps, trust=TRUSTED)
    assert lasting_bytes(again.folder) == expected[name]
