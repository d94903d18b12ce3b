"""Wrappers with running statistics, which no `reset(seed=…)` sets back."""

from typing import Any

from drumline.envs.interface import CheckedEnvironment

_INSTEAD = {
    "NormalizeObservation": "--normalize-observations (hts, ppo, a2c and impala have it; es and "
    "ars normalise by default)",
    "NormalizeReward": "--scale-rewards (hts, ppo, a2c and impala have it)",
}


def kept_statistics(environment: Any) -> str:
    """Return which of Gymnasium's wrappers keep statistics, and what does the same; else nothing.

    One whose statistics are fixed (`update_running_mean`) keeps none.

    >>> import gymnasium
    >>> kept_statistics(gymnasium.make("CartPole-v1"))
    ''
    """
    import gymnasium

    if isinstance(environment, CheckedEnvironment):
        environment = environment.checked
    found: list[str] = []
    while isinstance(environment, gymnasium.Wrapper):
        found += [
            f"its wrapper {name} keeps statistics from one episode to the next: leave it out, and "
            f"train with {flag}"
            for name, flag in _INSTEAD.items()
            if isinstance(environment, getattr(gymnasium.wrappers, name))
            and getattr(environment, "update_running_mean", True)
        ]
        environment = environment.env
    return "; ".join(found)
