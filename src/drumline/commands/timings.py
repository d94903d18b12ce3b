"""Times of a method's single pieces on this machine, each measured for a fraction of a second."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.functional.layout_speed import StepCosts

SECONDS = 0.3
"""Seconds for which each piece is repeated."""

_REPLAY_ROWS = 10_000
"""Largest number of transitions that a learner is timed with; more would only take memory."""


_LONG = 10.0
"""Multiple of `SECONDS` from which a first call counts: what it does once is small beside it."""


_LEARNED = 2
"""An interval after those that only fill the moments of observations."""


def seconds_each(piece: Callable[[], object]) -> float:
    """Return the mean seconds of a call, after one that is not counted unless it was long."""
    began, count = time.perf_counter(), 0
    piece()
    if (first := time.perf_counter() - began) >= _LONG * SECONDS:
        return first
    began = time.perf_counter()
    while (passed := time.perf_counter() - began) < SECONDS or not count:
        piece()
        count += 1
    return passed / count


def environment_times(spec: Any) -> dict[str, float]:
    """Return the seconds of a step with random actions, and of a reset."""
    from drumline.envs.make import make_environment

    made = make_environment(spec)
    environment = made.environment
    try:
        environment.action_space.seed(0)
        steps = [0.0, 0.0]
        seeds = iter(range(1_000_000))

        def reset() -> None:
            environment.reset(seed=next(seeds))

        resets = seconds_each(reset)
        began = time.perf_counter()
        while time.perf_counter() - began < SECONDS or not steps[1]:
            before = time.perf_counter()
            _, _, terminated, truncated, _ = environment.step(environment.action_space.sample())
            steps[0] += time.perf_counter() - before
            steps[1] += 1
            if terminated or truncated:
                reset()
    finally:
        made.close()
    return {"step_seconds": steps[0] / steps[1], "reset_seconds": resets}


def lane_times(spec: Any) -> dict[str, float]:
    """Return the seconds of one environment's step and restart among its lanes."""
    lanes = spec()
    try:
        space, numbers = lanes.action_space, iter(range(1_000_000))
        space.seed(0)
        start = getattr(space, "start", 0)
        actions = np.stack([np.asarray(space.sample()) - start for _ in range(lanes.count)])
        resets = seconds_each(lambda: lanes.begin(next(numbers)))
        steps = seconds_each(lambda: lanes.step(None, actions))
    finally:
        lanes.close()
    return {"step_seconds": steps / lanes.count, "reset_seconds": resets / lanes.count}


def searched_times(recipe: Any) -> dict[str, float]:
    """Return the seconds of one action of a searched policy."""
    from drumline import seeding
    from drumline.policies.build import build_policy, initial_parameters

    policy = build_policy(recipe.policy)
    rng = seeding.generator(0, "doctor")
    policy.load_vector(initial_parameters(recipe.policy, rng))
    image = recipe.policy.image
    blank = np.zeros(recipe.policy.observation_size, np.float32)
    observation = np.zeros(image, np.uint8) if image else blank
    return {"forward_1_seconds": seconds_each(lambda: policy.act(observation))}


