"""CEM-RL, P-CEM-RL and ERL: layouts, kills, sleeps, stops and resumes change no byte."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from campaigns import FAULTS, cases
from doubles import GatherAt, KillAt, SleepAt
from training.stopping import stop_at_call
from whole_runs import LASTING, SMALL_CEM_RL, SMALL_ERL, SMALL_P_CEM_RL, lasting_bytes, run_on

from drumline.api.run import resume, train
from drumline.commands.verify import verify_again
from drumline.runs.folder import RunFolder
from drumline.training.layout import Layout, SteadyLayout
from drumline.training.stopped import Stopped

SLOW = pytest.mark.slow


class Case(NamedTuple):
    """A run that is repeated otherwise."""

    config: Any
    learns: tuple[str, ...]
    """Columns of metrics.csv that are above 0 at the end."""
    points: tuple[str, ...]
    """Points at which a worker is killed."""
    sleeps: tuple[str, ...]
    updates: tuple[int, ...]
    """After which a run is stopped."""
    calls: tuple[int, ...]
    """Jobs in the middle of which it is."""
    campaign: pytest.MarkDecorator = FAULTS
    """Layouts in which its processes are tried."""
    layout: type[Layout] = Layout

    @property
    def inline(self) -> Layout:
        """The layout without processes."""
        return self.layout(pool="inline", tensorboard=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Every file that lasts."""
        return (*LASTING, "events.jsonl") if self.layout is SteadyLayout else LASTING


BOTH_STEPS = ("critic_steps", "actor_steps")
REFINED = ("individual-refined", "critic-begun", "critic-ended")
SLEEPS = ("individual-begun", "critic-begun", "mean-begun")
CASES = {
    "cem-rl": Case(
        SMALL_CEM_RL,
        learns=BOTH_STEPS,
        points=(*REFINED, "individual-ended", "mean-ended"),
        sleeps=SLEEPS,
        updates=(0, 1, 4),
        calls=(9, 20, 31),
    ),
    "p-cem-rl, serial critic": Case(
        SMALL_P_CEM_RL, BOTH_STEPS, REFINED, SLEEPS, (1, 3), (), campaign=SLOW, layout=SteadyLayout
    ),
    "p-cem-rl, parallel critic": Case(
        replace(SMALL_P_CEM_RL, critic="parallel"),
        *(BOTH_STEPS, REFINED, SLEEPS, (1, 3), (16,)),
        layout=SteadyLayout,
    ),
    "erl": Case(
        SMALL_ERL,
        learns=("injections", "gradient_steps"),
        points=("individual-ended", "exploration-begun", "learner-begun", "learner-ended"),
        sleeps=("individual-begun", "exploration-begun", "mean-begun"),
        updates=(0, 1, 3),
        calls=(5, 33),
    ),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, bytes]]]:
    out, found = tmp_path_factory.mktemp("expected"), {}
    for name, case in CASES.items():
        run = train(case.config, layout=case.inline, out=out / name)
        assert len(run.metrics) >= max(case.updates)
        assert all(run.metrics[-1][column] > 0 for column in case.learns)
        found[name] = lasting_bytes(run.folder, case.names)
    return found


def each(attribute: str) -> list[Any]:
    """Every case with each of its values."""
    return [(name, value) for name, case in CASES.items() for value in getattr(case, attribute)]


def last_of_each(attribute: str) -> list[Any]:
    """Every case with each of its values; all but the last of them for the fault campaigns."""
    return cases(each(attribute), quick=list(dict(each(attribute)).items()))


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        pytest.param(name, workers, marks=case.campaign if workers == 2 else SLOW)
        for name, case in CASES.items()
        for workers in (1, 2, 3)
    ],
)
def test_the_number_of_processes_changes_no_byte(
    tmp_path: Path, expected: Any, name: str, workers: int
):
    case = CASES[name]
    probe = GatherAt("individual-begun", workers, tmp_path / "came")
    folder = run_on(tmp_path / "run", case.config, case.layout(workers=workers), probe)
    assert lasting_bytes(folder, case.names) == expected[name]
    rows = [row.split(",") for row in folder.processes_csv.read_text().splitlines()[1:]]
    assert [row[0] for row in rows].count("worker") == workers
    assert all(int(row[3]) > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "point"), each("points"))
