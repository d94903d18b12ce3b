"""A page that shows how far a campaign is: each run as a square, and the scores of ended ones."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Literal

from campaign_queue import Group, Run, State

Row = Mapping[str, str]
Shown = State | Literal["missed"]
"""A run that is done has missed the score of its group if its best one is lower."""
COLOURS: dict[Shown, str] = {
    "done": "#2e7d32",
    "missed": "#ef6c00",
    "running": "#1565c0",
    "begun": "#90caf9",
    "failed": "#c62828",
    "skipped": "#8d6e63",
    "waiting": "#f0e0a0",
    "not begun": "#d0d0d0",
}
_STYLE = """body{font:14px system-ui,sans-serif;margin:2em;color:#222}
table{border-collapse:collapse}td,th{padding:.3em .8em;text-align:left;border-bottom:1px solid #ddd}
i{display:inline-block;width:1em;height:1em;margin-right:.2em;vertical-align:middle}
td:last-child{font-variant-numeric:tabular-nums}"""


def page(
    groups: Sequence[Group],
    states: Mapping[str, State],
    hours_left: Mapping[str, float],
    runs: Sequence[Row],
) -> str:
    """Return an HTML page without anything from elsewhere."""
    key = " ".join(f"{_square(state)}{state}" for state in COLOURS)
    total = sum(hours_left.values())
    body = "".join(_line(group, states, hours_left[group.name], runs) for group in groups)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Campaign</title>'
        f"<style>{_STYLE}</style><h1>Campaign</h1><p>{key}</p>"
        f"<p>{total:.1f} core hours left.</p><table><tr><th>runs</th><th>method</th>"
        "<th>environment</th><th>seeds</th><th>final scores</th><th>core hours left</th></tr>"
        f"{body}</table></html>\n"
    )


def _line(group: Group, states: Mapping[str, State], left: float, runs: Sequence[Row]) -> str:
    mine = [row for row in runs if row["group"] == group.name]
    finals = {row["seed"]: row["final_mean"] for row in mine}
    missed = {
        row["seed"]
        for row in mine
        if group.score is not None and float(row["best_mean"]) < group.score
    }
    shown: dict[int, Shown] = {seed: states[Run(group, seed).name] for seed in group.seeds}
    for seed, state in shown.items():
        if state == "done" and str(seed) in missed:
            shown[seed] = "missed"
    squares = "".join(_square(state, f"seed {seed}: {state}") for seed, state in shown.items())
    scores = ", ".join(finals.get(str(seed), "–") for seed in group.seeds) if finals else ""
    cells = [group.name, group.method, group.env]
    return (
        "<tr>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + f"<td>{squares}</td><td>{escape(scores)}</td><td>{left:.1f}</td></tr>"
    )


def _square(state: Shown, title: str = "") -> str:
    return f'<i style="background:{COLOURS[state]}" title="{escape(title or state)}"></i>'
