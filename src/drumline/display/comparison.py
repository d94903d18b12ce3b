"""Runs grouped by what they share but the seed: scores with intervals, and a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drumline.display.plots import PALETTE, Clock
from drumline.display.run_data import RunCurve
from drumline.functional.statistics import (
    bootstrap_interval,
    interquartile_mean,
    interquartile_mean_along,
)

_POINTS = 60


@dataclass(frozen=True)
class Group:
    """Runs of one config, each with another seed."""

    label: str
    runs: tuple[RunCurve, ...]


class Score(NamedTuple):
    """Interquartile mean over runs, with a 95 % bootstrap interval."""

    runs: int
    iqm: float
    low: float
    high: float


def grouped(runs: Sequence[tuple[Mapping[str, Any], RunCurve]]) -> list[Group]:
    """Group (document, curve) by method, environment and config without its seed.

    A label names the settings in which groups differ.
    """
    groups: dict[str, tuple[dict[str, Any], list[RunCurve]]] = {}
    for document, curve in runs:
        config = {k: v for k, v in document["config"].items() if k not in ("seed", "env")}
        facts = {"method": document["method"], "env": document["config"]["env"], **config}
        groups.setdefault(repr(sorted(facts.items())), (facts, []))[1].append(curve)
    everything = [facts for facts, _ in groups.values()]
    return [Group(_label(facts, everything), tuple(own)) for facts, own in groups.values()]


def quantity(groups: Sequence[Group]) -> str:
    """Return what is compared: evaluations, if every run has two or more, else training."""
    runs = [run for group in groups for run in group.runs]
    return "evaluation" if all(run.evaluation_mean.size > 1 for run in runs) else "training"


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
    """Return the score of the newest values that were known at `budget`; None before any."""
    values = np.array([_known_at(*curve_of(run, what, clock), budget) for run in group.runs])
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    ends = bootstrap_interval(values, seed=0, statistic=interquartile_mean_along)
    return Score(values.size, interquartile_mean(values), *ends)


def draw_comparison(groups: Sequence[Group], out: Path) -> None:
    """Draw every group against env steps and against time: IQM and its 95 % interval."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    what = quantity(groups)
    figure = Figure(figsize=(13, 5.5), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    clocks: tuple[tuple[Clock, str], ...] = (
        ("env_steps", "env steps (agent decisions in training)"),
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
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    left.set_ylabel(f"episode return ({what})")
    figure.suptitle("interquartile mean over runs, 95 % bootstrap interval", fontweight="bold")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False)
    figure.savefig(out, format="png")


def _draw_group(axes: Any, group: Group, what: str, clock: Clock, color: str) -> None:
    clocks = [x for x in (curve_of(run, what, clock)[0] for run in group.runs) if x.size]
    if not clocks:
        return
    first, last = max(float(x[0]) for x in clocks), min(float(x[-1]) for x in clocks)
    grid = np.linspace(min(first, last), last, _POINTS)
    scores = [score_at(group, what, clock, float(at)) for at in grid]
    known = [(at, s) for at, s in zip(grid.tolist(), scores, strict=True) if s is not None]
    at = [x for x, _ in known]
    label = f"{group.label} ({len(group.runs)} runs)"
    axes.plot(at, [s.iqm for _, s in known], color=color, linewidth=1.8, label=label)
    low, high = [s.low for _, s in known], [s.high for _, s in known]
    axes.fill_between(at, low, high, color=color, alpha=0.2, linewidth=0)


def _known_at(x: np.ndarray, y: np.ndarray, budget: float) -> float:
    """Return the newest value: one in between would know the future."""
    place = int(np.searchsorted(x, budget, side="right")) - 1
    return float(y[place]) if place >= 0 else np.nan


def _label(facts: Mapping[str, Any], everything: Sequence[Mapping[str, Any]]) -> str:
    mine = [o for o in everything if all(o[k] == facts[k] for k in ("method", "env"))]
    names = sorted({k for other in mine for k in other if other[k] != facts.get(k)})
    return " ".join([facts["method"], facts["env"], *(f"{k}={facts.get(k)}" for k in names)])
