"""Lean steps: the bits of Gymnasium's own, through contacts, falls, ends and resets."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from drumline.api.run import train
from drumline.envs.step_choice import LEAN
from drumline.policies.build import build_policy
from drumline.policies.heads import Head
from drumline.policies.mlp import initial_vector
from drumline.policies.spec import PolicySpec
from drumline.recipes.es import ES

REGISTERED = {
    spec.entry_point: name
    for name, spec in gymnasium.registry.items()
    if spec.entry_point in LEAN and name != "CartPole-v0"
}
TASKS = {name: LEAN[entry] for entry, name in REGISTERED.items()}
FALLING = {
    "Ant-v5": 1,
    "Hopper-v5": 3,
    "Humanoid-v5": 3,
    "Walker2d-v5": 3,
    "InvertedPendulum-v5": 3,
    "InvertedDoublePendulum-v5": 3,
    "CartPole-v1": 3,
}
"""Episodes that end by themselves in 160 steps of random actions, at the least."""


def bits(value: Any) -> tuple[Any, ...]:
    array = np.asarray(value)
    return array.dtype.str, array.shape, array.tobytes()


def bits_of(info: dict[str, Any]) -> dict[str, bytes]:
    """Values alone: Gymnasium's are partly scalars of NumPy's, partly Python's."""
    return {name: np.asarray(value, np.float64).tobytes() for name, value in info.items()}


def random_actions(space: Any, seed: int) -> Callable[[Any], Any]:
    """Actions of the whole range and beyond it, up to a fifth of its bounds."""
    rng = np.random.default_rng(seed)
    if hasattr(space, "n"):
        return lambda observation: int(rng.integers(space.n))
    low, high = 1.2 * space.low, 1.2 * space.high
    return lambda observation: rng.uniform(low, high).astype(space.dtype)


def network(environment: Any, seed: int) -> Callable[[Any], Any]:
    """Actions of a network whose outputs are as large as those of trained ones."""
    space = environment.action_space
    if hasattr(space, "n"):
        head = Head("discrete", choices=int(space.n))
    else:
        low, high = tuple(space.low.tolist()), tuple(space.high.tolist())
        head = Head("continuous", low=low, high=high, shape=space.shape)
    size = environment.observation_space.shape[0]
    spec = PolicySpec(size, head, (16,), normalize=False)
    policy = build_policy(spec)
    rng = np.random.default_rng(seed)
    policy.load_vector(initial_vector(spec, rng) * 3)
    return policy.act


def compare(task: str, seed: int, steps: int, act: Callable[[Any], Any], limit: int) -> int:
    """Step both paths with the same actions; return how many episodes terminated."""
    theirs = gymnasium.make(task).unwrapped
    ours = TASKS[task](gymnasium.make(task).unwrapped)
    seeds, ended, length = iter(range(1000 * seed, 1000 * seed + steps + 1)), 0, limit
    observation: Any = None
    for number in range(steps):
        if length == limit:
            again, length = next(seeds), 0
            observation, info = theirs.reset(seed=again)
            same, same_info = ours.reset(seed=again)
            assert (bits(observation), bits_of(info)) == (bits(same), bits_of(same_info))
        action = act(observation)
        observation, reward, terminated, truncated, info = theirs.step(action)
        same, *rest = ours.step(action)
        place = f"{task}, seed {seed}, step {number}"
        assert bits(same) == bits(observation), place
        assert np.float64(rest[0]).tobytes() == np.float64(reward).tobytes(), place
        assert (rest[1], rest[2]) == (terminated, truncated), place
        assert bits_of(ours.info()) == bits_of(info), place
        assert not rest[3] or bits_of(rest[3]) == bits_of(info), place
        assert bool(rest[3]) == bool(terminated and info), place
        ended += terminated
        length = limit if terminated else length + 1
    theirs.close()
    ours.close()
    return ended


@pytest.mark.parametrize("task", TASKS)
def test_random_actions_get_gymnasiums_bits(task: str):
    space = gymnasium.make(task).action_space
    ended = compare(task, 0, 160, random_actions(space, 0), 120)
    assert ended >= FALLING.get(task, 0)


@pytest.mark.parametrize("task", TASKS)
def test_a_networks_actions_get_gymnasiums_bits(task: str):
    compare(task, 1, 100, network(gymnasium.make(task), 1), 70)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("task", TASKS)
def test_twenty_seeds_of_random_actions_get_gymnasiums_bits(task: str):
    space = gymnasium.make(task).action_space
    for seed in range(20):
        compare(task, seed, 2_000, random_actions(space, seed), 700)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("task", TASKS)
def test_twenty_seeds_of_a_trained_policy_get_gymnasiums_bits(task: str, tmp_path: Path):
    short = {"total_steps": 60_000, "evaluate_every": 0, "evaluate_episodes": 1}
    config = ES(task, population_size=20, hidden=(16,), noise_table_size=1 << 16, **short)
    policy = train(config, workers="inline", out=tmp_path / "run").policy
    for seed in range(20):
        compare(task, seed, 2_000, policy.act, 700)


