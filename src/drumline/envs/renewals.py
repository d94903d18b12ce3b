"""The rule of renewals of EnvPool environments, and the duration of a restore.

A restore steps every environment again from its latest renewal. The speeds are those of one engine
thread on a shared 2-core machine, for the slower environments of each family (ADR 17).
"""

from typing import NamedTuple

from drumline.envs.envpool_package import envpool_with, known_spec
from drumline.envs.football_frames import is_football

RESTORE_SECONDS = 45.0
"""A rule's restore on one thread, at the speeds below."""
MOST_STEPS = 1_000_000
"""Env steps of a journal, whatever the speed: a checkpoint writes them, about 9 bytes each."""
FEWEST_STEPS = 1_000
"""Steps of each environment between two renewals: long enough for usual episodes to end."""
FOOTBALL_STEPS = 65_536
"""Steps of each football environment: a game is never freed, and only the running one replayed."""

_SLOWEST = {"CarRacing": 700.0, "Humanoid": 1_600.0}
"""Env steps per second of ids that begin so and are far slower than their family."""
_FAMILIES = {
    "classic_control": 50_000.0,
    "toy_text": 50_000.0,
    "box2d": 7_000.0,
    "mujoco_gym": 3_000.0,
    "robotics": 4_000.0,
    "vizdoom": 300.0,
}
_OTHERS = 1_000.0  # Atari, highway and families without a measurement


class Restore(NamedTuple):
    """The longest restore of a run."""

    env_steps: int
    seconds: float
    """On one thread."""


def steps_per_second(env_id: str) -> float:
    """Return the env steps a second with which one thread replays an EnvPool environment."""
    for name, speed in _SLOWEST.items():
        if env_id.startswith(name):
            return speed
    family = type(known_spec(envpool_with(env_id), env_id, {})).__mro__[1].__module__
    return next((speed for name, speed in _FAMILIES.items() if name in family), _OTHERS)


def intervals_between_renewals(env_id: str, environments: int, alpha: int) -> int:
    """Return `renew_intervals` of an EnvPool environment that has no preset."""
    if is_football(env_id):
        steps = FOOTBALL_STEPS
    else:
        total = min(MOST_STEPS, RESTORE_SECONDS * steps_per_second(env_id))
        steps = max(FEWEST_STEPS, int(total) // environments)
    return max(1, steps // alpha)


def longest_restore(
    env_id: str, environments: int, alpha: int, renew_intervals: int, total_steps: int
) -> Restore | None:
    """Return the longest restore of an EnvPool run; None for football, which replays one game."""
    if is_football(env_id):
        return None
    steps = renew_intervals * alpha * environments if renew_intervals else total_steps
    steps = min(steps, total_steps)
    return Restore(steps, steps / steps_per_second(env_id))
