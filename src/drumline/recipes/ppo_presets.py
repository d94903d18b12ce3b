"""Settings of PPO by family of environments, for `hts` and for lock-step PPO beside it."""

from collections.abc import Mapping
from typing import Any

CONTROL: Mapping[str, Any] = {
    # Control tasks: what comes in is brought to scale.
    "normalize_observations": True,
    "scale_rewards": True,
    "renew_intervals": 32,
    "evaluate_every": 250,
    "evaluate_episodes": 10,
}
ATARI: Mapping[str, Any] = {
    "network": "nature-cnn",
    "learner_threads": 2,  # epochs outlast a simulation beside them (measured)
    "total_steps": 10_000_000,
    "learning_rate": 2.5e-4,
    "epochs": 4,
    "minibatches": 4,
    "clip": 0.1,
    "clip_values": True,
    "entropy_coefficient": 0.01,
    "clip_rewards": True,
    "renew_intervals": 256,
    "evaluate_every": 500,
    "evaluate_episodes": 4,
    "evaluate_sample": True,
}
PONG: Mapping[str, Any] = {
    # Tuned on Pong alone: 96 gradient steps for 1,024 env steps, where ATARI has 8.
    **ATARI,
    "learner_threads": 1,  # a minibatch is one microbatch
    "alpha": 64,
    "epochs": 3,
    "minibatches": 32,
    "clip": 0.2,
    "renew_intervals": 512,
    "evaluate_every": 1000,
}
FOOTBALL: Mapping[str, Any] = {
    **ATARI,
    # The paper trained with checkpoints; it reports scores, as every evaluation here does.
    "reward": "scoring-checkpoints",
    "clip_rewards": False,
    "evaluate_episodes": 10,
    "evaluate_sample": False,
    "network": "football-cnn",
    "total_steps": 5_000_000,
    "learning_rate": 3.43e-4,
    "discount": 0.993,
    "epochs": 2,
    "minibatches": 8,
    "clip": 0.08,
    "entropy_coefficient": 0.003,
    "max_gradient_norm": 0.64,
    "renew_intervals": 512,  # an EnvPool game of football is never freed: 44 MB each
    "evaluate_every": 250,
}
