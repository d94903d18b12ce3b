"""First state of TD3's critics, for drivers that do not import torch."""

import numpy as np

from drumline import seeding
from drumline.policies.mlp import uniform_vector
from drumline.types import State


def first_critics(sizes: tuple[int, ...], seed: int) -> State:
    """Return the state of two critics at their first parameters."""
    return first_critics_state(
        np.stack(
            [uniform_vector(sizes, seeding.generator(seed, "initial-critic", k)) for k in range(2)]
        )
    )


def first_critics_state(critics: np.ndarray) -> State:
    """Return the initial state of critics `[K, P]`: equal targets, zero moments of Adam."""
    zeros = np.zeros(critics.size, np.float32)
    return State(
        {
            "critics": critics.copy(),
            "target_critics": critics.copy(),
            "critic_adam_first": zeros,
            "critic_adam_second": zeros.copy(),
        },
        {"critic_steps": 0},
    )
