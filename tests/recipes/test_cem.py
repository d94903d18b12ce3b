"""CEM's promise: layouts, kills, stops and resumes change no byte; and what it refuses."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from campaigns import FAULTS, cases
from doubles import KillAt

from drumline.api.opened_runs import silent
from drumline.api.run import Run, resume, train
from drumline.api.run_document import PROMISE, run_document
from drumline.commands.verify import verify_again
from drumline.recipes.cem import CEM
from drumline.runs.folder import RunFolder
from drumline.training.layout import Layout
from drumline.training.run_request import RunRequest

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

INLINE = Layout(pool="inline", tensorboard=False)
SMALL = CEM(
    env="InvertedPendulum-v5",
    total_steps=400,
    population_size=6,
    elites=3,
    initial_variance=0.1,
    damp=0.1,
    hidden=(8,),
    evaluate_every=2,
    evaluate_episodes=2,
)
LASTING = ("fingerprints.csv", "episodes.csv", "evaluations.csv", "policy-last.safetensors")


def lasting_bytes(folder: Path) -> dict[str, bytes]:
    """Everything in a run folder that wall-clock time has no part in."""
    return {name: (folder / name).read_bytes() for name in LASTING}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    run = train(SMALL, layout=INLINE, out=tmp_path_factory.mktemp("expected") / "run")
    assert len(run.metrics) > 4
    return lasting_bytes(run.path)


@FAULTS
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_number_of_workers_changes_no_byte(tmp_path: Path, expected, workers: int):
    run = train(SMALL, workers=workers, out=tmp_path / "run")
    assert lasting_bytes(run.path) == expected


@pytest.mark.parametrize("point", cases(["episode-begun", "half-result"], quick=[]))
def test_a_killed_worker_changes_no_byte(tmp_path: Path, expected, point: str):
    layout = Layout(workers=2)
    folder = RunFolder.create(
        tmp_path / "run",
        method="cem",
        env_id=SMALL.env,
        seed=SMALL.seed,
        document=run_document(SMALL, layout, PROMISE),
    )
    probe = KillAt(point, tmp_path / "flag")
    SMALL.build(layout).opened(RunRequest(folder, layout, silent(), probe_factory=probe)).run()
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder.path) == expected


@pytest.mark.parametrize("update", [0, 1, 2, 3])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, expected, update: int):
    first = train(SMALL, layout=INLINE, out=tmp_path / "run", last_update=update)
    assert lasting_bytes(resume(first.folder, INLINE).path) == expected


def test_a_run_verifies_and_its_episodes_stand_alone(tmp_path: Path):
    run: Run = train(SMALL, layout=INLINE, out=tmp_path / "run", last_update=2)
    assert verify_again(run.folder, 2, INLINE) == (2, None)
    again = run.episode(3, checkpoint=0)
    row = run.folder.episodes_csv.read_text().splitlines()[4].split(",")
    assert (float(row[3]), int(row[4])) == (again.episode_return, again.length)


def test_the_mean_is_what_is_evaluated_and_saved(tmp_path: Path):
    run = train(SMALL, layout=INLINE, out=tmp_path / "run")
    assert run.policy.vector.shape == (run.policy.parameter_count,)
    assert run.evaluate(episodes=1).returns[0] > 0


@pytest.mark.filterwarnings("ignore:builtin type .* has no __module__:DeprecationWarning")  # Box2D
@pytest.mark.parametrize("env", cases(sorted(CEM.PRESETS), quick=["HalfCheetah-v5", "Pendulum-v1"]))
def test_every_preset_runs_two_updates(env: str, tmp_path: Path):
    small = {"evaluate_episodes": 1, "evaluate_every": 0, "promise": False}
    fields: dict[str, Any] = {**CEM.PRESETS[env], **small, "population_size": 2, "elites": 1}
    run = train(CEM(env=env, **fields), layout=INLINE, out=tmp_path / "run", last_update=2)
    assert len(run.metrics) == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"population_size": 1}, "--population-size must be 2 or more, got 1"),
        ({"population_size": 7}, "must be even with --antithetic, got 7"),
        ({"elites": 0}, "--elites must be 1 to --population-size 6, got 0"),
        ({"elites": 7}, "--elites must be 1 to --population-size 6, got 7"),
        ({"initial_variance": 0.0}, "--initial-variance must be above 0"),
        ({"damp_limit": 1.0}, "--damp-limit must be at most --damp 0.1, got 1.0"),
        ({"damp_limit": 0.0}, "--damp-limit must be above 0, got 0.0"),
        ({"damp": math.inf}, "--damp must be a finite number, got inf"),
        ({"damp_decay": 1.5}, r"--damp-decay must be in \[0, 1\], got 1.5"),
        ({"hidden": ()}, "--hidden needs layers"),
    ],
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **fields)
