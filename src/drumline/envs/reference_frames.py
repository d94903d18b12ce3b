"""The reference batch of virtual batch normalisation: observations of random play."""

import copy
from contextlib import closing

import numpy as np

from drumline import seeding
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.make import make_environment
from drumline.functional.torch_threads import one_torch_thread

EVERY = 8
"""Env steps from one kept observation to the next: neighbours are nearly the same picture."""


@one_torch_thread()
def fill_with_random_play(frames: np.ndarray, spec: EnvironmentSpec, seed: int) -> None:
    """Fill `frames`, `[N, *observation shape]` or `[N, D]`, from episodes of random actions.

    They are a function of the environment and the seed, so that every machine finds the same.
    """
    made = make_environment(spec)
    with closing(made), seeding.kept_globals():
        environment = made.environment
        actions = copy.deepcopy(environment.action_space)
        actions.seed(seeding.seeds(seed, 1, "reference-action")[0])
        length = episodes = 0
        ended = True
        for place in range(len(frames)):
            observation = None
            for _ in range(EVERY):
                if ended:
                    reset = seeding.seeds(seed, 1, "reference-episode", episodes)[0]
                    seeding.seed_globals(reset)
                    environment.reset(seed=reset)
                    length, episodes = 0, episodes + 1
                observation, _, terminated, truncated, _ = environment.step(actions.sample())
                length += 1
                ended = bool(terminated or truncated or length == made.limit)
            frames[place] = np.asarray(observation).reshape(frames.shape[1:])
