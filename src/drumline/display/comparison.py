"""Groups of runs that differ only in the seed: scores with intervals, and a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drumline.display.drawing import import_matplotlib
from drumline.display.plots import PALETTE, Clock, dress, write_picture
from drumline.display.run_data import RunCurve
from drumline.functional.stability import spread, stability
from drumline.functional.statistics import (
    bootstrap_interval,
    interquartile_mean,
    interquartile_mean_along,
)
from drumline.runs.problem import Words, problem_of, words_together
from drumline.runs.safe_text import plot_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS = 60


@dataclass(frozen=True)
class Group:
    """Runs of one config with different seeds."""

    label: str
    runs: tuple[RunCurve, ...]


class Score(NamedTuple):
    """Interquartile mean over runs, with a 95 % bootstrap interval."""

    runs: int
    iqm: float
    low: float
    high: float


class Steadiness(NamedTuple):
    """Spread of the runs of a group at their end, and their falls on the way."""

    std: float
    """Standard deviation of the final scores."""
    worst: float
    """The lowest final score."""
    worst_run: str
    drawdown: float
    """The largest fall below the best score so far, mean over runs."""
    falling_share: float
    """Share of scores below the one before, mean over runs."""


def without_repeats(
    runs: Sequence[tuple[Mapping[str, Any], RunCurve]],
) -> tuple[list[tuple[Mapping[str, Any], RunCurve]], list[str]]:
    """Return the runs without those that repeat another's seed and values, and these by name.

    A repeat is no other sample: an interval over it and its first would be too narrow.
    """
    once: dict[str, tuple[Mapping[str, Any], RunCurve]] = {}
    repeats: list[str] = []
    for document, curve in runs:
        values = (curve.env_steps, curve.episode_return_mean, curve.evaluation_mean)
        bits = [each.tobytes() for each in values]
        key = repr((document["method"], sorted(document["config"].items(), key=str), bits))
        if once.setdefault(key, (document, curve))[1] is not curve:
            repeats.append(curve.label)
    return list(once.values()), repeats


def grouped(runs: Sequence[tuple[Mapping[str, Any], RunCurve]]) -> list[Group]:
    """Group (document, curve) by method, environment and config without its seed.

    A label names the settings in which groups differ.
    """
    groups: dict[str, tuple[dict[str, Any], list[RunCurve]]] = {}
    for document, curve in runs:
        config = {k: v for k, v in document["config"].items() if k not in ("seed", "env")}
        facts = {"method": document["method"], "env": problem_of(document["config"]), **config}
        key = repr(sorted((name, _as_floats(value)) for name, value in facts.items()))
        groups.setdefault(key, (facts, []))[1].append(curve)
    everything = [facts for facts, _ in groups.values()]
    return [Group(_label(facts, everything), tuple(own)) for facts, own in groups.values()]


def _as_floats(value: Any) -> Any:
    """Return a setting with 1 as 1.0: a config made in Python may have either for one number."""
    if isinstance(value, (list, tuple)):
        return [_as_floats(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def quantity(groups: Sequence[Group]) -> str:
    """Return the quantity of curves: evaluations, if every run has two or more, else training."""
    return _evaluated(groups, 2)


def final_quantity(groups: Sequence[Group]) -> str:
    """Return the quantity of final scores: evaluations, if every run has one, else training."""
    return _evaluated(groups, 1)


def _evaluated(groups: Sequence[Group], least: int) -> str:
    runs = [run for group in groups for run in group.runs]
    there = all(np.isfinite(run.evaluation_mean).sum() >= least for run in runs)
    return "evaluation" if there else "training"


FINAL = {
    "evaluation": "mean {} of a run's last evaluation",
    "training": "mean {} of a run's latest training episodes",
}
"""Definition of a final score, by its quantity; `compare` and `report` have the same."""


def definitions(groups: Sequence[Group]) -> str:
    """Return the definitions of a comparison's columns, in words."""
    words = words_of_groups(groups)
    final, values = FINAL[final_quantity(groups)].format(words.value), words.values
    return (
        f"final: {final}, as its interquartile mean over runs [95 % "
        f"interval]; spread: standard deviation of the final {values}; worst: the lowest of them; "
        f"drawdown: the largest fall below the best so far of {quantity(groups)} {values}, mean "
        "over runs"
    )


