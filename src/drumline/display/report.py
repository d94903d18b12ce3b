"""One HTML page about one or several runs, which needs no other file.

Its only script is report.js, which draws the timelines; the page's policy forbids any other.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape as escape_html
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drumline.display.comparison import (
    Group,
    Score,
    comparison_figure,
    definitions,
    final_quantity,
    grouped,
    of_fewer,
    quantity,
    score_at,
    steadiness,
)
from drumline.display.contributions import Individuals, contributions_figure, read_individuals
from drumline.display.glyphs import duration
from drumline.display.glyphs import score as written
from drumline.display.plots import curves_figure, picture_of
from drumline.display.run_data import RunCurve, last_returns, read_columns, read_run
from drumline.display.speed import Speed, speed_of
from drumline.display.timeline import bottleneck, drawn, judged, read_tracks, shares
from drumline.functional.stability import stability
from drumline.functional.statistics import mean_interval
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.problem import problem_of, words_together
from drumline.runs.safe_text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Check(NamedTuple):
    """One fact about the promise of a run; `holds` is None if it was not checked."""

    holds: bool | None
    words: str


@dataclass(frozen=True)
class ReportedRun:
    """A run with the facts that were checked about it."""

    folder: RunFolder
    document: Mapping[str, Any]
    """The run's config.json, with defaults for settings that are newer than the run."""
    checks: tuple[Check, ...]
    again: str = ""
    """Commands that make the same run, a line each; empty if they are not known."""


def report_page(runs: Sequence[ReportedRun], command: str) -> str:
    """Return the page; `command` is the command that makes it."""
    if not runs:
        raise ValueError("no runs to report")
    curves = [read_run(run.folder.path) for run in runs]
    documents = [run.document for run in runs]
    groups = grouped(list(zip(documents, curves, strict=True)))
    title = " · ".join(
        dict.fromkeys(f"{d['method']} on {problem_of(d['config'])}" for d in documents)
    )
    seeds = ", ".join(dict.fromkeys(str(d["config"]["seed"]) for d in documents))
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    body = [
        f"<h1>{_inert(title)}</h1>",
        f'<p class="sub">{count}, seed{"s" if "," in seeds else ""} {_inert(seeds)}</p>',
        _section("Outcome", _outcome(runs, curves)),
        _section("Curves", _curves(documents, curves, groups)),
        _section("Groups", _groups(groups) if len(runs) > 1 else ""),
        _section("Contribution of either kind of individual", _contributions(runs)),
        _section("Where the time went", "".join(_timeline(run) for run in runs)),
        _section("Speed, lag and batches", _speed(runs)),
        _section("Settings", _settings([d["config"] for d in documents], runs)),
        _section("Machine", _folded("all facts", _machine(documents, runs))),
        _section("The promise", "".join(_promise(run) for run in runs)),
        _section("The same again", "".join(_again(run) for run in runs)),
        f'<p class="sub">This page: <code>{_inert(command)}</code></p>',
    ]
    policy = f"default-src 'none';img-src data:;style-src {_hash('css')};script-src {_hash('js')}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_inert(title)}</title><style>{_asset('css')}</style></head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + f"\n<script>{_asset('js')}</script>\n</body></html>\n"
    )


@cache
def _asset(kind: str) -> str:
    return (files("drumline.display") / f"report.{kind}").read_text(encoding="utf-8")


