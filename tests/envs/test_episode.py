"""The episode loop: what is not finite ends it, wherever the policy would hide it."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from late_fault_environment import REWARDS

from drumline.envs.environment import EnvironmentProblem
from drumline.envs.episode import EpisodeLoop, NonFinite
from drumline.envs.episode_stack import Beginning, EpisodeStack
from drumline.envs.frame_skip import FrameSkip
from drumline.policies.build import build_policy
from drumline.policies.heads import Head
from drumline.policies.spec import PolicySpec
from drumline.policies.stacked_mlp import StackedMLP

TWO = Head("discrete", choices=2)
LARGE = {"f2": 6e4, "f4": 3e38, "f8": 1.7e308}
"""Largest numbers, nearly, whose squares are infinite."""


class Spiked(gymnasium.Env[Any, Any]):
    """Ends after six steps; one number of its third observation is as it is told."""

    action_space: Any = gymnasium.spaces.Discrete(2)

    def __init__(self, spike: float, shape: tuple[int, ...] = (3,), dtype: str = "f4"):
        kind = np.dtype(dtype)
        low, high = (-np.inf, np.inf) if kind.kind == "f" else (0, np.iinfo(kind).max)
        self.observation_space = gymnasium.spaces.Box(low, high, shape, kind.type)
        self.shape, self.dtype = shape, kind
        self.spike = spike
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin."""
        super().reset(seed=seed)
        self.steps = 0
        return self.observed(), {}

    def step(self, action: Any) -> Any:
        """Count."""
        self.steps += 1
        return self.observed(), 1.0, self.steps == 6, False, {}

    def advance(self, action: Any, observation: np.ndarray) -> tuple[float, bool]:
        """Count, as one of several side by side."""
        observation[:], reward, terminated, _, _ = self.step(action)
        return reward, terminated

    def observed(self) -> np.ndarray:
        """Return ones, with the spike in its turn."""
        observation = np.ones(self.shape, self.dtype)
        if self.steps == 3:
            observation.reshape(-1)[-1] = self.spike
        return observation


def quiet(_: Any) -> None:
    pass


def run(environment: Spiked, *, keep: bool = False, **network: Any) -> Any:
    size = int(np.prod(environment.shape))
    policy = build_policy(PolicySpec(size, TWO, **{"hidden": (4,), **network}))
    policy.load_vector(np.full(policy.parameter_count, 0.1, np.float32))
    loop = EpisodeLoop(environment, policy, "spiked")
    return loop.run(5, 0, keep_observations=keep, progress=quiet, withdrawn=lambda: False)