@pytest.mark.parametrize("task", TASKS)
def test_a_row_of_several_gets_the_bits_of_a_step(task: str):
    alone, beside = (TASKS[task](gymnasium.make(task).unwrapped) for _ in range(2))
    space = alone.observation_space
    rows, act = np.full((3, *space.shape), 7.0, space.dtype), random_actions(alone.action_space, 2)
    ended, number = True, 0
    for step in range(90):
        if ended:
            alone.reset(seed=number)
            beside.reset(seed=number)
            number += 1
        action = act(None)
        observation, *outcome = alone.step(action)
        if step % 5 == 4:  # the two ways take turns within an episode
            rows[1], *same = beside.step(action)
        else:
            same = beside.advance(action, rows[1])
        assert bits(rows[1]) == bits(observation)
        assert bits(same[0]) == bits(outcome[0])
        ended = outcome[1]
        assert same[1] == ended
        assert (rows[::2] == 7.0).all()


def pair(task: str) -> tuple[Any, Any]:
    """Gymnasium's environment and the lean one, after a reset with one seed."""
    theirs = gymnasium.make(task).unwrapped
    ours = TASKS[task](gymnasium.make(task).unwrapped)
    for environment in (theirs, ours):
        environment.reset(seed=3)
    return theirs, ours


UNUSUAL: dict[str, Any] = {
    "Hopper-v5": [0.1, -0.2, 0.3],
    "Humanoid-v5": [0.1] * 17,
    "Pendulum-v1": [0.5],
    "CartPole-v1": np.int64(1),
    "MountainCar-v0": np.int64(2),
    "Acrobot-v1": np.int64(0),
}


@pytest.mark.parametrize("task", UNUSUAL)
def test_an_action_of_another_form_gets_gymnasiums_bits_and_lean_steps_follow(task: str):
    theirs, ours = pair(task)
    usual = random_actions(theirs.action_space, 5)
    for number in range(8):
        action = UNUSUAL[task] if number % 3 else usual(None)
        step, same = theirs.step(action), ours.step(action)
        assert bits(same[0]) == bits(step[0])
        assert same[1:4] == step[1:4]
        assert bits_of(ours.info()) == bits_of(step[4])


@pytest.mark.parametrize(
    ("task", "action"),
    [
        ("HalfCheetah-v5", np.zeros(5, np.float32)),
        ("HalfCheetah-v5", np.zeros((6, 1), np.float32)),
        ("CartPole-v1", 2),
        ("CartPole-v1", -1),
        ("MountainCar-v0", 3),
        ("Acrobot-v1", 3),
    ],
)
def test_an_action_outside_its_space_is_gymnasiums_error(task: str, action: Any):
    raised = []
    for environment in pair(task):
        with pytest.raises((ValueError, AssertionError, IndexError)) as caught:
            environment.step(action)
        raised.append((type(caught.value), str(caught.value)))
    assert raised[0] == raised[1]


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64])
@pytest.mark.parametrize("task", ["HalfCheetah-v5", "Ant-v5", "Pusher-v5", "Pendulum-v1"])
def test_actions_of_another_dtype_get_gymnasiums_bits(task: str, dtype: Any):
    theirs, ours = pair(task)
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = (rng.uniform(-3, 3, theirs.action_space.shape)).astype(dtype)
        step, same = theirs.step(action), ours.step(action)
        assert bits(same[0]) == bits(step[0])
        assert np.float64(same[1]).tobytes() == np.float64(step[1]).tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("task", [task for task in TASKS if task.endswith("-v5")])
def test_unstable_physics_is_that_of_gymnasium(
    task: str, bad: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warnings there
    theirs, ours = pair(task)
    usual, warned = random_actions(theirs.action_space, 5), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for environment in (theirs, ours):
            environment.unwrapped.data.qvel[-1] = bad
        for number in range(6):
            action = usual(None)
            if number == 3:
                action[0] = bad
            step, same = theirs.step(action), ours.step(action)
            assert bits(same[0]) == bits(step[0])
            assert np.float64(same[1]).tobytes() == np.float64(step[1]).tobytes()
            assert same[2:4] == step[2:4]
            assert bits_of(ours.info()) == bits_of(step[4])
    for environment in (theirs, ours):
        counts = list(environment.unwrapped.data.warning.number)
        warned.append(counts)
    assert warned[0] == warned[1]
    assert sum(warned[0]) > 0


def test_a_pole_that_has_fallen_warns_as_gymnasiums_does():
    seen = []
    for environment in pair("CartPole-v1"):
        while not environment.step(0)[2]:
            pass
        with pytest.warns(UserWarning, match="already returned terminated"):
            after = environment.step(1)
        seen.append((bits(after[0]), after[1:]))
        environment.reset(seed=4)
        seen[-1] += (environment.step(1)[1:],)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("task", ["CartPole-v1", "Acrobot-v1"])
def test_a_step_before_any_reset_is_gymnasiums_error(task: str):
    raised = []
    for environment in (
        gymnasium.make(task).unwrapped,
        TASKS[task](gymnasium.make(task).unwrapped),
    ):
        with pytest.raises(AssertionError) as caught:
            environment.step(0)
        raised.append(str(caught.value))
    assert raised[0] == raised[1]