def _hash(kind: str) -> str:
    """Return the page policy's name for the one style sheet or script that it allows."""
    digest = hashlib.sha256(_asset(kind).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _inert(text: str) -> str:
    """Return text without markup, escape sequences and changes of direction."""
    return escape_html(visible(text))


def _section(heading: str, content: str) -> str:
    return f"<h2>{_inert(heading)}</h2>\n{content}" if content else ""


def _outcome(runs: Sequence[ReportedRun], curves: Sequence[RunCurve]) -> str:
    words = words_together(curve.words for curve in curves)
    heads = ("run", "seed", "last evaluation", "95 % interval", words.episodes, "best evaluation")
    more = ("largest drawdown", words.steps, "updates", "time")
    rows = [_outcome_row(run, curve) for run, curve in zip(runs, curves, strict=True)]
    return _table((*heads, *more), rows)


def _outcome_row(run: ReportedRun, curve: RunCurve) -> list[str]:
    returns = np.array(last_returns(run.folder.path))
    means = curve.evaluation_mean[np.isfinite(curve.evaluation_mean)]
    low, high = mean_interval(returns) if returns.size else (np.nan, np.nan)
    update = read_columns(run.folder.metrics_csv, ("update",))["update"][-1]
    return [
        curve.label,
        str(run.document["config"]["seed"]),
        written(float(returns.mean())) if returns.size else "-",
        "-" if np.isnan(low) else f"{written(low)} to {written(high)}",
        str(returns.size),
        written(float(means.max())) if means.size else "-",
        written(stability(means).largest_drawdown) if means.size > 1 else "-",
        f"{curve.env_steps[-1]:,.0f}",
        f"{update:,.0f}",
        duration(float(curve.wall_seconds[-1])),
    ]


def _curves(
    documents: Sequence[Mapping[str, Any]], curves: Sequence[RunCurve], groups: Sequence[Group]
) -> str:
    """Return the pictures, apart for each environment or objective."""
    environments = list(dict.fromkeys(problem_of(document["config"]) for document in documents))
    parts = []
    for environment in environments:
        here = [problem_of(d["config"]) == environment for d in documents]
        own = [curve for curve, inside in zip(curves, here, strict=True) if inside]
        if len(environments) > 1:
            parts.append(f"<h3>{_inert(environment)}</h3>")
        title = "training and evaluation"
        words = own[0].words
        by_steps = _picture(
            curves_figure(own, title=title), f"{words.values} against {words.steps}"
        )
        by_time = _picture(
            curves_figure(own, x="wall_seconds", title=title), f"{words.values} against time"
        )
        parts.append(f'<div class="pair">{by_steps}{by_time}</div>')
        theirs = [group for group in groups if any(run is one for run in group.runs for one in own)]
        if len(own) > 1:
            figure = comparison_figure(theirs)
            parts.append(_picture(figure, f"groups against {words.steps} and time"))
    return "\n".join(parts)


def _groups(groups: Sequence[Group]) -> str:
    what, final_what = quantity(groups), final_quantity(groups)
    heads = ("group", "runs", "final (interquartile mean)", "95 % interval", "spread", "worst run")
    rows = [_group_row(group, what, final_what) for group in groups]
    words = definitions(groups)
    return f'<p class="sub">{_inert(words)}</p>{_table((*heads, "drawdown"), rows)}'


def _group_row(group: Group, what: str, final_what: str) -> list[str]:
    final: Score | None = score_at(group, final_what, "env_steps", np.inf)
    steady = steadiness(group, what, final_what)
    cells = [group.label, str(len(group.runs))]
    if final is None or steady is None:
        return [*cells, *("-" for _ in range(5))]
    interval = "-" if np.isnan(final.low) else f"{written(final.low)} to {written(final.high)}"
    worst = f"{written(steady.worst)} ({steady.worst_run})"
    return [
        *cells,
        f"{written(final.iqm)}{of_fewer(final.runs, len(group.runs))}",
        interval,
        written(steady.std),
        worst,
        "-" if np.isnan(steady.drawdown) else written(steady.drawdown),
    ]


def _contributions(runs: Sequence[ReportedRun]) -> str:
    """Return the pictures, apart for each environment."""
    found: dict[str, list[Individuals]] = {}
    for run in runs:
        try:
            individuals = read_individuals(run.folder.path)
        except (ValueError, RunError):  # another method's column, or a run in its warm-up
            continue
        found.setdefault(problem_of(run.document["config"]), []).append(individuals)
    parts = []
    for environment, own in found.items():
        if len(found) > 1:
            parts.append(f"<h3>{_inert(environment)}</h3>")
        words = "contribution of ES and RL individuals to the mean"
        parts.append(_picture(contributions_figure(own), words))
    return "\n".join(parts)


def _promise(run: ReportedRun) -> str:
    promise = str(run.document.get("promise", "the run folder states no promise"))
    checks = "".join(
        f'<li class="{"open" if check.holds is None else "yes" if check.holds else "no"}">'
        f"{_inert(check.words)}</li>"
        for check in run.checks
    )
    name = _inert(run.folder.path.name)
    return f'<p><b>{name}</b>: {_inert(promise)}</p><ul class="checks">{checks}</ul>'


def _timeline(run: ReportedRun) -> str:
    """Return the shares of each role, and the timeline that the script draws.

    A damaged timeline.json is said in its place: the other sections do not need it.
    """
    try:
        tracks = read_tracks(run.folder)
    except RunError as error:
        return f"<h3>{_inert(run.folder.path.name)}</h3><p>{_inert(str(error))}</p>"
    found = shares(tracks)
    if not found:
        return ""
    rows = [
        [f"{each.role} ({each.processes})", f"{each.busy:.0%}", _waits(each.role, each.waits)]
        for each in found
    ]
    data = json.dumps(drawn(tracks)).replace("<", "\\u003c")
    buttons = "".join(
        f'<button type="button" value="{value}">{words}</button>'
        for value, words in (
            ("in", "+"),
            ("out", "−"),
            ("left", "◂"),
            ("right", "▸"),
            ("all", "all"),
        )
    )
    name = _inert(run.folder.path.name)
    begin, end = judged(tracks)
    judged_words = (
        f"This is about the last {duration(end - begin)} of the session's {duration(end)}: of the "
        "time before, not every process has kept its slices."
    )
    return (
        f"<h3>{name}</h3><p>{_inert(bottleneck(found))}</p>"
        + (f'<p class="sub">{judged_words}</p>' if begin > 0.05 * end else "")
        + _table(
            ("role (processes)", "working", "waiting, and the role that worked meanwhile"), rows
        )
        + f'<div class="timeline">{buttons}<canvas tabindex="0" role="img" '
        f'aria-label="timeline of {name}"></canvas><output></output>'
        f'<script type="application/json">{data}</script></div>'
    )


def _speed(runs: Sequence[ReportedRun]) -> str:
    """Return the table of runs whose updates have a lag, measured speed beside the bound."""
    heads = ("run", "env steps/s", "if the bound never waited", "share", "bound", "policy lag")
    more = ("most", "lag in gradient steps", "env steps of an update", "of a minibatch")
    rows: list[list[str]] = []
    for run in runs:
        try:
            one = speed_of(run.folder, run.document)
        except (ValueError, RunError):  # files of an older or a damaged run
            continue
        if one is not None:
            rows.append([run.folder.path.name, *_speed_cells(one)])
    words = (
        "Of the run's latest session, measured and predicted from its pieces: env steps per "
        "second if the role that bounds it had worked all the time. Where processes share cores, "
        "the seconds of a piece include waiting for a core."
    )
    table = _table((*heads, *more, "rows of a forward pass"), rows)
    return f'<p class="sub">{words}</p>{table}' if rows else ""


def _speed_cells(one: Speed) -> list[str]:
    known = np.isfinite(one.predicted)
    return [
        f"{one.measured:,.0f}" if np.isfinite(one.measured) else "-",
        f"{one.predicted:,.0f}" if known else "-",
        f"{one.measured / one.predicted:.0%}" if known else "-",
        one.bound,
        f"{one.policy_lag:.2f}",
        f"{one.policy_lag_max:.0f}",
        f"{one.gradient_step_lag:.1f}",
        f"{one.update_rows:,}" if one.update_rows else "-",
        f"{one.minibatch_rows:,}" if one.minibatch_rows else "-",
        f"{one.forward_rows:.1f}" if np.isfinite(one.forward_rows) else "-",
    ]


def _waits(role: str, waits: Mapping[str, float]) -> str:
    parts = [
        f"{share:.0%} {'others of its role' if other == role else other}"
        for other, share in sorted(waits.items(), key=lambda item: -item[1])
        if share >= 0.005
    ]
    return ", ".join(parts) or "-"


def _again(run: ReportedRun) -> str:
    return "".join(f"<p><code>{_inert(line)}</code></p>" for line in run.again.splitlines())


def _folded(words: str, content: str) -> str:
    return f"<details><summary>{_inert(words)}</summary>{content}</details>"


def _settings(configs: Sequence[Mapping[str, Any]], runs: Sequence[ReportedRun]) -> str:
    """Return the table of settings: the common ones once, the others per run."""
    names = list(dict.fromkeys(name for config in configs for name in config))
    shared = [n for n in names if all(n in c and c[n] == configs[0].get(n) for c in configs)]
    differing = [name for name in names if name not in shared]
    parts = []
    if differing:
        rows = [
            [run.folder.path.name, *(_value(config.get(name)) for name in differing)]
            for run, config in zip(runs, configs, strict=True)
        ]
        parts.append(_table(("run", *differing), rows, marked=True))
    rows = [[name, _value(configs[0][name])] for name in shared]
    table = f'<div class="columns">{_table(("setting", "value"), rows)}</div>'
    words = f"all {len(shared)} settings" if not differing else f"the {len(shared)} common settings"
    parts.append(_folded(words, table))
    return "\n".join(parts)


def _machine(documents: Sequence[Mapping[str, Any]], runs: Sequence[ReportedRun]) -> str:
    facts = [_facts(document) for document in documents]
    names = list(dict.fromkeys(name for fact in facts for name in fact))
    alike = all(fact == facts[0] for fact in facts)
    if alike:
        return _table(("fact", "value"), [[name, facts[0][name]] for name in names])
    rows = [
        [run.folder.path.name, *(fact.get(name, "-") for name in names)]
        for run, fact in zip(runs, facts, strict=True)
    ]
    return _table(("run", *names), rows)


def _facts(document: Mapping[str, Any]) -> dict[str, str]:
    layout = {f"layout: {k}": v for k, v in document.get("layout", {}).items()}
    facts = {"drumline": document.get("drumline", "-"), **document.get("machine", {})}
    facts |= {**document.get("versions", {}), **layout}
    return {name: _value(value) for name, value in facts.items()}


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, marked: bool = False) -> str:
    kind = ' class="changed"' if marked else ""
    head = "".join(f"<th>{_inert(cell)}</th>" for cell in heads)
    lines = [
        f"<tr><td>{_inert(row[0])}</td>"
        + "".join(f"<td{kind}>{_inert(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    ]
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return "-" if value is None or value == "" else str(value)


def _picture(figure: "Figure", words: str) -> str:
    """Return a figure as an image in the page, so that names inside it cannot clash."""
    encoded = base64.b64encode(picture_of(figure, ".svg")).decode()
    return f'<img alt="{_inert(words)}" src="data:image/svg+xml;base64,{encoded}">'
