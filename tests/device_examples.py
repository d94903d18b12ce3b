"""Learners of configs on a device, intervals to learn from, and what they should come to."""

import dataclasses
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from algorithms.td3_examples import ALL, filled

from drumline.algorithms.first_critics import first_critics_state
from drumline.algorithms.td3 import TD3, TD3Jobs
from drumline.algorithms.td3_steps import TD3Settings
from drumline.functional.torch_devices import refuse_absent
from drumline.policies.actions import sample
from drumline.policies.actor_critic import initial_parameters
from drumline.policies.spec import PolicySpec
from drumline.recipes.actor_critic import parts_of
from drumline.recipes.device_trials import try_actor, try_gradient
from drumline.recipes.hts import HTS
from drumline.recipes.impala import Impala
from drumline.recipes.learners import make_learner
from drumline.recipes.td3_learner import draws_of
from drumline.tasks import GradientJob
from drumline.training.actor_critic_parts import ActorCriticParts
from drumline.types import Rollout, StackedFrames, State

_SMALL: dict[str, Any] = {
    "num_envs": 4,
    "alpha": 8,
    "total_steps": 320,
    "engine": "gymnasium",
    "epochs": 2,
    "minibatches": 2,
    "learning_rate": 1e-2,
    "entropy_coefficient": 0.01,
    "evaluate_episodes": 1,
}
_ROWS = {**_SMALL, "env": "CartPole-v1", "hidden": (8,)}
_CONTROL = {**_SMALL, "env": "Pendulum-v1", "hidden": (8,), "normalize_observations": True}
_OWN_ROWS = {**_SMALL, "env": "CartPole-v1", "network": "actor_critic_networks:RandomFeatures"}
_IMAGES = {**_SMALL, "env": "pixel_environment:make", "network": "nature-cnn"}
CONFIGS: dict[str, Any] = {
    "ppo-mlp": HTS(**_ROWS, scale_rewards=True, target_kl=0.5),
    "ppo-control": HTS(**_CONTROL, correction="decoupled"),
    "ppo-delayed": HTS(**_ROWS, correction="delayed"),
    "ppo-vtrace": HTS(**_ROWS, correction="vtrace"),
    "ppo-own": HTS(**_OWN_ROWS),
    "ppo-images": HTS(**_IMAGES),
    "a2c-mlp": HTS(**_ROWS, learner="a2c", optimizer="rmsprop"),
    "a2c-images": HTS(**_IMAGES, learner="a2c"),
    "a2c-vtrace": HTS(**_IMAGES, learner="a2c", correction="vtrace"),
    "impala-images": Impala(
        env="pixel_environment:make",
        engine="gymnasium",
        network="nature-cnn",
        num_envs=4,
        batch=4,
        alpha=8,
        total_steps=320,
    ),
}
DEVICES = ["cpu:0", pytest.param("cuda", marks=pytest.mark.gpu)]
"""Devices that a test is repeated on."""
FRAMES = "ppo-images"
"""The config whose intervals have every frame once."""


def absent() -> str:
    """The reason why no GPU can be tested here; empty where one can."""
    try:
        refuse_absent("cuda")
    except ValueError as error:
        return str(error)
    return ""


def skip_if_absent(device: str) -> str:
    """The device, which is there."""
    if device == "cuda" and (reason := absent()):
        pytest.skip(reason)
    return device


def near(found: np.ndarray, expected: np.ndarray, *, apart: float = 0.02) -> None:
    """Fail unless all but one number of a thousand agree to rounding, and none is far off.

    Adam divides a gradient by its size: one that is all rounding makes a step of full length.
    """
    assert found.shape == expected.shape
    agree = np.isclose(found, expected, rtol=1e-3, atol=1e-4)
    assert np.mean(agree) >= 0.999, f"{np.count_nonzero(~agree)} of {agree.size} differ"
    np.testing.assert_allclose(found, expected, rtol=0.05, atol=apart)


def parts_on(name: str, device: str) -> ActorCriticParts:
    """The parts of a config on a device, also of one that no user can name."""
    parts = parts_of(CONFIGS[name])
    config = dataclasses.replace(parts.config)
    object.__setattr__(config, "device", device)
    return dataclasses.replace(parts, config=config)


def interval_of(parts: ActorCriticParts, number: int, *, frames: bool) -> Rollout:
    """An interval of made-up observations, acted by the initial parameters on the host."""
    rng = np.random.default_rng(number)
    network, steps, environments = parts.network, parts.config.alpha, parts.config.num_envs
    grid = (steps, environments)
    shape = network.observation_shape
    count = 3
    finals = np.sort(rng.permutation(steps * environments)[:count])
    truncated = np.zeros(grid, bool)
    truncated.reshape(-1)[finals] = True
    final_environments, final_steps = np.nonzero(truncated.T)

    def drawn(*rows: int) -> Any:
        if frames:
            depth, store = shape[0], rng.integers(0, 256, (90, 1, *shape[1:]), np.uint8)
            return StackedFrames(store, rng.integers(20, 70, (*rows, depth)))
        if network.observation_dtype == "|u1":
            return rng.integers(0, 256, (*rows, *shape), np.uint8)
        return rng.standard_normal((*rows, *shape)).astype(network.observation_dtype)

    observations, final = drawn(steps + 1, environments), drawn(count)
    if frames:
        final = final._replace(frames=observations.frames)
    raw = observations.frames[observations.indices][:, :, :, 0] if frames else observations
    inference = dataclasses.replace(parts.inference(), device="cpu")()
    inference.load(published(parts))
    outputs, values = inference(raw[:-1].reshape(-1, *shape))
    noise = rng.random((len(outputs), network.head.noise_size)).astype(np.float32)
    actions, log_probs = sample(network.head, outputs, noise)
    terminated = (rng.random(grid) < 0.1) & ~truncated
    return Rollout(
        number,
        observations,
        actions.reshape(*grid, *network.head.action_shape),
        rng.standard_normal(grid).astype(np.float32),
        terminated,
        truncated,
        log_probs.reshape(grid),
        values.reshape(grid).copy(),
        final_steps.astype(np.int32),
        final_environments,
        final,
    )


