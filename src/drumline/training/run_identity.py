"""Names of a run, for its display and its files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drumline.runs.problem import Words


@dataclass(frozen=True)
class RunIdentity:
    """Names of a run, and the description in its policy files."""

    method: str
    env_id: str
    seed: int
    total_steps: int
    words: Words
    described: Mapping[str, Any]
    """Description in policy-*.json from which environment and policy, or an objective, are made
    again."""
    layout_words: str
    """Description of the run's processes."""
    limited: bool = False
    """Whether a time limit of the environment is known."""
