"""Presets of AES-RL: ours, and those of its release."""

from drumline.recipes.method import Presets

_SMALL = {
    "warmup_steps": 1_000,
    "total_steps": 50_000,
    "replay_size": 50_000,
    "hidden": (64, 64),
    "evaluate_every": 10,
}

_OURS: Presets = {
    # r is ours, and so is b: -r, but below what a random policy gets, or `absolute` stays put.
    "InvertedPendulum-v5": {
        **_SMALL,
        "fitness_range": 160.0,
        "fitness_baseline": -160.0,
        "env_step_cost": 90_000,
    },
    "Pendulum-v1": {
        **_SMALL,
        "fitness_range": 250.0,
        "fitness_baseline": -2000.0,
        "env_step_cost": 45_000,
        "least_env_steps": 200,
    },
    "CartPole-v1": {
        **_SMALL,
        "fitness_range": 80.0,
        "fitness_baseline": -80.0,
        "env_step_cost": 40_000,
    },
    "LunarLander-v3": {
        **_SMALL,
        "total_steps": 200_000,
        "fitness_range": 50.0,
        "fitness_baseline": -500.0,
        "env_step_cost": 80_000,
    },
}
PAPER: Presets = {
    # r and b of the release's config files; its command-line script has r = 2000 for Hopper
    # and 960 for Walker2d and Swimmer; it is not known which of them the paper used.
    "HalfCheetah-v5": {
        "fitness_range": 2000.0,
        "fitness_baseline": -2000.0,
        "least_env_steps": 1000,
    },
    "Hopper-v5": {"fitness_range": 600.0, "fitness_baseline": -600.0},
    "Walker2d-v5": {"fitness_range": 800.0, "fitness_baseline": -800.0},
    "Swimmer-v5": {
        "fitness_range": 48.0,
        "fitness_baseline": -48.0,
        "p_desired": 0.1,
        "least_env_steps": 1000,
    },
    "Ant-v5": {
        "fitness_range": 960.0,
        "fitness_baseline": -960.0,
        "env_step_cost": 400_000,
    },
    "Humanoid-v5": {
        "fitness_range": 960.0,
        "fitness_baseline": -960.0,
        "hidden": (256, 256),
        "learning_rate": 3e-4,
        "env_step_cost": 550_000,
    },
}
"""`--preset paper`: the rules and numbers of the release."""
_OF_AES_ALONE = ("p_desired", "hidden", "learning_rate")
PAPER_OF_OTHERS: Presets = {
    env: {name: value for name, value in fields.items() if name not in _OF_AES_ALONE}
    for env, fields in PAPER.items()
}
"""The same of `acem-rl` and `one-plus-one`: there these three are alike on all tasks."""

_COMMON = {"critic_lag": 1_000, "batch_size": 100}
_CHAIN = {
    **_COMMON,
    "mean_rule": "full-move",
    "variance_rule": "one-fifth",
    "refined_from": "newest",
    "actor_steps_scale": 0.15,
    "concurrency": 2,
}
_RELU = {"activation": "relu", "critic_activation": "relu"}
_LINEAR = {
    **_COMMON,
    "mean_rule": "linear",
    "range_spread": 2.0,
    "actor_steps_scale": 0.1,
}
_TUNED = {"HalfCheetah-v5": {**_CHAIN, **_RELU}, "Hopper-v5": _CHAIN, "Walker2d-v5": _LINEAR}
"""Chosen on tuning seeds (docs/measured/tuning.md)."""

RELEASED_RULES: Presets = {**_OURS, **PAPER_OF_OTHERS}
"""Presets of methods with rules of their own."""

PRESETS: Presets = {
    **_OURS,
    **PAPER,
    **{env: {**PAPER[env], **tuned} for env, tuned in _TUNED.items()},
}
"""Presets without `--preset`."""
