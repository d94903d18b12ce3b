"""The promise of groups: their number, deaths, delays, stops and resumes change no byte."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import doubles
import numpy as np
import pytest
from campaigns import FAULTS, SLOW, cases
from descriptors import many_descriptors
from doubles import HangAt, KillAt, KillAtNth, KillEver, RaiseAt, SleepAt
from training.own_methods import Alone, Deaf, Rotation
from whole_runs import run_on

from drumline.api.foreign_code import TRUSTED
from drumline.api.run import resume, train
from drumline.commands.verify import layout_for, verify_again
from drumline.errors import WorkerError, WorkersLost
from drumline.recipes.a2c import A2C
from drumline.recipes.hts import HTS
from drumline.recipes.ppo import PPO
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunFolder
from drumline.runs.tables import read_table
from drumline.runtime.cluster.group_messages import Built
from drumline.runtime.cluster.node_checks import processor, versions_of
from drumline.training.group_work import differing, known_answer
from drumline.training.layout import LockstepLayout, RotationLayout

SMALL: dict[str, Any] = {
    "env": "CartPole-v1",
    "engine": "gymnasium",
    "total_steps": 480,
    "num_envs": 4,
    "alpha": 12,
    "learners": 2,
    "hidden": (8,),
    "normalize_observations": True,
    "scale_rewards": True,
    "evaluate_every": 3,
    "evaluate_episodes": 2,
}
EPOCHS: dict[str, Any] = {"epochs": 2, "minibatches": 3}
OVERLAPPED = HTS(**SMALL, **EPOCHS)
CONFIGS: dict[str, Any] = {
    "hts": OVERLAPPED,
    "hts, a2c": replace(OVERLAPPED, learner="a2c", alpha=6),
    "hts, envpool": replace(OVERLAPPED, engine="envpool", renew_intervals=3),
    "hts, 4 shards": replace(OVERLAPPED, learners=4, target_kl=1e-4, correction="decoupled"),
    "hts, frames": replace(
        OVERLAPPED,
        env="lane_environments:filmed",
        normalize_observations=False,
        truncations_per_interval=16,
    ),
    "ppo": PPO(**SMALL, **EPOCHS),
    "a2c": A2C(**SMALL),
    "from outside": Rotation(**SMALL, **EPOCHS),
}
LASTING = ("fingerprints.csv", "episodes.csv", "evaluations.csv", "policy-last.safetensors")
TIMED = ("seconds", "per_second")


def lasting(folder: Path) -> dict[str, Any]:
    """Return files, metrics and all state of the checkpoint, without wall-clock times."""
    found: dict[str, Any] = {
        name: (folder / name).read_bytes() for name in LASTING if (folder / name).exists()
    }
    table = read_table(folder / "metrics.csv")
    names = [name for name in table.columns if not name.endswith(TIMED)]
    found["metrics"] = names, list(table.values(names, [str] * len(names)))
    state = read_checkpoint(RunFolder.open(folder)).state
    found["tensors"] = {name: tensor.tobytes() for name, tensor in state.tensors.items()}
    counters = state.counters.items()
    found["counters"] = {name: n for name, n in counters if not name.endswith(TIMED)}
    return found


class Expected(dict[str, Any]):
    """Lasting parts of each config's run in one process, made when they are first asked for."""

    def __init__(self, out: Path):
        super().__init__()
        self._out = out

    def __missing__(self, name: str) -> dict[str, Any]:
        out = self._out / name.replace(", ", "-").replace(" ", "-")
        self[name] = lasting(train(CONFIGS[name], workers="inline", out=out).path)
        return self[name]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return Expected(tmp_path_factory.mktemp("expected"))


def layout_of(config: Any, nodes: int, **options: Any) -> Any:
    kind = RotationLayout if isinstance(config, HTS) else LockstepLayout
    return kind(nodes=nodes, **options)