def published(parts: ActorCriticParts) -> dict[str, np.ndarray]:
    """The arrays of the version that acts: initial parameters, and moments of something."""
    size = parts.network.observation_size
    moments = {
        "observation_mean": np.linspace(-0.1, 0.1, size),
        "observation_inverse_std": np.linspace(0.9, 1.1, size),
    }
    arrays = {"parameters": initial_parameters(parts.network, 7)}
    return {**arrays, **(moments if parts.network.normalize else {})}


def learned(name: str, device: str, *, through_state: bool = False) -> State:
    """The state after three intervals; `through_state`: with another learner for the last one."""
    parts = parts_on(name, device)
    learner = make_learner(parts, lambda: None)
    for number in range(2, 5):
        if through_state and number == 4:
            state, learner = learner.state(), make_learner(parts, lambda: None)
            learner.load(state)
        rollout = interval_of(parts, number, frames=name == FRAMES)
        metrics = learner.update(rollout, published(parts))
    state = learner.state()
    numbers = np.array([metrics[key] for key in sorted(metrics)])
    return State({**state.tensors, "metrics": numbers}, state.counters)


def acted(name: str, device: str) -> np.ndarray:
    """Outputs and values of the policy in a batch that is padded, and in parts of one."""
    parts = parts_on(name, device)
    inference = dataclasses.replace(parts.inference(), rows=4)()
    inference.load(published(parts))
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 256, (7, *parts.network.observation_shape), np.uint8)
    both = [inference(rows[:3]), inference(rows)]
    return np.concatenate([np.column_stack(pair) for pair in both])


_OWN = PolicySpec(
    4, ALL["continuous"].head, (), module="torch_policies:ShapedMLP", module_shape=(4,)
)
_WITH_CONSTANTS = dataclasses.replace(_OWN, module="actor_critic_networks:RandomFeatures")
STEPS: dict[str, TD3Settings] = {
    **ALL,
    "own": dataclasses.replace(ALL["continuous"], actor=_OWN),
    "own-with-constants": dataclasses.replace(ALL["continuous"], actor=_WITH_CONSTANTS),
}
"""Settings of TD3 whose gradient steps are taken on devices."""


def stepped(name: str, device: str) -> dict[str, np.ndarray]:
    """Everything that TD3's gradient steps come to: online, and as jobs."""
    settings = dataclasses.replace(STEPS[name], device=device)
    replay = filled(settings).replay
    job = GradientJob(5, 60, 11)
    learner = TD3(settings, draws_of(settings, replay), seed=1)
    learner.begin(0)
    for _ in range(6):
        learner.learn(60)
    state, metrics = learner.state(), learner.metrics()
    jobs = TD3Jobs(settings, draws_of(settings, replay))
    refined = jobs.refine(learner.actor.copy(), learner.critics.copy(), job)
    trained, _ = jobs.train_critics(first_critics_state(learner.critics.copy()), refined, job)
    went_on, _ = jobs.learn(state, job)
    return {
        **state.tensors,
        "metrics": np.array([metrics["critic_loss"], metrics["policy_value"]]),
        "refined": refined,
        **{f"trained {key}": array for key, array in trained.tensors.items()},
        **{f"learned {key}": array for key, array in went_on.tensors.items()},
    }


def refusals(device: str) -> list[str]:
    """Refusals of a network, and of an actor, whose constants stay on the host."""
    listed = "actor_critic_networks:ListedConstants"
    network = dataclasses.replace(parts_of(CONFIGS["ppo-own"]).network, network=listed)
    trials = [
        partial(try_gradient, network, device, np.zeros((4, 4), np.float32)),
        partial(try_actor, dataclasses.replace(_OWN, module=listed), device),
    ]
    said: list[str] = []
    for trial in trials:
        try:
            trial()
        except ValueError as error:
            said.append(str(error))
    return said


def _main(out: Path) -> None:
    """Learn on the pretended device, for the process that has it."""
    for name in CONFIGS:
        np.savez(out / f"{name}.npz", **learned(name, "pretend").tensors)
    for name in STEPS:
        np.savez(out / f"td3-{name}.npz", **stepped(name, "pretend"))
    np.save(out / "acted.npy", acted("ppo-images", "pretend"))
    (out / "refusals.json").write_text(json.dumps(refusals("pretend")))


if __name__ == "__main__":
    import pretend_device  # noqa: F401

    _main(Path(sys.argv[1]))
