"""A run that another library trained: its document and curves, as those of a run of ours."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drumline.display.run_data import RunCurve
from drumline.display.thinned_rows import ThinnedRows
from drumline.runs.run_error import RunError

LATEST = 100
"""Training episodes whose mean return is a point of the curve, as Stable-Baselines3 logs it."""

UNKNOWN = "unknown environment"

_NUMBERED = re.compile(r"[-_.](?:seed|run|s)?[-_]?\d+$")
"""The ending that tells seeds of one setting apart: ppo_2, ppo-seed3."""
_VALUE = re.compile(r"\d(?:\.|e-)\d+$")
"""The ending that is a setting's value: ppo_lr_0.001, ppo-1e-3."""


class Episode(NamedTuple):
    """A training episode as a log has it, at its end."""

    env_steps: float
    wall_seconds: float
    episode_return: float


class Evaluations(NamedTuple):
    """Evaluations `[M]` as a log has them."""

    env_steps: np.ndarray
    mean: np.ndarray
    standard_error: np.ndarray


class ForeignRun(NamedTuple):
    """One run: what `grouped` takes as its document, and its curves."""

    document: dict[str, Any]
    curve: RunCurve


def without_number(name: str) -> str:
    """Return a name without the number that tells its seeds apart.

    >>> without_number("ppo_2"), without_number("a2c-seed3"), without_number("CartPole-v1")
    ('ppo', 'a2c', 'CartPole-v1')
    >>> without_number("ppo_lr_0.001"), without_number("ppo-1e-3_2")
    ('ppo_lr_0.001', 'ppo-1e-3')
    """
    return name if _VALUE.search(name) else _NUMBERED.sub("", name) or name


def curve_of_episodes(
    path: Path, episodes: Iterable[Episode], evaluations: Evaluations | None = None
) -> RunCurve:
    """Return the curve of a run: the mean return of its latest 100 episodes at every end."""
    kept = ThinnedRows(3)
    for index, row in enumerate(_running(episodes)):
        kept.add(index, row)
    env_steps, wall_seconds, means = kept.columns()
    if not env_steps.size:
        raise RunError(f"{path} has no ended episode yet: nothing to compare")
    none = np.zeros(0)
    found = evaluations or Evaluations(none, none, none)
    return RunCurve(
        label=path.name,
        env_steps=env_steps,
        wall_seconds=wall_seconds,
        episode_return_mean=means,
        evaluation_env_steps=found.env_steps,
        evaluation_wall_seconds=np.interp(found.env_steps, env_steps, wall_seconds),
        evaluation_mean=found.mean,
        evaluation_standard_error=found.standard_error,
    )


def _running(episodes: Iterable[Episode]) -> Iterator[Episode]:
    latest: deque[float] = deque(maxlen=LATEST)
    seconds = 0.0
    for episode in episodes:
        latest.append(episode.episode_return)
        seconds = max(seconds, episode.wall_seconds)  # a run that went on began its clock anew
        yield Episode(episode.env_steps, seconds, sum(latest) / len(latest))