def grouped(out: Path, name: str, nodes: int = 2, probe: Any = None, **options: Any) -> RunFolder:
    config = CONFIGS[name]
    layout = layout_of(config, nodes, **options.pop("layout", {}))
    return run_on(out, config, layout, probe, **options)


def rows_of(folder: RunFolder) -> list[list[str]]:
    return [row.split(",") for row in folder.processes_csv.read_text().splitlines()[1:]]


@pytest.mark.parametrize(
    ("name", "nodes", "layout"),
    [
        ("hts", 2, {}),
        *cases(
            [
                ("hts", 2, {"executors": 2, "actors": 1, "barrier": "hard"}),
                ("hts, envpool", 2, {}),
                ("hts, 4 shards", 4, {}),
                ("ppo", 2, {"executors": 2, "halves": 2}),
                ("from outside", 2, {}),
            ],
            quick=[],
        ),
        *cases(
            [
                ("hts, a2c", 2, {}),
                ("hts, 4 shards", 2, {}),
                ("hts, frames", 2, {}),
                ("ppo", 2, {}),
                ("a2c", 2, {}),
            ],
            quick=[],
            later=SLOW,
        ),
    ],
)
def test_any_number_of_groups_gives_the_same_bytes(
    tmp_path: Path, expected: Expected, name: str, nodes: int, layout: dict[str, Any]
):
    folder = grouped(tmp_path / "run", name, nodes, layout=layout)
    assert lasting(folder.path) == expected[name]
    rows = rows_of(folder)
    own = [row for row in rows if row[0] != "evaluator"]  # one of those may run all episodes
    assert all(int(row[4]) > 0 for row in own), "every process has done its share"
    counts = Counter(row[0] for row in rows)
    assert counts["learner"] == nodes
    assert counts["executor"] == nodes * layout.get("executors", 1)
    assert len({(row[0], row[1]) for row in rows}) == len(rows)
    updates = CONFIGS[name].intervals
    assert [row[4] for row in rows if row[0] == "learner"] == [str(updates)] * nodes


@FAULTS
def test_groups_meet_in_a_process_with_many_open_descriptors(tmp_path: Path, expected: Expected):
    with many_descriptors():
        folder = grouped(tmp_path / "run", "a2c")
    assert lasting(folder.path) == expected["a2c"]


POINTS = ("group-joined", "before-swap", "part-sent", "swapped")


@pytest.mark.parametrize(
    ("name", "point"),
    [
        *cases([*(("hts", point) for point in POINTS), ("ppo", "part-sent")], quick=[]),
        *cases(
            [
                *(("ppo", point) for point in POINTS if point != "part-sent"),
                *(("hts, a2c", point) for point in POINTS),
            ],
            quick=[],
            later=SLOW,
        ),
    ],
)
def test_a_group_killed_in_a_whole_run_changes_no_byte(
    tmp_path: Path, expected: Expected, name: str, point: str
):
    folder = grouped(tmp_path / "run", name, probe=KillAt(point, tmp_path / "flag"))
    assert (tmp_path / "flag").exists()
    assert lasting(folder.path) == expected[name]


@FAULTS
def test_groups_killed_in_the_middle_of_updates_change_no_byte(tmp_path: Path, expected: Expected):
    (tmp_path / "kills").mkdir()
    # A swap for the interval, one for what is compared, and one for each of 6 minibatches.
    places = (("part-sent", 5), ("swapped", 12), ("before-swap", 29))
    probe = KillAtNth(places, tmp_path / "kills")
    folder = grouped(tmp_path / "run", "hts, 4 shards", nodes=4, probe=probe)
    assert len(list((tmp_path / "kills").iterdir())) == len(places)
    assert lasting(folder.path) == expected["hts, 4 shards"]
    assert max(int(row[6]) for row in rows_of(folder)) == len(places)


