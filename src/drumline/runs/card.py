"""The run card: one page with the promise first, then the settings, then the outcome."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drumline.runs.atomic_files import replace_file
from drumline.runs.folder import RunFolder
from drumline.runs.problem import words_of
from drumline.runs.safe_text import markdown, markdown_paragraph, visible
from drumline.types import EvaluationRow, Metrics


@dataclass(frozen=True)
class RunCard:
    """Contents of the run card."""

    promise: str
    """The promise, or `no promise: …` with the reason."""
    method: str
    env_id: str
    seed: int
    config: Mapping[str, Any]
    verify_command: str
    layout: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=dict)
    """Metrics of the last update."""
    best_evaluation: EvaluationRow | None = None
    largest_drawdown: float | None = None
    """Largest fall of an evaluation's mean below the best mean before it, in units of return."""
    fingerprint: str = ""
    """Head of the hash chain: equal runs have equal heads."""


def write_card(folder: RunFolder, card: RunCard) -> None:
    """Write card.md; replaces an earlier one.

    In a locale without UTF-8, the bytes of a path that it cannot decode are written as they are.
    """
    replace_file(folder.card_md, card_text(card).encode(errors="surrogateescape"))


def card_text(card: RunCard) -> str:
    """Return the card in Markdown; the promise comes first."""
    title = f"# {markdown(card.method)} on {markdown(card.env_id)}, seed {card.seed}"
    sections = [
        markdown_paragraph(card.promise),
        title,
        _table("Outcome", _outcome(card)),
        f"To check it:\n\n    {visible(card.verify_command)}",
        _table("Config", card.config),
        _table("Layout (changes no number)", card.layout),
        _table("Versions", card.versions),
        _table("Machine", card.machine),
        _table("Last metrics", card.metrics),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _outcome(card: RunCard) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    best = card.best_evaluation
    if best is not None:
        mean = sum(best.returns) / len(best.returns)
        words = words_of(card.config)
        rows["best evaluation"] = (
            f"mean {words.value} {mean:.6g} over {len(best.returns)} {words.episodes}, "
            f"at update {best.update} ({best.env_steps} {words.steps})"
        )
    if card.largest_drawdown is not None:
        rows["largest drawdown"] = f"{card.largest_drawdown:.6g} below the best evaluation so far"
    if card.fingerprint:
        rows["fingerprint"] = card.fingerprint
    return rows


def _table(heading: str, rows: Mapping[str, Any]) -> str:
    if not rows:
        return ""
    lines = [f"## {heading}", "", "| | |", "|---|---|"]
    lines += [f"| {_cell(name)} | {_cell(value)} |" for name, value in rows.items()]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return markdown(text.replace("\n", " "))