def test_a_worker_killed_at_any_point_of_a_job_changes_no_byte(
    tmp_path: Path, expected: Any, name: str, point: str
):
    case, probe = CASES[name], KillAt(point, tmp_path / "flag")
    folder = run_on(tmp_path / "run", case.config, case.layout(workers=2), probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder, case.names) == expected[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_random_sleeps_change_no_byte(tmp_path: Path, expected: Any, name: str):
    case = CASES[name]
    probe = SleepAt(case.sleeps, 0.02)
    folder = run_on(tmp_path / "run", case.config, case.layout(workers=3), probe)
    assert lasting_bytes(folder, case.names) == expected[name]


@pytest.mark.parametrize(("name", "update"), last_of_each("updates"))
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, expected: Any, name: str, update: int
):
    case = CASES[name]
    folder = run_on(tmp_path / "run", case.config, case.inline, last_update=update)
    assert lasting_bytes(resume(folder, case.inline).folder, case.names) == expected[name]


@pytest.mark.parametrize(("name", "call"), last_of_each("calls"))
def test_a_run_stopped_in_any_job_goes_on_with_the_same_bits(
    tmp_path: Path, expected: Any, name: str, call: int, monkeypatch: pytest.MonkeyPatch
):
    case = CASES[name]
    with monkeypatch.context() as patch:
        stop_at_call(patch, call)
        with pytest.raises(Stopped):
            run_on(tmp_path / "run", case.config, case.inline)
    folder = resume(RunFolder.open(tmp_path / "run"), case.inline).folder
    assert lasting_bytes(folder, case.names) == expected[name]


@pytest.mark.parametrize("name", ["cem-rl", "erl"])
def test_a_longer_run_is_the_one_that_was_longer_from_the_start(
    tmp_path: Path, expected: Any, name: str
):
    case = CASES[name]
    short = replace(case.config, total_steps=100)
    run = train(short, layout=case.inline, out=tmp_path / "run")
    longer = resume(run.folder, case.inline, total_steps=case.config.total_steps)
    assert lasting_bytes(longer.folder, case.names) == expected[name]


@pytest.mark.parametrize("name", ["cem-rl", "erl"])
def test_verify_repeats_a_run_and_another_seed_is_another_run(
    tmp_path: Path, expected: Any, name: str
):
    case = CASES[name]
    other = replace(case.config, seed=1)
    run = train(other, layout=case.inline, out=tmp_path / "run", last_update=3)
    assert verify_again(run.folder, 3, case.inline) == (3, None)
    chain = lasting_bytes(run.folder, case.names)["fingerprints.csv"]
    assert chain not in expected[name]["fingerprints.csv"]


@pytest.mark.slow
def test_verify_repeats_a_run_on_another_layout(tmp_path: Path):
    case = CASES["cem-rl"]
    run = train(case.config, layout=case.inline, out=tmp_path / "run")
    done, difference = verify_again(run.folder, None, Layout(workers=3, tensorboard=False))
    assert (done > 4, difference) == (True, None)


def test_a_serial_critic_learns_the_same_at_any_cost_and_on_any_number_of_logical_workers(
    tmp_path: Path, expected: Any
):
    name = "p-cem-rl, serial critic"
    config = replace(SMALL_P_CEM_RL, concurrency=2, critic_step_cost=1, actor_step_cost=10**9)
    found = lasting_bytes(run_on(tmp_path / "run", config, CASES[name].inline))
    for file in ("fingerprints.csv", "episodes.csv", "policy-last.safetensors"):
        assert found[file] == expected[name][file]
