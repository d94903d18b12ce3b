"""Presets of OpenAI-ES: settings for an environment, and those that were published."""

from drumline.recipes.environment_families import PUBLISHED_GAMES
from drumline.recipes.families import Fields
from drumline.recipes.method import Presets

_TINY = {
    "std": 0.1,
    "learning_rate": 0.03,
    "weight_decay": 0.0,
    "obs_stat_probability": 1.0,
    "hidden": (16, 16),
    "evaluate_every": 250,
}

_CONTROL = {"std": 0.05, "learning_rate": 0.02, "obs_stat_probability": 0.2}

_ATARI = {
    "policy": "a3c-cnn",
    "std": 0.005,
    "population_size": 40,
    "max_episode_steps": 5000,
    "evaluate_every": 20,
    "evaluate_episodes": 10,
    "total_steps": 3_000_000,
}
"""σ, step size, weight decay and network as published for a game (Such et al. 2017's code)."""
_ATARI_PAPER = {
    **_ATARI,
    "population_size": 5000,
    "generation_env_steps": 10_000,
    "total_steps": 250_000_000,
    "noise_table_size": 250_000_000,
}
"""Atari with the published size of a generation, and 10⁹ frames."""


def _of_games(preset: Fields) -> dict[str, Fields]:
    """Return a preset for each of the 51 games, with EnvPool's ids and with Gymnasium's."""
    return {f"{prefix}{name}-v5": preset for prefix in ("", "ALE/") for name in PUBLISHED_GAMES}


PRESETS: Presets = {
    "CartPole-v1": {**_TINY, "total_steps": 200_000, "action_noise_std": 0.0},
    "Pendulum-v1": {**_TINY, "total_steps": 2_000_000},
    "InvertedPendulum-v5": {**_TINY, "total_steps": 1_000_000},
    # With σ = 0.05 a policy that stands is surrounded by policies that fall after 100 steps.
    "InvertedDoublePendulum-v5": {
        **_CONTROL,
        "std": 0.02,
        "learning_rate": 0.01,
        "tie_tolerance": 0.001,
        "total_steps": 5_390_000,
    },
    "Swimmer-v5": {**_CONTROL, "total_steps": 1_390_000, "action_bins": "uniform:10"},
    # With the whole bonus for not falling a policy that stands still is the best one around.
    "Hopper-v5": {
        **_CONTROL,
        "reward_shift": 0.5,
        "total_steps": 31_600_000,
        "action_bins": "uniform:10",
    },
    "HalfCheetah-v5": {**_CONTROL, "total_steps": 2_880_000},
    "Walker2d-v5": {**_CONTROL, "reward_shift": 1.0, "total_steps": 37_900_000},
    "Ant-v5": {**_CONTROL, "total_steps": 10_000_000},
    "Humanoid-v5": {
        "total_steps": 50_000_000,
        "population_size": 200,
        "hidden": (256, 256),
        "obs_stat_probability": 0.05,
    },
    **_of_games(_ATARI),
}

PAPER: Presets = {
    # The released configuration of the humanoid's scaling figure.
    "Humanoid-v5": {
        "total_steps": 1_000_000_000,
        "population_size": 10_000,
        "generation_env_steps": 100_000,
        "hidden": (256, 256),
        "obs_stat_probability": 0.01,
        "noise_table_size": 250_000_000,
        "evaluate_every": 20,
    },
    **_of_games(_ATARI_PAPER),
}
"""`--preset paper`."""