def stream_times(recipe: Any) -> dict[str, float]:
    """Return the seconds of one gradient step of the actor, and of the critics."""
    from drumline.algorithms.first_critics import first_critics_state
    from drumline.algorithms.td3 import TD3Jobs, initial_actor, initial_critics
    from drumline.buffers.replay import TRUNCATED, Replay, ReplayWriter, one_episode
    from drumline.recipes.td3_learner import draws_of, settings_of
    from drumline.tasks import GradientJob

    jobs_of = getattr(recipe, "jobs", None)  # where gradient steps are tasks of a pool
    settings = settings_of(recipe.config, recipe.policy) if jobs_of is None else jobs_of.made()
    rows = 2 * recipe.config.batch_size
    shape = dataclasses.replace(recipe.shape, capacity=rows, slack=1, truncations=2)
    arrays = {name: np.zeros(size, kind) for name, (size, kind) in shape.layout().items()}
    writer = ReplayWriter(Replay(shape, arrays))
    observations = np.zeros((rows + 1, shape.observation_size), np.float32)
    actions = np.zeros((rows, shape.action_size), np.float32)
    writer.append(one_episode(observations, actions, np.zeros(rows, np.float32), TRUNCATED))
    draws = draws_of(settings, Replay(shape, arrays))
    jobs, job = TD3Jobs(settings, draws), GradientJob(4, rows, 0)
    actor, critics = initial_actor(settings, 0), initial_critics(settings, 0)
    state = first_critics_state(critics)
    actor_step = seconds_each(lambda: jobs.refine(actor, critics, job)) / job.steps
    critic_step = seconds_each(lambda: jobs.train_critics(state, actor, job)) / job.steps
    return {"actor_step_seconds": actor_step, "critic_step_seconds": critic_step}


def learner_times(recipe: Any) -> dict[str, float]:
    """Return the seconds of one `learn` of any single-stream recipe's learner."""
    from drumline import seeding
    from drumline.buffers.replay import TRUNCATED, Replay, ReplayWriter, one_episode

    rows = min(recipe.shape.capacity, _REPLAY_ROWS)
    shape = dataclasses.replace(recipe.shape, capacity=rows, slack=1, truncations=2)
    arrays = {name: np.zeros(size, kind) for name, (size, kind) in shape.layout().items()}
    replay = Replay(shape, arrays)
    rng = seeding.generator(0, "doctor-replay")
    observations = rng.standard_normal((rows + 1, shape.observation_size), dtype=np.float32)
    actions = np.zeros((rows, shape.action_size), np.float32)
    rewards = rng.standard_normal(rows, dtype=np.float32)
    ReplayWriter(replay).append(one_episode(observations, actions, rewards, TRUNCATED))
    learner = recipe.learner(replay)
    learner.begin(0)
    seconds = seconds_each(lambda: learner.learn(rows))
    return {"learner_seconds_per_env_step": seconds}  # a block calls it once for each env step


def actor_critic_times(recipe: Any) -> dict[str, float]:
    """Return the seconds of forward passes of 1, 8 and all rows, and of learning per env step."""
    from drumline.policies.actor_critic import initial_parameters

    parts = recipe.parts
    network, count = parts.network, parts.shape.environments
    inference = parts.inference()()
    size = network.observation_size
    inference.load(
        {
            "parameters": initial_parameters(network, 0),
            "observation_mean": np.zeros(size),
            "observation_inverse_std": np.ones(size),
        }
    )
    found: dict[str, float] = {}
    for rows in sorted({1, 8, count}):
        batch = np.zeros((rows, *network.observation_shape), network.observation_dtype)
        found[f"forward_{rows}_seconds"] = seconds_each(lambda batch=batch: inference(batch))
    learner = recipe.learner(parts, lambda: None, 1)
    seconds = _seconds_of_update(learner, parts.shape)
    steps = parts.shape.alpha * count
    return found | {"update_seconds": seconds, "learner_seconds_per_env_step": seconds / steps}


def _seconds_of_update(learner: Any, shape: Any) -> float:
    from drumline.buffers.rollout import RolloutStorage

    arrays = {name: np.zeros(size, kind) for name, (size, kind) in shape.layout().items()}
    rollout = RolloutStorage(shape, arrays).read(_LEARNED)
    behavior = {name: array.copy() for name, array in learner.published().items()}
    return seconds_each(lambda: learner.update(rollout, behavior))


def step_costs(times: dict[str, float], rows: int) -> StepCosts:
    """Return the costs of an env step if `rows` environments share a forward pass."""
    return StepCosts(
        times["step_seconds"],
        times[f"forward_{rows}_seconds"] / rows,
        times.get("learner_seconds_per_env_step", 0.0),
    )
