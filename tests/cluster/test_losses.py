"""Machines of a cluster are lost at every point of the protocol, in every manner: the same bytes.

In each run three of four machines are lost, one after the other, each at a point of its own.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigns import FAULTS
from ray_folders import ray_folder

pytest.importorskip("ray", reason="the extra `ray` is not installed")

from cluster.test_ray_nodes import (
    HEAD,
    MACHINES,
    Machines,
    done,
    lasting,
    on_cluster,
    wait_for_rows,
    why_not,
)
from runtime.contract import POINTS

pytestmark = [FAULTS, pytest.mark.timeout(600)]
HOST_POINTS = ["host-started", "host-told", "host-submitted", "host-finished", "host-heard"]
EPISODE = {
    "es": ["episode-begun", "episode-ended"],
    "aes": ["individual-begun", "individual-ended", "critic-begun", "critic-ended"],
    "cem-rl": ["individual-begun", "individual-ended", "critic-begun", "critic-ended"],
}
MANNERS = ["stop", "raylet", "all", "cut"]
MOST = 5
"""Tasks that one core of four holds at most: one that runs, and half of its share of 32 waiting."""
SHORT = [("es", "host-told:raylet", "half-result:stop", "host-heard:cut")]
"""Tried with the fault campaigns; everything else with the slow tests."""


def every_case() -> list[tuple[str, ...]]:
    """Return (method, three losses): each method's points in each manner."""
    cases: list[tuple[str, ...]] = []
    for name, more in EPISODE.items():
        points = [*HOST_POINTS, *POINTS, *more]
        for first in range(0, len(points), 3):
            for shift in range(len(MANNERS)):
                three = points[first : first + 3]
                chosen = [MANNERS[(shift + k) % len(MANNERS)] for k in range(len(three))]
                cases.append((name, *map(":".join, zip(three, chosen, strict=True))))
    return cases


CASES = [
    *(pytest.param(case[0], case[1:], id="-".join(case)) for case in SHORT),
    *(
        pytest.param(case[0], case[1:], id="-".join(case), marks=pytest.mark.slow)
        for case in every_case()
    ),
]


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    if reason := why_not():
        pytest.skip(reason)
    with ray_folder() as folder:
        made = Machines(Path(folder))
        with made.up():
            yield made


class Inline(dict[str, dict[str, bytes]]):
    """Lasting bytes of an inline run of each method, made when they are first asked for."""

    def __init__(self, machines: Machines, out: Path):
        super().__init__()
        self._machines = machines
        self._out = out

    def __missing__(self, name: str) -> dict[str, bytes]:
        done(run(self._machines, name, self._out / name))
        self[name] = lasting(self._out / name)
        return self[name]


@pytest.fixture(scope="module")
def expected(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Inline:
    return Inline(machines, tmp_path_factory.mktemp("expected"))


def run(machines: Machines, name: str, out: Path, *more: str) -> "subprocess.Popen[str]":
    script = str(Path(__file__).with_name("losses.py"))
    return machines.command(1, [sys.executable, script, name, str(out), HEAD, *more])


@pytest.mark.parametrize(("name", "losses"), CASES)
def test_machines_lost_at_any_point_in_any_manner_change_no_byte(
    machines: Machines, expected: Inline, tmp_path: Path, name: str, losses: tuple[str, ...]
):
    flags = tmp_path / "flags"
    flags.mkdir()
    planted = [f"drum{number}:{loss}" for number, loss in enumerate(losses, 2)]
    said = done(run(machines, name, tmp_path / "run", str(flags), *planted))
    lost = sorted(flag.name.partition("-")[0] for flag in flags.iterdir())
    for machine in lost:
        machines.mend(int(machine.removeprefix("drum")))
    assert lasting(tmp_path / "run") == expected[name]
    # CEM-RL asks for two workers and has one critic: not every point comes to every machine.
    planned = [f"drum{number}" for number, _ in enumerate(losses, 2)]
    assert lost == planned or (name == "cem-rl" and lost), said
    again = [int(count) for count in re.findall(r"(\d+) tasks issued", said)]
    assert again, said
    assert max(again) <= MOST, f"more than a node's share was issued again: {said}"


@pytest.mark.slow
def test_a_run_whose_drivers_machine_dies_goes_on_in_a_cluster_of_the_others(
    machines: Machines, tmp_path: Path
):
    done(machines.train("es", tmp_path / "inline", "--pool", "inline"))
    out = tmp_path / "run"
    first = machines.train("es", out, *on_cluster(0))
    wait_for_rows(first, out, 3)
    machines.order("lose", 1)  # with it the head, and so the cluster
    first.communicate(timeout=60)
    assert first.returncode != 0
    try:
        for machine in (2, 3):
            machines.order("lose", machine)
            machines.start_ray(machine, head=2)
        again = [sys.executable, "-m", "drumline", "resume", str(out), "--quiet"]
        flags = ["--no-tensorboard", "--pool", "ray", "--ray-address", "10.77.0.2:6379"]
        done(machines.command(2, [*again, *flags, "--workers", "0"]))
    finally:
        for machine in range(1, MACHINES + 1):
            machines.mend(machine)
    assert lasting(out) == lasting(tmp_path / "inline")
