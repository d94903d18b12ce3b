"""The problem of a run, an environment or an objective: its name, and the words of its numbers."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Words(NamedTuple):
    """Words for what a run counts and measures; its files have the same columns for both."""

    value: str
    """Result of one episode or one call."""
    values: str
    steps: str
    """Unit of `env_steps`."""
    episodes: str
    """Unit of an evaluation."""
    value_axis: str
    steps_axis: str


ENVIRONMENT = Words(
    value="return",
    values="returns",
    steps="env steps",
    episodes="episodes",
    value_axis="episode return",
    steps_axis="env steps (agent decisions in training)",
)
OBJECTIVE = Words(
    value="objective",
    values="values of the objective",
    steps="values",
    episodes="calls",
    value_axis="objective",
    steps_axis="values (one for each seed, in training)",
)


def has_objective(config: Mapping[str, Any]) -> bool:
    """Return whether a run's config has an objective in place of an environment."""
    return not config.get("env") and bool(config.get("objective"))


def problem_of(config: Mapping[str, Any]) -> str:
    """Return the id of a run's environment, or the name of its objective.

    >>> problem_of({"env": "", "objective": "digits:accuracy"})
    'digits:accuracy'
    """
    return str(config["objective"] if has_objective(config) else config["env"])


def words_of(config: Mapping[str, Any]) -> Words:
    """Return the words for a run's numbers.

    >>> words_of({"env": "CartPole-v1"}).value
    'return'
    """
    return OBJECTIVE if has_objective(config) else ENVIRONMENT


def words_together(each: Iterable[Words]) -> Words:
    """Return the words for several runs; those of environments where the runs differ."""
    found = set(each)
    return OBJECTIVE if found == {OBJECTIVE} else ENVIRONMENT