@FAULTS
@pytest.mark.parametrize("point", ["half-row", "before-step"])
def test_a_role_killed_in_any_group_changes_no_byte(tmp_path: Path, expected: Expected, point: str):
    (tmp_path / "kills").mkdir()
    probe = KillAtNth(((point, 3), (point, 31), (point, 32)), tmp_path / "kills")
    folder = grouped(tmp_path / "run", "hts", probe=probe)
    assert len(list((tmp_path / "kills").iterdir())) == 3
    assert lasting(folder.path) == expected["hts"]


@FAULTS
def test_a_group_that_hangs_is_started_again(tmp_path: Path, expected: Expected):
    probe = HangAt("swapped", tmp_path / "flag")
    layout = {"hang_seconds": 1.5, "creation_seconds": 60.0}
    folder = grouped(tmp_path / "run", "hts", probe=probe, layout=layout)
    assert lasting(folder.path) == expected["hts"]
    assert any(row[6] == "1" for row in rows_of(folder))


@FAULTS
def test_random_sleeps_of_groups_change_no_byte(tmp_path: Path, expected: Expected):
    probe = SleepAt(("before-swap", "part-sent", "swapped", "before-step"), 0.003)
    folder = grouped(tmp_path / "run", "hts, 4 shards", nodes=4, probe=probe)
    assert lasting(folder.path) == expected["hts, 4 shards"]


@pytest.mark.parametrize(
    ("name", "counts"),
    cases(
        [("hts", (2, 1)), ("hts", (1, 2)), ("hts, 4 shards", (4, 2, 1, 4)), ("ppo", (2, 1, 2))],
        quick=[],
    ),
)
def test_a_resumed_run_may_have_another_number_of_groups(
    tmp_path: Path, expected: Expected, name: str, counts: tuple[int, ...]
):
    config, first, *later = CONFIGS[name], *counts
    folder = grouped(tmp_path / "run", name, first, last_update=3)
    for number, nodes in enumerate(later, 1):
        last = None if number == len(later) else 3 + 2 * number
        resume(folder, layout_of(config, nodes), trust=TRUSTED, last_update=last)
    assert lasting(folder.path) == expected[name]


@FAULTS
def test_a_group_that_ends_again_and_again_fails_the_run_and_a_resume_goes_on(
    tmp_path: Path, expected: Expected
):
    probe = KillEver("before-swap", 35, tmp_path / "flag")  # the first of update 6
    with pytest.raises(WorkersLost, match=r"lost 3 times without an update between \(SIGKILL, "):
        grouped(tmp_path / "run", "hts", probe=probe)
    folder = RunFolder.open(tmp_path / "run")
    assert read_checkpoint(folder).update == 5
    resume(folder, layout_of(OVERLAPPED, 1), trust=TRUSTED)
    assert lasting(folder.path) == expected["hts"]


@pytest.mark.parametrize("point", cases(["before-swap", "before-step"], quick=["before-swap"]))
def test_an_error_in_another_group_is_the_runs(tmp_path: Path, point: str):
    where = "group 1" if point == "before-swap" else "executor"
    with pytest.raises(WorkerError, match=rf"(?s)OddNumber: at {point}.*{where}"):
        grouped(tmp_path / "run", "hts", probe=RaiseAt(point))


