"""Batches: the bits of lean steps, for any number of environments and any of their lanes."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from drumline.envs import gymnasium_lanes, lean_batches
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.gymnasium_lanes import GymnasiumLanes
from drumline.envs.lanes import LaneHistory, Steps
from drumline.envs.lean_batches import BATCHES, LEAST_TOGETHER, Stepped, fitting
from drumline.envs.lean_classic import CartPole, MountainCar, Pendulum
from drumline.envs.lean_steps import LeanEnvironment

TASKS: dict[str, type[LeanEnvironment]] = {
    "CartPole-v1": CartPole,
    "MountainCar-v0": MountainCar,
    "Pendulum-v1": Pendulum,
}


def made(task: str, count: int) -> list[LeanEnvironment]:
    return [TASKS[task](gymnasium.make(task).unwrapped) for _ in range(count)]


def drawn(space: Any, rng: np.random.Generator, count: int) -> np.ndarray:
    """Actions of the whole range, with its ends."""
    if hasattr(space, "n"):
        return rng.integers(space.n, size=count)
    values = rng.uniform(1.2 * space.low, 1.2 * space.high, (count, *space.shape))
    return np.clip(values, space.low, space.high).astype(space.dtype)


def compare(task: str, count: int, steps: int, seed: int) -> int:
    """Step a changing number of environments both ways; return how many episodes terminated."""
    environments, rng = made(task, count), np.random.default_rng(seed)
    for number, environment in enumerate(environments):
        environment.reset(seed=1_000 * seed + number)
    space, ended = environments[0].action_space, 0
    for step in range(steps):
        some = [environments[k] for k in np.flatnonzero(rng.random(count) < 0.8)] or environments
        states = np.array([environment.bare.state for environment in some]).T
        before, actions = states.copy(), drawn(space, rng, len(some))
        together = BATCHES[TASKS[task]].step(states, actions)
        assert states.tobytes() == before.tobytes()
        singly = actions.tolist() if actions.ndim == 1 else list(actions)
        for k, environment in enumerate(some):
            observation, reward, terminated, _, _ = environment.step(singly[k])
            place = f"{task}, seed {seed}, step {step}, {k} of {len(some)}"
            state = np.array(environment.bare.state)
            assert together.states[:, k].tobytes() == state.tobytes(), place
            assert together.observations[k].tobytes() == observation.tobytes(), place
            assert together.observations.dtype == observation.dtype
            assert together.rewards[k].tobytes() == np.float64(reward).tobytes(), place
            assert together.terminated[k] == terminated, place
            if terminated or rng.random() < 0.002:
                environment.reset(seed=int(rng.integers(1 << 30)))
            ended += terminated
    return ended


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("count", [1, 7, 33])
def test_a_step_of_several_has_the_bits_of_each_alone(task: str, count: int):
    ended = compare(task, count, 250, 0)
    assert ended > 0 or task != "CartPole-v1"


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("task", TASKS)
def test_twenty_seeds_have_the_bits_of_each_alone(task: str):
    for seed in range(20):
        compare(task, 16, 2_000, seed)


@pytest.mark.parametrize("function", [np.sin, np.cos])
def test_sines_of_an_array_are_those_of_its_numbers(function: Any):
    values = np.random.default_rng(0).uniform(-100.0, 100.0, 40_000)
    assert function(values).tolist() == [float(function(value)) for value in values.tolist()]


def lanes_of(task: str, count: int, together: bool, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        if not together:
            patch.setattr(gymnasium_lanes, "fitting", lambda environments: None)
        lanes = GymnasiumLanes(EnvironmentSpec(task), 3, 5, count)
    assert (lanes._batch is not None) == together
    return lanes


def bits(steps: Steps) -> list[tuple[str, bytes]]:
    return [(f"{part.dtype}{part.shape}", part.tobytes()) for part in steps]


@pytest.mark.parametrize("task", TASKS)
def test_lanes_that_step_together_give_the_stream_of_each_alone(
    task: str, monkeypatch: pytest.MonkeyPatch
):
    count, rng = LEAST_TOGETHER + 2, np.random.default_rng(0)
    together, singly = (lanes_of(task, count, both, monkeypatch) for both in (True, False))
    space, ends = together.action_space, 0
    actions: list[list[Any]] = [[] for _ in range(count)]
    ended: list[list[bool]] = [[] for _ in range(count)]
    assert together.begin(0).tobytes() == singly.begin(0).tobytes()
    for step in range(420):
        chosen = None if step % 3 else np.sort(rng.permutation(count)[: 1 + step % count])
        lanes = range(count) if chosen is None else chosen.tolist()
        rows = drawn(space, rng, len(lanes))
        steps = together.step(chosen, rows)
        assert bits(steps) == bits(singly.step(chosen, rows))
        over = steps.terminated | steps.truncated
        for lane, row, end in zip(lanes, rows, over.tolist(), strict=True):
            actions[lane].append(row)
            ended[lane].append(end)
        ends += int(steps.truncated.sum()) if task != "CartPole-v1" else int(over.sum())
        assert together.episode.tolist() == singly.episode.tolist()
    assert ends > 0
    histories = [
        LaneHistory(0, 0, np.array(made_by), np.array(ends_of))
        for made_by, ends_of in zip(actions, ended, strict=True)
    ]
    restored = lanes_of(task, count, True, monkeypatch)
    restored.restore(histories)
    rows = drawn(space, rng, count)
    assert bits(restored.step(None, rows)) == bits(singly.step(None, rows))


@pytest.mark.parametrize("part", Stepped._fields)
def test_a_batch_with_another_bit_is_left_out(part: str, monkeypatch: pytest.MonkeyPatch):
    right = BATCHES[CartPole]

    def wrong(states: np.ndarray, actions: np.ndarray) -> Stepped:
        stepped = right.step(states, actions)
        values = getattr(stepped, part).copy()
        last = values.reshape(-1)[-1:]
        last[:] = ~last if values.dtype == bool else np.nextafter(last, np.inf, dtype=values.dtype)
        return stepped._replace(**{part: values})

    environments = made("CartPole-v1", LEAST_TOGETHER)
    assert fitting(environments) is right
    monkeypatch.setitem(lean_batches.BATCHES, CartPole, right._replace(step=wrong))
    assert fitting(environments) is None


@pytest.mark.parametrize("alone", [True, False])
def test_a_batch_that_is_wrong_for_one_form_of_the_states_is_left_out(
    alone: bool, monkeypatch: pytest.MonkeyPatch
):
    right = BATCHES[CartPole]

    def wrong(states: np.ndarray, actions: np.ndarray) -> Stepped:
        stepped = right.step(states, actions)
        meant = states.shape[1] == 1 if alone else states.shape[1] < LEAST_TOGETHER
        return stepped._replace(rewards=stepped.rewards + meant)

    monkeypatch.setitem(lean_batches.BATCHES, CartPole, right._replace(step=wrong))
    assert fitting(made("CartPole-v1", LEAST_TOGETHER)) is None


def test_few_environments_and_those_without_a_batch_step_singly():
    assert fitting(made("CartPole-v1", LEAST_TOGETHER - 1)) is None
    acrobot = GymnasiumLanes(EnvironmentSpec("Acrobot-v1"), 0, 0, LEAST_TOGETHER)
    assert acrobot._batch is None
    skipping = EnvironmentSpec("CartPole-v1", frame_skip=2)
    assert GymnasiumLanes(skipping, 0, 0, LEAST_TOGETHER)._batch is None
