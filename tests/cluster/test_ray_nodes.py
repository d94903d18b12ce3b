"""A cluster of four machines, each a network namespace with a Ray node of one core, and runs on it.

Needs root and iproute2; the machines and their processes are gone afterwards.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import doubles
import pytest
from campaigns import FAULTS
from ray_folders import ray_folder

pytest.importorskip("ray", reason="the extra `ray` is not installed")

NAMESPACES = str(Path(__file__).with_name("namespaces.sh"))
MACHINES = 4
HEAD = "10.77.0.1:6379"
RAY = [sys.executable, "-m", "ray.scripts.scripts"]
RUNS = {
    "long": [
        *("es", "HalfCheetah-v5", "--total-steps", "800000", "--population-size", "16"),
        *("--hidden", "8", "--noise-table-size", "4096", "--evaluate-every", "10"),
    ],
    "es": [
        *("es", "HalfCheetah-v5", "--total-steps", "48000", "--population-size", "8"),
        *("--hidden", "8", "--noise-table-size", "4096", "--evaluate-every", "3"),
    ],
    "aes": [
        *("aes", "InvertedPendulum-v5", "--total-steps", "400", "--concurrency", "4"),
        *("--warmup-steps", "40", "--replay-size", "200", "--hidden", "8", "--batch-size", "16"),
        *("--critic-batches", "30", "--fitness-range", "5", "--evaluate-every", "7"),
    ],
    "long episodes": [
        *("aes", "HalfCheetah-v5", "--total-steps", "12000", "--concurrency", "4"),
        *("--warmup-steps", "1000", "--replay-size", "4000", "--hidden", "8"),
        *("--batch-size", "16", "--critic-batches", "5"),
    ],
    **{
        method: [
            *(method, "CartPole-v1", "--engine", "gymnasium", "--total-steps", "19200"),
            *("--num-envs", "8", "--alpha", "16", "--learners", "4", "--hidden", "8"),
            *("--epochs", "2", "--minibatches", "4", "--evaluate-every", "50"),
            *("--normalize-observations", "--checkpoint-minutes", "0.02"),
        ]
        for method in ("hts", "ppo")
    },
}
GROUPED = ["hts", pytest.param("ppo", marks=pytest.mark.slow)]
NAMES = ["es", pytest.param("aes", marks=pytest.mark.slow)]
SHORT = ["--evaluate-episodes", "1", "--no-tensorboard", "--quiet"]
LASTING = ("fingerprints.csv", "episodes.csv", "evaluations.csv", "policy-last.safetensors")

pytestmark = [FAULTS, pytest.mark.timeout(600)]


def why_not() -> str:
    """Return the reason for which no machines can be made here."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need iproute2"
    tried = subprocess.run(["ip", "netns", "add", "drum-probe"], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", "drum-probe"], capture_output=True)
    return f"network namespaces: {tried.stderr.strip()}" if tried.returncode else ""


class Machines:
    """The machines, numbered from 1; the first has Ray's head and the driver.

    A driver elsewhere would hang: Ray looks for the node that it is on in the list of processes,
    which all machines share here, and takes the head's wherever it sees that.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        ray = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
        self._environ = {**os.environ, **ray, "PYTHONPATH": path}

    @contextmanager
    def up(self) -> Iterator[None]:
        """Set up every machine; test files that run at the same time take turns."""
        with open(Path(tempfile.gettempdir(), "drum-machines.lock"), "w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            self.order("down", MACHINES)
            try:
                self.order("up", MACHINES)
                for machine in range(1, MACHINES + 1):
                    self.start_ray(machine)
                yield
            finally:
                self.order("down", MACHINES)

    def mend(self, machine: int) -> None:
        """Start a machine again that was lost in any manner."""
        self.order("lose", machine)
        self.order("heal", machine)
        self.start_ray(machine)

    def order(self, what: str, number: int) -> None:
        subprocess.run([NAMESPACES, what, str(number)], check=True, capture_output=True)

    def command(self, machine: int, words: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["ip", "netns", "exec", f"drum{machine}", *words],
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def start_ray(self, machine: int, *, head: int = 1) -> None:
        where = ["--address", f"10.77.0.{head}:6379"]
        if machine == head:
            where = ["--head", "--port", "6379", "--include-dashboard=false"]
            where += ["--temp-dir", str(self.folder), f"--system-config={SYSTEM}"]
        own = ["--node-ip-address", f"10.77.0.{machine}", "--num-cpus", "1"]
        started = self.command(
            machine, [*RAY, "start", *where, *own, "--object-store-memory", "100000000"]
        )
        said, _ = started.communicate(timeout=120)
        assert started.returncode == 0, said

    def train(self, name: str, out: Path, *flags: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "drumline", "train", *RUNS[name], *SHORT]
        return self.command(1, [*words, "--out", str(out), *flags])


SYSTEM = (
    '{"health_check_period_ms": 500, "health_check_failure_threshold": 3,'
    ' "health_check_timeout_ms": 8000}'
)
"""A machine whose network is cut is given up after some 25 s, instead of 30."""


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    if reason := why_not():
        pytest.skip(reason)
    with ray_folder() as folder:
        made = Machines(Path(folder))
        with made.up():
            yield made


@pytest.fixture(scope="module")
def expected(
    machines: Machines, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, bytes]]:
    out = tmp_path_factory.mktemp("expected")
    return Inline(machines, out)


class Inline(dict[str, dict[str, bytes]]):
    """Lasting bytes of an inline run of each method, made when they are first asked for."""

    def __init__(self, machines: Machines, out: Path):
        super().__init__()
        self._machines = machines
        self._out = out

    def __missing__(self, name: str) -> dict[str, bytes]:
        done(self._machines.train(name, self._out / name, "--pool", "inline"))
        self[name] = lasting(self._out / name)
        return self[name]


def done(run: subprocess.Popen[str]) -> str:
    said, _ = run.communicate(timeout=300)
    assert run.returncode == 0, said
    return said


def wait_for_rows(run: subprocess.Popen[str], folder: Path, lines: int) -> None:
    """Wait for a run to write its metrics; one that never does must not hold the machines."""
    rows = folder / "metrics.csv"

    def written() -> bool:
        if run.poll() is not None:
            done(run)
        return rows.exists() and rows.read_text().count("\n") >= lines

    try:
        doubles.wait_until(written, 300)
    except AssertionError:
        run.kill()
        run.communicate(timeout=60)
        raise


def lasting(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in LASTING}


def processes(folder: Path) -> int:
    """Return the number of workers that ran tasks."""
    rows = (folder / "processes.csv").read_text().splitlines()[1:]
    return sum(row.startswith("worker,") and int(row.split(",")[3]) > 0 for row in rows)


def on_cluster(workers: int) -> list[str]:
    return ["--pool", "ray", "--ray-address", HEAD, "--workers", str(workers)]


SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nodes", [pytest.param(1, marks=SLOW), 2, pytest.param(4, marks=SLOW)])
def test_any_number_of_machines_gives_the_same_bytes(
    machines: Machines, expected: dict[str, dict[str, bytes]], tmp_path: Path, nodes: int, name: str
):
    done(machines.train(name, tmp_path / "run", *on_cluster(nodes)))
    assert lasting(tmp_path / "run") == expected[name]
    if name == "es":  # whose workers all have work from the first moment to the last
        assert processes(tmp_path / "run") == nodes


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_that_dies_and_one_that_joins_change_no_byte(
    machines: Machines, expected: dict[str, dict[str, bytes]], tmp_path: Path, name: str
):
    run = machines.train(name, tmp_path / "run", *on_cluster(0))
    wait_for_rows(run, tmp_path / "run", 2)
    machines.order("lose", 3)
    assert run.poll() is None, "the run was too short"
    machines.start_ray(3)
    done(run)
    assert lasting(tmp_path / "run") == expected[name]


def test_a_network_that_goes_and_comes_back_changes_no_byte(
    machines: Machines, expected: dict[str, dict[str, bytes]], tmp_path: Path
):
    run = machines.train("es", tmp_path / "run", *on_cluster(0))
    wait_for_rows(run, tmp_path / "run", 2)
    machines.order("cut", 2)
    time.sleep(1.0)
    machines.order("heal", 2)
    assert run.poll() is None, "the run was too short"
    done(run)
    assert lasting(tmp_path / "run") == expected["es"]


@pytest.mark.slow
@pytest.mark.parametrize(("cut", "heal"), [("part", "join"), ("cut", "heal")])
def test_a_network_cut_between_nodes_for_20_seconds_holds_up_nothing_and_changes_no_byte(
    machines: Machines, expected: dict[str, dict[str, bytes]], tmp_path: Path, cut: str, heal: str
):
    """`part`: nodes 2 and 3 do not reach each other; `cut`: node 2 reaches no other node."""
    wanted = expected["long"]
    run = machines.train("long", tmp_path / "run", *on_cluster(0))
    wait_for_rows(run, tmp_path / "run", 2)
    rows = tmp_path / "run" / "metrics.csv"
    machines.order(cut, 2)
    try:
        time.sleep(8.0)
        before = rows.read_text().count("\n")
        time.sleep(12.0)
        assert run.poll() is None, "the run was too short"
        assert rows.read_text().count("\n") > before, "the run waited for the network"
    finally:
        machines.order(heal, 2)
    done(run)
    assert lasting(tmp_path / "run") == wanted
    if cut == "cut":
        machines.mend(2)


LOSSY = str(Path(__file__).with_name("lossy_link.py"))


@contextmanager
def late_and_lossy(machines: Machines, machine: int) -> Iterator[subprocess.Popen[str]]:
    """Let a machine's frames take 10 ms more each way, and three in a hundred be lost."""
    for each in range(1, MACHINES + 1):  # the others' frames pass the relay, too
        done(machines.command(each, [sys.executable, LOSSY, "whole", "e0"]))
    machines.order("relayed", machine)
    words = ["relay", f"drum-v{machine}", "drum-r1", "0.01", "0.03", "0"]
    relay = subprocess.Popen([sys.executable, LOSSY, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert relay.stdout is not None
        assert relay.stdout.readline() == "ready\n"
        yield relay
    finally:
        relay.terminate()
        machines.order("direct", machine)
        relay.wait()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["es", "aes"])
def test_a_network_whose_frames_come_late_or_never_changes_no_byte(
    machines: Machines, expected: dict[str, dict[str, bytes]], tmp_path: Path, name: str
):
    wanted = expected[name]
    with late_and_lossy(machines, 2) as relay:
        done(machines.train(name, tmp_path / "run", *on_cluster(0)))
        relay.terminate()
        said, _ = relay.communicate()
    carried, lost, large = map(int, said.split())
    assert carried > 200
    assert lost > 5
    assert large < lost, "the link does not take what is sent"
    assert lasting(tmp_path / "run") == wanted
    if name == "es":
        assert processes(tmp_path / "run") == MACHINES, "the machine behind the link did nothing"


ROW_BYTES, OWN_BYTES = 105, 96
"""Bytes of a transition of HalfCheetah, and of those that its worker has sent in the same form."""


@pytest.mark.slow
def test_an_episode_crosses_the_network_once_to_each_of_four_machines(
    machines: Machines, expected: dict[str, dict[str, bytes]], tmp_path: Path
):
    done(machines.train("long episodes", tmp_path / "run", *on_cluster(MACHINES)))
    assert lasting(tmp_path / "run") == expected["long episodes"]
    assert processes(tmp_path / "run") == MACHINES
    header, *lines = (tmp_path / "run" / "nodes.csv").read_text().splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    *_, newest = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    steps = int(newest.split(",")[1])
    # The first update's rows have the empty ring, too.
    sent = sum(int(row["shared_bytes"]) for row in rows if int(row["update"]) > 1)
    assert sent <= (MACHINES * ROW_BYTES - OWN_BYTES) * steps
    assert sent >= (MACHINES - 1) * OWN_BYTES * steps / 2, "the rows did not reach every machine"


def groups_on_cluster(nodes: int) -> list[str]:
    return ["--pool", "ray", "--ray-address", HEAD, "--nodes", str(nodes)]


def learners(folder: Path) -> list[list[str]]:
    """Return the rows of the learners, one for each group and each of its lives."""
    rows = [row.split(",") for row in (folder / "processes.csv").read_text().splitlines()[1:]]
    return [row for row in rows if row[0] == "learner"]


@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize("nodes", [2, pytest.param(4, marks=SLOW)])
def test_groups_on_machines_have_the_bytes_of_one_process(
    machines: Machines, expected: dict[str, dict[str, bytes]], tmp_path: Path, nodes: int, name: str
):
    done(machines.train(name, tmp_path / "run", *groups_on_cluster(nodes)))
    assert lasting(tmp_path / "run") == expected[name]
    rows = learners(tmp_path / "run")
    assert sorted(row[1] for row in rows) == [str(group) for group in range(nodes)]
    assert {row[4] for row in rows} == {"150"}, "every group has made every update"


@pytest.mark.parametrize("name", GROUPED)
def test_a_group_whose_machine_dies_goes_on_elsewhere_with_the_same_bytes(
    machines: Machines, expected: dict[str, dict[str, bytes]], tmp_path: Path, name: str
):
    run = machines.train(name, tmp_path / "run", *groups_on_cluster(2))
    wait_for_rows(run, tmp_path / "run", 10)
    machines.order("lose", 2)
    done(run)
    machines.start_ray(2)
    assert lasting(tmp_path / "run") == expected[name]
    assert any(int(row[6]) > 0 for row in learners(tmp_path / "run")), "nothing was lost"


@pytest.mark.slow
def test_groups_on_a_network_that_goes_and_comes_back_change_no_byte(
    machines: Machines, expected: dict[str, dict[str, bytes]], tmp_path: Path
):
    run = machines.train("hts", tmp_path / "run", *groups_on_cluster(2))
    wait_for_rows(run, tmp_path / "run", 10)
    machines.order("cut", 2)
    time.sleep(1.0)
    machines.order("heal", 2)
    assert run.poll() is None, "the run was too short"
    done(run)
    assert lasting(tmp_path / "run") == expected["hts"]


def test_a_run_of_groups_whose_driver_dies_is_resumed_on_another_number_of_machines(
    machines: Machines, expected: dict[str, dict[str, bytes]], tmp_path: Path
):
    out = tmp_path / "run"
    run = machines.train("hts", out, *groups_on_cluster(2))
    wait_for_rows(run, out, 60)
    run.kill()
    run.communicate()
    again = [sys.executable, "-m", "drumline", "resume", str(out), "--quiet", "--no-tensorboard"]
    done(machines.command(1, [*again, *groups_on_cluster(4)]))
    assert lasting(out) == expected["hts"]


REPLICAS = ("--parameters", "replicas")


def told_nodes(folder: Path) -> set[str]:
    """Return the nodes that made updates themselves."""
    header, *rows = (folder / "nodes.csv").read_text().splitlines()
    place = header.split(",").index("results_bytes")
    return {row.split(",")[1] for row in rows if int(row.split(",")[place])}


def test_machines_that_make_the_updates_themselves_have_the_same_bytes(
    machines: Machines, expected: dict[str, dict[str, bytes]], tmp_path: Path
):
    done(machines.train("es", tmp_path / "run", *on_cluster(2), *REPLICAS))
    assert lasting(tmp_path / "run") == expected["es"]
    assert len(told_nodes(tmp_path / "run")) == 2


def test_replicas_on_machines_that_are_lost_cut_off_and_new_change_no_byte(
    machines: Machines, expected: dict[str, dict[str, bytes]], tmp_path: Path
):
    run = machines.train("es", tmp_path / "run", *on_cluster(0), *REPLICAS)
    wait_for_rows(run, tmp_path / "run", 2)
    machines.order("cut", 2)
    machines.order("lose", 3)
    assert run.poll() is None, "the run was too short"
    time.sleep(1.0)
    machines.order("heal", 2)
    assert run.poll() is None, "the run was too short"
    machines.start_ray(3)
    done(run)
    assert lasting(tmp_path / "run") == expected["es"]
    assert len(told_nodes(tmp_path / "run")) >= 2
