"""Learners that each hold some shards of an interval learn what one learner of all shards does."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from algorithms.learner_examples import (
    A2C_SETTINGS,
    ENVIRONMENTS,
    PPO_SETTINGS,
    Made,
    everything,
    parameters_of,
    rollout_of,
    spec_of,
)
from campaigns import SLOW, cases

from drumline.algorithms.learning_state import UnfiniteLoss
from drumline.functional.shards import Part, Shards
from drumline.types import Metrics, Rollout, State

SHARDS = 4
INTERVALS = range(2, 5)
CASES = {
    "a2c": A2C_SETTINGS,
    "a2c, vtrace": replace(A2C_SETTINGS, correction="vtrace"),
    "ppo": PPO_SETTINGS,
    "ppo, decoupled": replace(PPO_SETTINGS, correction="decoupled"),
    "ppo, delayed": replace(PPO_SETTINGS, correction="delayed"),
    "ppo, stopped by its KL": replace(PPO_SETTINGS, target_kl=1e-3),
}


class Meeting:
    """Where the threads of a test gather their parts."""

    def __init__(self, groups: int):
        self._parts: list[Sequence[Part]] = [[] for _ in range(groups)]
        self._barrier = threading.Barrier(groups, timeout=60)

    def shards(self, group: int) -> Shards:
        width = SHARDS // len(self._parts)

        def gather(parts: list[Part]) -> list[Part]:
            self._parts[group] = [tuple(array.copy() for array in part) for part in parts]
            self._barrier.wait()
            every = [part for own in self._parts for part in own]
            self._barrier.wait()
            return every

        return Shards(SHARDS, range(group * width, (group + 1) * width), gather)


def seen_by(group: int, groups: int, rollout: Rollout) -> Rollout:
    """The interval as a group has it: of the others' environments no observation."""
    width = ENVIRONMENTS // groups
    own = np.zeros(ENVIRONMENTS, bool)
    own[group * width : (group + 1) * width] = True
    assert isinstance(rollout.observations, np.ndarray)
    observations = np.where(own[None, :, None], rollout.observations, np.float32(0))
    mine = own[rollout.final_environments]
    assert isinstance(rollout.final_observations, np.ndarray)
    return rollout._replace(
        observations=observations,
        log_probs=np.where(own, rollout.log_probs, np.float32(0)),
        values=np.where(own, rollout.values, np.float32(0)),
        final_steps=rollout.final_steps[mine],
        final_environments=rollout.final_environments[mine],
        final_observations=rollout.final_observations[mine],
    )


def learned(settings: Any, groups: int, written_out: bool) -> list[tuple[State, list[Metrics]]]:
    """Return the state and metrics of each group's learner after some intervals."""
    meeting = Meeting(groups)
    found: list[Any] = [None] * groups

    def learn(group: int) -> None:
        made = everything(settings, shards=meeting.shards(group))
        metrics = []
        for interval in INTERVALS:
            behavior = {
                **made.preparation.published(),
                "parameters": parameters_of(spec_of(), interval),
            }
            rollout = rollout_of(made.spec, behavior, interval)
            metrics.append(made.learner.update(seen_by(group, groups, rollout), behavior))
        found[group] = made.learner.state(), metrics

    before, Made.written_out = Made.written_out, written_out
    try:
        threads = [threading.Thread(target=learn, args=(group,)) for group in range(groups)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        Made.written_out = before
    return found


def content(state: State, metrics: list[Metrics]) -> tuple[Any, ...]:
    tensors = {name: tensor.tobytes() for name, tensor in state.tensors.items()}
    return tensors, state.counters, [repr(row) for row in metrics]


WITH_AUTOGRAD = cases(
    [(name, False) for name in CASES], quick=[("a2c", False), ("ppo", False)], later=SLOW
)


@pytest.mark.parametrize(
    ("name", "written_out"), [*((name, True) for name in CASES), *WITH_AUTOGRAD]
)
def test_any_number_of_groups_learns_the_same_bits(name: str, written_out: bool):
    alone = learned(CASES[name], 1, written_out)[0]
    for groups in (2, 4):
        for found in learned(CASES[name], groups, written_out):
            assert content(*found) == content(*alone)


def test_the_number_of_shards_is_an_argument_of_the_result():
    few, many = everything(PPO_SETTINGS), everything(PPO_SETTINGS, shards=Shards.alone(2))
    for made in (few, many):
        behavior = made.behavior(1)
        made.learner.update(rollout_of(made.spec, behavior), behavior)
    assert few.parameters.tobytes() != many.parameters.tobytes()


def test_a_number_that_is_none_is_named_by_the_environment_of_the_run():
    made = everything(PPO_SETTINGS, shards=Shards(2, range(1, 2), lambda parts: parts * 2))
    behavior = made.behavior(1)
    rollout = rollout_of(made.spec, behavior)
    assert isinstance(rollout.observations, np.ndarray)
    rollout.observations[4, 3, 0] = np.nan
    with pytest.raises(UnfiniteLoss, match="observation of environment 3 at step 4"):
        made.learner.update(rollout, behavior)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_last_observation_before_a_time_limit_is_looked_at_too(value: float):
    made = everything(PPO_SETTINGS)
    behavior = made.behavior(1)
    rollout = rollout_of(made.spec, behavior)
    assert isinstance(rollout.final_observations, np.ndarray)
    rollout.final_observations[-1, 0] = value
    environment, step = rollout.final_environments[-1], rollout.final_steps[-1]
    before = made.parameters.tobytes()
    where = f"environment {environment} that was truncated at step {step} of interval"
    with pytest.raises(UnfiniteLoss, match=where):
        made.learner.update(rollout, behavior)
    assert made.parameters.tobytes() == before
