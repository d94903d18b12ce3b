"""The flags of a method that people use, by topic; `--help-all` shows every flag."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any

TOPICS: dict[str, tuple[str, ...]] = {
    "length and seed": ("total_steps", "seed"),
    "environment": ("max_episode_steps",),
    "learning": (
        "population_size",
        "std",
        "num_envs",
        "alpha",
        "learning_rate",
        "batch_size",
        "concurrency",
        "initial_variance",
        "elites",
        "top_directions",
    ),
    "evaluations": ("evaluate_every",),
    "processes": ("workers",),
    "output": ("out", "quiet"),
}
"""Heading → fields, the most used first. Of the topic learning a page has three at most."""

_LEARNING = 3
_WIDTH = 80


OBJECTIVE_FIELDS = ("dimensions", "initial", "seeds_per_call")
"""Fields that stand in place of those of environments where an objective is searched."""


def flag_page(names: str, parts: Mapping[str, Any]) -> str:
    """Return ten flags of `drumline train` by topic, with the defaults of the parts' fields."""
    lines = [f"usage: drumline train {names} [flags]"]
    values = {
        field.name: (getattr(part, field.name), words_of(type(part)).get(field.name, ""))
        for part in parts.values()
        for field in dataclasses.fields(part)
    }
    searches = bool(values.get("objective", ("", ""))[0])
    for topic, of_topic in TOPICS.items():
        heading, fields = (topic, of_topic)
        if topic == "environment" and searches:
            heading, fields = "objective", OBJECTIVE_FIELDS
        there = [name for name in fields if name in values]
        lines += ["", heading]
        for name in there[: _LEARNING if heading == "learning" else None]:
            value, words = values[name]
            lines += _entry(name, value, words)
    lines += ["", f"every flag: drumline train {names} --help-all"]
    return "\n".join(lines) + "\n"


def words_of(kind: type) -> dict[str, str]:
    """Return the docstring below each field of a dataclass, those of its bases included."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        found |= _words_in(each)
    return found


@cache  # reading a class's source takes 10 ms, and every field of a page asks for it
def _words_in(kind: type) -> dict[str, str]:
    """Return the docstring below each field in the source of one class."""
    found: dict[str, str] = {}
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError, ValueError):  # its source is not at hand
        return found
    assert isinstance(tree, ast.ClassDef)
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = below.value if isinstance(below, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[field.target.id] = " ".join(text.value.split())
    return found


def _entry(name: str, value: object, words: str) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    shown = "" if value is None or isinstance(value, bool) else str(value)
    start = f"  {flag:<22}{shown:<10} "
    return textwrap.wrap(f"{start}{words}", _WIDTH, subsequent_indent=" " * 35) or [start]