def words_of_groups(groups: Sequence[Group]) -> Words:
    """Return the words for what all runs of the groups measure."""
    return words_together(run.words for group in groups for run in group.runs)


def curve_of(run: RunCurve, what: str, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
    """Return a run's clock and its returns, without those that are not finite."""
    if what == "evaluation":
        x = run.evaluation_env_steps if clock == "env_steps" else run.evaluation_wall_seconds
        y = run.evaluation_mean
    else:
        x = run.env_steps if clock == "env_steps" else run.wall_seconds
        y = run.episode_return_mean
    known = np.isfinite(y)
    return x[known], y[known]


def equal_budget(groups: Sequence[Group], what: str, clock: Clock) -> float:
    """Return the largest budget that every run has spent."""
    ends = [curve_of(run, what, clock)[0] for group in groups for run in group.runs]
    return min((float(x[-1]) for x in ends if x.size), default=0.0)


def score_at(group: Group, what: str, clock: Clock, budget: float) -> Score | None:
    """Return the score over the runs' newest values known at `budget`; None before any."""
    values = np.array([_known_at(*curve_of(run, what, clock), budget) for run in group.runs])
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    ends = bootstrap_interval(values, seed=0, statistic=interquartile_mean_along)
    return Score(values.size, interquartile_mean(values), *ends)


def of_fewer(scored: int, runs: int) -> str:
    """Return the words behind a score that some runs of its group have no value for.

    >>> of_fewer(1, 3)
    ' of 1 run'
    """
    if scored == runs:
        return ""
    return f" of {scored} run{'s' if scored > 1 else ''}"


def steadiness(group: Group, what: str, final_what: str) -> Steadiness | None:
    """Return the steadiness of a group, of its curves and final scores; None without a score."""
    ends = [(run.label, curve_of(run, final_what, "env_steps")[1]) for run in group.runs]
    ends = [(label, float(scores[-1])) for label, scores in ends if scores.size]
    if not ends:
        return None
    final = spread(np.array([score for _, score in ends]))
    curves = [curve_of(run, what, "env_steps")[1] for run in group.runs]
    falls = [stability(scores) for scores in curves if scores.size]
    worst_run, _ = min(ends, key=lambda end: end[1])
    return Steadiness(
        *final,
        worst_run,
        float(np.mean([fall.largest_drawdown for fall in falls])) if falls else np.nan,
        float(np.mean([fall.falling_share for fall in falls])) if falls else np.nan,
    )


def draw_comparison(groups: Sequence[Group], out: Path) -> None:
    """Draw every group against env steps and against time, as a PNG."""
    write_picture(comparison_figure(groups), out)


def comparison_figure(groups: Sequence[Group]) -> "Figure":
    """Return the figure of every group against two clocks: IQM and its 95 % interval."""
    import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import EngFormatter

    what, words = quantity(groups), words_of_groups(groups)
    figure = Figure(figsize=(13, 5.5), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    clocks: tuple[tuple[Clock, str], ...] = (
        ("env_steps", words.steps_axis),
        ("wall_seconds", "time (s)"),
    )
    left: Any = None
    for axes, (clock, label) in zip(figure.subplots(1, 2, sharey=True), clocks, strict=True):
        left = left or axes
        for i, group in enumerate(groups):
            _draw_group(axes, group, what, clock, PALETTE[i % len(PALETTE)])
        axes.set_xlabel(label)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if clock == "env_steps":  # seconds in full, because "600m" could be read as minutes
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    left.set_ylabel(f"{words.value_axis} ({what})")
    figure.suptitle("interquartile mean over runs, 95 % bootstrap interval", fontweight="bold")
    handles, labels = left.get_legend_handles_labels()
    dashed = any(line.get_linestyle() == "--" for axes in figure.axes for line in axes.lines)
    if dashed:
        handles.append(Line2D([], [], color="#555555", linewidth=1.0, linestyle="--"))
        labels.append("dashed: some runs have not begun, or have ended and keep their last value")
    figure.legend(handles, labels, loc="outside lower center", frameon=False)
    return figure


def seeds_figure(groups: Sequence[Group], *, x: Clock, title: str = "") -> "Figure":
    """Return the figure of groups of seeds: each run thin, their IQM and 95 % interval on top."""
    import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    what = quantity(groups)
    figure = Figure(figsize=(10, 6), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for i, group in enumerate(groups):
        color = PALETTE[i % len(PALETTE)]
        for run in group.runs:
            axes.step(*curve_of(run, what, x), color=color, linewidth=0.6, alpha=0.4, where="post")
        _draw_group(axes, group, what, x, color)
    drawn = groups[0].runs[0].what
    words = words_of_groups(groups)
    drawn = f"{drawn} ({what})" if drawn == words.value_axis else drawn
    title = title or "interquartile mean over seeds, 95 % bootstrap interval"
    dress(axes, x, title, drawn, words)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", frameon=False)
    return figure


def _draw_group(axes: Any, group: Group, what: str, clock: Clock, color: str) -> None:
    clocks = [x for x in (curve_of(run, what, clock)[0] for run in group.runs) if x.size]
    if not clocks:
        return
    begins, ends = [float(x[0]) for x in clocks], [float(x[-1]) for x in clocks]
    grid = _grid(begins, ends)
    scores = [score_at(group, what, clock, at) for at in grid]
    known = [(at, score) for at, score in zip(grid, scores, strict=True) if score is not None]
    at, iqm = [x for x, _ in known], [score.iqm for _, score in known]
    marker = "." if len(set(at)) == 1 else ""  # a line of one point is invisible
    dashes = {"color": color, "linewidth": 1.0, "linestyle": "--"}
    if grid[0] < max(begins) or grid[-1] > min(ends):
        axes.plot(at, iqm, **dashes)
    all_there = [max(begins) <= x <= min(ends) for x in at]
    whole = [y if there else np.nan for y, there in zip(iqm, all_there, strict=True)]
    runs = len(group.runs)
    drawn = f"{len(clocks)} of " if len(clocks) < runs else ""
    label = f"{plot_label(group.label)} ({drawn}{runs} run{'s' if runs > 1 else ''})"
    axes.plot(at, whole, color=color, linewidth=1.8, label=label, marker=marker)
    low, high = [score.low for _, score in known], [score.high for _, score in known]
    axes.fill_between(at, low, high, color=color, alpha=0.2, linewidth=0)


def _grid(begins: Sequence[float], ends: Sequence[float]) -> list[float]:
    """Return the x values of a group: from its first run's begin to its last run's end.

    The part in which all runs exist has its ends on the grid, and its share of the points.
    """
    marks = sorted({min(begins), *begins, *ends})
    whole = (max(begins), min(ends))
    points = set(marks) | set(np.linspace(marks[0], marks[-1], _POINTS // 2).tolist())
    if whole[0] < whole[1]:
        points |= set(np.linspace(*whole, _POINTS).tolist())
    return sorted(points)


def _known_at(x: np.ndarray, y: np.ndarray, budget: float) -> float:
    """Return the newest known value; interpolation would use the future."""
    place = int(np.searchsorted(x, budget, side="right")) - 1
    return float(y[place]) if place >= 0 else np.nan


def _label(facts: Mapping[str, Any], everything: Sequence[Mapping[str, Any]]) -> str:
    mine = [o for o in everything if all(o[k] == facts[k] for k in ("method", "env"))]
    keys = {k for other in mine for k in other}
    names = sorted(k for k in keys if any(o.get(k) != facts.get(k) for o in mine))
    return " ".join([facts["method"], facts["env"], *(f"{k}={facts.get(k)}" for k in names)])