@pytest.mark.parametrize("shape", [(), (3,), (3, 2), (40,)])
@pytest.mark.parametrize("spike", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("keep", [True, False])
def test_an_observation_that_is_not_finite_ends_the_episode_with_its_step(
    shape: tuple[int, ...], spike: float, normalize: bool, keep: bool
):
    said = f"observation is {'NaN' if spike != spike else 'inf'} in spiked, episode seed 5, step 3"
    # A policy multiplies infinity where rows are checked at the end; AVX-512's kernels warn then.
    with pytest.raises(NonFinite, match=said), np.errstate(invalid="ignore"):
        run(Spiked(spike, shape), keep=keep, normalize=normalize)


@pytest.mark.parametrize("shape", [(), (3,), (3, 2), (40,)])
@pytest.mark.parametrize("dtype", LARGE)
def test_large_finite_observations_are_allowed(shape: tuple[int, ...], dtype: str):
    with np.errstate(over="ignore"):  # a policy casts float64 to float32
        assert run(Spiked(-LARGE[dtype], shape, dtype)).length == 6


def test_whole_numbers_are_finite():
    assert run(Spiked(255.0, (5, 4), "u1")).length == 6
    assert run(Spiked(2.0**62, (5,), "i8")).length == 6


def test_a_nan_in_a_later_output_of_a_network_of_ones_own_ends_the_episode():
    own: dict[str, Any] = {"module": "torch_policies:LastIsNaN", "normalize": False}
    assert run(Spiked(2.0, (1,)), **own).length == 6
    with pytest.raises(NonFinite, match=r"output is NaN in spiked, episode seed 5, step 3; its"):
        run(Spiked(3.0, (1,)), **own)


class Penalised(Spiked):
    """Gives a penalty whose square is no number."""

    def step(self, action: Any) -> Any:
        """Count."""
        observation, _, *others = super().step(action)
        return observation, -1e200, *others


def test_a_return_that_has_no_deviation_ends_the_episode_and_the_stack():
    with pytest.raises(NonFinite, match=r"spiked, episode seed 5, step 0: the return is -1e\+200"):
        run(Penalised(1.0))
    policy = StackedMLP(PolicySpec(3, TWO, (4,)), 1)
    beginning = Beginning(1, 0, lambda vector: vector.fill(0.1), None, False)
    side_by_side: list[Any] = [Penalised(1.0, dtype="f8")]
    with pytest.raises(NonFinite, match="the return is"):
        EpisodeStack(side_by_side, policy).run(
            [beginning], count_signs=False, probe=quiet, progress=quiet, withdrawn=lambda: False
        )


class OtherwiseFormed(Spiked):
    """Returns something else as its third observation, as it may after its first episode."""

    def __init__(self, other: Any, shape: tuple[int, ...], dtype: str = "f4"):
        super().__init__(1.0, shape, dtype)
        self.other = other

    def observed(self) -> Any:
        """Return ones, and the other thing in its turn."""
        return self.other if self.steps == 3 else super().observed()


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("other", [(1,), (0,), (6,), (3, 3)])
@pytest.mark.parametrize(("shape", "dtype"), [((3,), "f4"), ((40,), "f4"), ((5, 4), "u1")])
def test_an_observation_of_another_size_ends_the_episode_with_its_step(
    shape: tuple[int, ...], dtype: str, other: tuple[int, ...], normalize: bool, keep: bool
):
    said = (
        r"of shape \[{}\] in spiked, episode seed 5, step 3, but the observation_space has \[{}\]"
    )
    said = said.format(*(", ".join(map(str, each)) for each in (other, shape)))
    with pytest.raises(EnvironmentProblem, match=said):
        run(OtherwiseFormed(np.ones(other, dtype), shape, dtype), keep=keep, normalize=normalize)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    ("other", "said"), [(None, "a NoneType in"), (np.array(["a"] * 3), "an array of <U1 in")]
)
def test_what_is_no_array_of_numbers_ends_the_episode_with_its_step(
    other: Any, said: str, keep: bool
):
    with pytest.raises(EnvironmentProblem, match=f"{said} spiked, episode seed 5, step 3"):
        run(OtherwiseFormed(other, (3,)), keep=keep)


class OtherwiseRewarded(Spiked):
    """Returns something else as its third reward."""

    def __init__(self, reward: Any):
        super().__init__(1.0)
        self.reward = reward

    def step(self, action: Any) -> Any:
        """Count."""
        observation, reward, *others = super().step(action)
        return observation, self.reward if self.steps == 3 else reward, *others


@pytest.mark.parametrize("frames", [1, 2])
@pytest.mark.parametrize("name", REWARDS)
def test_a_reward_that_is_no_number_ends_the_episode_with_its_step(name: str, frames: int):
    reward, said = REWARDS[name]
    rewarded: Any = OtherwiseRewarded(reward)
    with pytest.raises(EnvironmentProblem, match=f"the reward is {said}") as told:
        run(rewarded if frames == 1 else FrameSkip(rewarded, frames, 0))
    assert f"in spiked, episode seed 5, step {2 // frames}" in str(told.value)


class LaterRows(Spiked):
    """Returns rows `[1, D]`, as an environment may after its first episode, which is checked."""

    def step(self, action: Any) -> Any:
        """Count."""
        observation, *others = super().step(action)
        return observation[None], *others


def test_rows_are_looked_at_too():
    assert run(LaterRows(1.0)).length == 6
    with pytest.raises(NonFinite):
        run(LaterRows(np.inf))


def stacked(spikes: list[float]) -> list[Any]:
    environments: list[Any] = [Spiked(spike, dtype="f8") for spike in spikes]
    policy = StackedMLP(PolicySpec(3, TWO, (4,)), len(spikes))
    beginnings = [
        Beginning(seed, 0, lambda vector: vector.fill(0.1), None, False) for seed in (1, 2)
    ]
    return EpisodeStack(environments, policy).run(
        beginnings, count_signs=False, probe=quiet, progress=quiet, withdrawn=lambda: False
    )


@pytest.mark.parametrize("spike", [np.inf, -np.inf, np.nan])
def test_one_observation_that_is_not_finite_ends_the_stack(spike: float):
    with pytest.raises(NonFinite):
        stacked([1.0, spike])


def test_large_finite_observations_are_allowed_in_a_stack():
    with np.errstate(over="ignore"):
        assert [episode.length for episode in stacked([1.0, 1.7e308])] == [6, 6]
