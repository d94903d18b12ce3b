"""The cause of a failed run is named: environment, episode and seed, in every method and layout."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from campaigns import FAULTS, cases
from whole_runs import run_on

from drumline.envs.episode import NonFinite
from drumline.errors import RoleKilled, TaskKilledWorkers, WorkerError
from drumline.recipes.aes import AES
from drumline.recipes.erl import ERL
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.methods import method_of
from drumline.recipes.td3 import TD3
from drumline.tasks import EvaluateMean, Explore, GradientJob, Live, TrainCritics, TrainLearner
from drumline.training.blame import named
from drumline.workers.transition_stream import UnfiniteTransition

SMALL = {"hidden": (4,), "evaluate_every": 0, "evaluate_episodes": 2}
REPLAY = {**SMALL, "total_steps": 60, "replay_size": 60, "batch_size": 4}
ERL_SMALL = {**REPLAY, "critic_hidden": (4, 4), "population_size": 4, "warmup_steps": 20}


def config_of(method: str, name: str) -> Any:
    env = f"impure_environment:{name}"
    if method == "hts":
        return HTS(env=env, total_steps=64, num_envs=4, alpha=4, minibatches=1, **SMALL)
    if method == "td3":
        return TD3(env=env, steps_per_update=20, random_steps=20, **REPLAY)
    if method == "erl":
        return ERL(env=env, **ERL_SMALL)
    if method == "es":
        return ES(env=env, total_steps=60, population_size=4, noise_table_size=1 << 12, **SMALL)
    return AES(env=env, warmup_steps=20, **REPLAY)


def train(out: Path, config: Any, **layout: Any) -> None:
    run_on(out, config, method_of(config).layout(**layout, tensorboard=False))


RAISED = {
    "es": "it was member 0 of generation 0 (update 1), episode seed ",
    "aes": "it was individual 0, episode seed ",
    "erl": "it was individual 0, episode seed ",
    "td3": "it was impure_environment:Collapsing, training episode 0, step ",
    "hts": "it was executor 0, environment 0 of impure_environment:Collapsing, env step 3 of ",
}


@pytest.mark.parametrize(
    ("method", "pool"),
    cases(
        product(RAISED, ("inline", "process")),
        quick=[*((method, "inline") for method in RAISED), ("aes", "process"), ("hts", "process")],
    ),
)
def test_an_environment_that_raises_is_named(method: str, pool: str, tmp_path: Path):
    with pytest.raises(WorkerError, match="fell off the table") as failure:
        train(tmp_path / "run", config_of(method, "Collapsing"), pool=pool, workers=1)
    assert any(note.startswith(RAISED[method]) for note in failure.value.__notes__)


@FAULTS
@pytest.mark.parametrize("method", ["aes", "hts"])
def test_what_ends_its_process_three_times_is_named(method: str, tmp_path: Path):
    with pytest.raises((TaskKilledWorkers, RoleKilled)) as failure:
        train(tmp_path / "run", config_of(method, "Dying"), workers=1)
    said = "\n".join([str(failure.value), *getattr(failure.value, "__notes__", ())])
    assert (
        "individual 0, episode seed"
        if method == "aes"
        else "environment 0 of impure_environment:Dying"
    ) in said


@pytest.mark.parametrize("method", ["aes", "erl", "td3"])
def test_a_reward_that_a_replay_cannot_hold_is_the_environments_fault(method: str, tmp_path: Path):
    with pytest.raises((WorkerError, UnfiniteTransition)) as failure:
        train(tmp_path / "run", config_of(method, "HugeReward"), pool="inline")
    cause = getattr(failure.value, "cause", failure.value)
    assert isinstance(cause, (NonFinite, UnfiniteTransition))
    assert "1e+39" in str(cause)


def test_every_kind_of_task_has_a_name():
    job: Any = GradientJob
    assert named(Live(3, 5, 91, None, False)) == "individual 5, episode seed 91"
    assert named(Explore(3, 5, 91, 0.1, 0.2, 1.0)) == "individual 5, episode seed 91"
    mean = "episodes of the mean beside individual 5, first seed 91"
    assert named(EvaluateMean(3, 5, 91, 2)) == mean
    assert named(TrainCritics(3, 5, job)) == "gradient steps of the critics, job 5"
    assert named(TrainLearner(3, 5, job)) == "gradient steps of the critics, job 5"
    assert named(len) == ""