@FAULTS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_of_groups_stopped_by_a_signal_goes_on_with_the_same_bytes(
    tmp_path: Path, number: int
):
    config = replace(OVERLAPPED, total_steps=9_600, evaluate_every=0)
    whole = lasting(train(config, workers="inline", out=tmp_path / "whole").path)
    out = tmp_path / "run"
    script = (
        "from drumline.api.run import train\n"
        "from drumline.training.layout import RotationLayout\n"
        "from test_groups_promise import OVERLAPPED, replace\n"
        "config = replace(OVERLAPPED, total_steps=9_600, evaluate_every=0)\n"
        "layout = RotationLayout(nodes=2, checkpoint_minutes=0.001)\n"
        f"train(config, layout=layout, out={str(out)!r})\n"
    )
    here = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environ = {**os.environ, "PYTHONPATH": here}
    run = subprocess.Popen([sys.executable, "-c", script], env=environ)
    rows = out / "metrics.csv"
    doubles.wait_until(lambda: rows.exists() and rows.read_text().count("\n") > 20)
    before = children_of(run.pid)
    run.send_signal(number)
    run.wait(60)
    doubles.wait_until(lambda: not any(map(alive, before)))
    folder = RunFolder.open(out)
    assert read_checkpoint(folder).update < config.intervals, "it was not stopped"
    resume(folder, RotationLayout(pool="inline"), trust=TRUSTED)
    assert lasting(out) == whole
    assert before


def children_of(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True)
    parents: Mapping[int, int] = {
        int(own): int(parent)
        for own, parent in (row.split() for row in found.stdout.splitlines()[1:])
    }
    below, known = [pid], set[int]()
    while below:
        known.update(below)
        below = [own for own, parent in parents.items() if parent in known and own not in known]
    return sorted(known - {pid})


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@FAULTS
def test_a_learner_that_gathers_nothing_is_noticed(tmp_path: Path):
    with pytest.raises(RuntimeError, match="holds other parameters than group"):
        run_on(tmp_path / "run", Deaf(**SMALL, **EPOCHS), LockstepLayout(nodes=2))


def test_a_method_without_groups_refuses_more_than_one(tmp_path: Path):
    alone = Alone(**SMALL, **EPOCHS)
    with pytest.raises(ValueError, match="does not learn in groups: leave --nodes 2 out"):
        run_on(tmp_path / "run", alone, LockstepLayout(nodes=2))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"processor": "Z80"}, r"its processor \(Z80\) may give other bits"),
        ({"packages": {"numpy": "0.1"}}, "it has numpy 0.1 instead of .*: install the versions"),
        ({"answer": "another"}, r"its NumPy or torch computes other bits than that of group 0"),
    ],
)
def test_a_group_on_another_kind_of_machine_is_refused(other: dict[str, Any], words: str):
    same = Built(versions_of(["drumline", "numpy", "torch"]), processor(), known_answer())
    assert differing(same) == ""
    assert re.match(words, differing(same._replace(**other)))


@FAULTS
def test_verify_repeats_a_run_in_groups(tmp_path: Path):
    run = train(CONFIGS["hts"], workers="inline", out=tmp_path / "run")
    layout = layout_for(run.folder, 3, TRUSTED, nodes=2)
    assert isinstance(layout, RotationLayout)
    assert (layout.nodes, layout.workers) == (2, 2)
    assert verify_again(run.folder, 10**6, layout, TRUSTED) == (10, None)


def test_groups_own_whole_shards():
    with pytest.raises(ValueError, match="--nodes 3 must divide --learners 2"):
        OVERLAPPED.build(RotationLayout(nodes=3))
    for flags, words in (
        ({"nodes": 0}, "--nodes must be 1 or more"),
        ({"nodes": 2, "pool": "inline"}, "--nodes 2 needs processes"),
        ({"pool": "ray"}, "--pool ray needs --nodes 2 or more"),
    ):
        for kind in (RotationLayout, LockstepLayout):
            with pytest.raises(ValueError, match=words):
                kind(**flags)
    with pytest.raises(ValueError, match="--executors 3 is more than the 2 environments"):
        OVERLAPPED.build(RotationLayout(nodes=2, executors=3))


def test_parts_of_an_interval_are_counted_from_the_runs_first_environment():
    staff = OVERLAPPED.build(RotationLayout(nodes=2, executors=2, actors=1)).of_group(1).staff
    assert staff.bounds(4) == (2, 3, 4)
    assert staff.served(4) == (2, 4)
    assert np.concatenate(staff.turns(4)).tolist() == [2, 3]
