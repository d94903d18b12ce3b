"""The problem of a run, an environment or an objective: its name, and the words of its numbers."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Words(NamedTuple):
    """Words for what a run counts and measures; its files have the same columns for both."""

    value: str
    """Result of one episode or one call."""
    steps: str
    """Unit of `env_steps`."""
    episodes: str
    """Unit of an evaluation."""


ENVIRONMENT = Words("return", "env steps", "episodes")
OBJECTIVE = Words("objective", "evaluations", "calls")


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
