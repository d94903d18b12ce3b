"""Contribution of each kind of individual to the mean: the sampled (ES) and the refined (RL)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from drumline.display.drawing import import_matplotlib
from drumline.display.plots import PALETTE, Clock, write_picture
from drumline.display.run_data import number_rows
from drumline.display.thinned_rows import ThinnedRows
from drumline.runs.safe_text import plot_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = {"ES": 0.0, "RL": 1.0}
"""Name → number in the column `kind`; warm-up episodes contribute nothing."""
_COLUMNS = (
    *("kind", "env_steps", "wall_seconds", "logical_worker", "idle_virtual_seconds", "fitness"),
    *("mean_fitness", "improvement_over_mean", "step_size", "update_norm", "accepted"),
    *("distance_moved", "staleness_tells"),
)
_BINS = 24
_BESIDE = 10
"""Individuals told before and after one by which `kept_gain` judges its fitness."""
_PANELS = {
    "fitness": "fitness of the individual",
    "improvement_over_mean": "fitness above the mean's",
    "step_size": "p: how far the mean moves to it",
    "accepted": "share that moved the mean",
    "update_norm": "‖Δμ‖: length of the mean's step",
    "distance_moved": "‖z′ − z‖: by the gradient steps",
    "staleness_tells": "tells between its ask and its tell",
    "idle_after": "virtual seconds its worker then waited",
}


@dataclass(frozen=True, eq=False)
class Individuals:
    """The individuals of one run, in the order of their tells: arrays `[N]` by name.

    More than 131,072 individuals are thinned evenly; `counts` are those of all, by kind.
    """

    label: str
    columns: dict[str, np.ndarray]
    counts: dict[str, int]


class Contribution(NamedTuple):
    """Contribution of one kind of individual in a run; means are over its individuals."""

    individuals: int
    fitness: float
    improvement_over_mean: float
    step_size: float
    accepted: float
    path_share: float
    """Σ ‖Δμ‖ of this kind over that of both kinds."""
    gain_share: float
    """Σ p · max(f_z − f_μ, 0) of this kind over that of both kinds; nan without any gain."""
    distance_moved: float
    staleness_tells: float
    idle_after: float
    """Virtual seconds that its logical worker waited afterwards."""
    worse_path_share: float
    """Σ ‖Δμ‖ of this kind's individuals with f_z < f_μ over that of all individuals."""
    kept_gain: float
    """Share of f_z − f_μ by which the individuals afterwards are fitter than those before.

    Of the tenth of this kind with the largest f_z − f_μ: the mean fitness of the ten individuals
    told next minus that of the ten told before, summed, over the sum of f_z − f_μ. 0: their
    fitness was luck. nan where none of them has ten on both sides.
    """


def read_individuals(folder: Path) -> Individuals:
    """Read the individuals of a run, without those of the warm-up."""
    names = (*_COLUMNS, "idle_after")
    kept = ThinnedRows(len(names))
    kinds = {number: name for name, number in KINDS.items()}
    counts = dict.fromkeys(KINDS, 0)
    try:
        for index, row in _with_idle_after(number_rows(folder / "metrics.csv", _COLUMNS)):
            if row[0] in kinds:
                counts[kinds[row[0]]] += 1
                kept.add(index, row)
    except ValueError as error:
        raise ValueError(f"{error}; --contributions is for runs of aes and its variants") from error
    if not any(counts.values()):
        raise ValueError(f"{folder / 'metrics.csv'} has no individuals yet: nothing to plot")
    columns = dict(zip(names, kept.columns(), strict=True))
    return Individuals(folder.absolute().name, columns, counts)


def contribution(individuals: Individuals, kind: str) -> Contribution:
    """Return the contribution of a kind; a mean over no individuals is nan."""
    columns = individuals.columns
    mine = columns["kind"] == KINDS[kind]
    gains = columns["step_size"] * np.maximum(columns["improvement_over_mean"], 0.0)
    means = {name: _mean(columns[name][mine]) for name in _PANELS}
    # A mean that goes back to an earlier one does so beside an individual, not because of it.
    path = np.where(columns["accepted"] == 0.0, 0.0, columns["update_norm"])
    return Contribution(
        individuals=individuals.counts[kind],
        path_share=_share(path, mine),
        gain_share=_share(gains, mine),
        worse_path_share=_share(path, mine & (columns["improvement_over_mean"] < 0.0)),
        kept_gain=_kept_gain(columns["fitness"], columns["improvement_over_mean"], mine),
        **{name: value for name, value in means.items() if name != "update_norm"},
    )


def draw_contributions(
    runs: Sequence[Individuals], out: Path, *, x: Clock = "env_steps", title: str = ""
) -> None:
    """Draw each quantity of each kind over time, as a PNG."""
    write_picture(contributions_figure(runs, x=x, title=title), out)


def contributions_figure(
    runs: Sequence[Individuals], *, x: Clock = "env_steps", title: str = ""
) -> "Figure":
    """Return the figure of each quantity of each kind: thin by run, thick the mean over runs."""
    import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import EngFormatter

    if not runs:
        raise ValueError("no runs to plot")
    figure = Figure(figsize=(15, 7), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    first = min(float(run.columns[x][0]) for run in runs)
    last = max(float(run.columns[x][-1]) for run in runs)
    edges = np.linspace(first, np.nextafter(last, np.inf), _BINS + 1)
    grid = figure.subplots(2, 4, sharex=True)
    for axes, (name, panel) in zip(grid.flat, _PANELS.items(), strict=True):
        for kind, color in zip(KINDS, PALETTE, strict=False):
            if kind == "RL" or name != "distance_moved":
                _draw_kind(axes, runs, kind, name, x, edges, color)
        if name == "fitness":
            _draw_mean(axes, runs, x, edges)
        if name == "accepted":
            axes.set_ylim(-0.05, 1.05)
        elif name in ("staleness_tells", "idle_after", "distance_moved"):
            axes.set_ylim(bottom=0.0, top=axes.get_ylim()[1] if _drawn(axes) else 1.0)
        axes.set_title(panel, loc="left", fontsize=10)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if x == "env_steps":
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.margins(x=0.02)
    clocks = {"env_steps": "env steps (agent decisions in training)", "wall_seconds": "time (s)"}
    for axes in grid[1]:
        axes.set_xlabel(clocks[x])
    handles = [
        Line2D([], [], color=color, linewidth=2) for color, _ in zip(PALETTE, KINDS, strict=False)
    ]
    labels = [_words(runs, kind) for kind in KINDS]
    handles.append(Line2D([], [], color=PALETTE[-1], linewidth=1.2, linestyle=":"))
    labels.append("the mean's fitness")
    name = (
        plot_label(runs[0].label)
        if len(runs) == 1
        else f"{len(runs)} runs; thin: one run, thick: their mean"
    )
    words = title or f"Contribution of ES and RL individuals to the mean: {name}"
    figure.suptitle(words, fontweight="bold")
    figure.legend(handles, labels, loc="outside lower center", ncols=1, frameon=False)
    return figure


def _with_idle_after(rows: Iterable[list[float]]) -> Iterator[tuple[int, list[float]]]:
    """Yield (index, row), the row with the wait after it at its end.

    Its logical worker reports the wait with its next row, so a row comes when that one is read.
    """
    worker, idle = _COLUMNS.index("logical_worker"), _COLUMNS.index("idle_virtual_seconds")
    newest: dict[float, tuple[int, list[float]]] = {}
    for index, row in enumerate(rows):
        before = newest.get(row[worker])
        if before is not None:
            yield before[0], [*before[1], row[idle]]
        newest[row[worker]] = (index, row)
    for index, row in newest.values():
        yield index, [*row, np.nan]


def _draw_kind(
    axes: "Axes",
    runs: Sequence[Individuals],
    kind: str,
    name: str,
    x: Clock,
    edges: np.ndarray,
    color: str,
) -> None:
    middles = (edges[1:] + edges[:-1]) / 2
    rows = []
    for run in runs:
        mine = run.columns["kind"] == KINDS[kind]
        rows.append(_binned(run.columns[x][mine], run.columns[name][mine], edges))
        if len(runs) > 1:
            _draw_line(axes, middles, rows[-1], color=color, linewidth=0.7, alpha=0.5)
    _draw_line(axes, middles, _mean_known(np.array(rows)), color=color, linewidth=2.0)


def _draw_mean(axes: "Axes", runs: Sequence[Individuals], x: Clock, edges: np.ndarray) -> None:
    rows = [_binned(run.columns[x], run.columns["mean_fitness"], edges) for run in runs]
    middles = (edges[1:] + edges[:-1]) / 2
    _draw_line(
        axes, middles, _mean_known(np.array(rows)), color=PALETTE[-1], linewidth=1.2, linestyle=":"
    )


def _drawn(axes: "Axes") -> bool:
    """Whether any drawn value is above 0."""
    return any(np.any(np.asarray(line.get_ydata()) > 0.0) for line in axes.lines)


def _draw_line(axes: "Axes", x: np.ndarray, y: np.ndarray, **style: object) -> None:
    known = np.isfinite(y)
    marker = "." if known.sum() == 1 else ""  # a line of one point is invisible
    axes.plot(x[known], y[known], marker=marker, **style)  # pyright: ignore[reportArgumentType]


def _binned(x: np.ndarray, y: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the mean of y in each bin of x; nan for an empty bin."""
    known = np.isfinite(y)
    place = np.searchsorted(edges, x[known], side="right") - 1
    count = np.bincount(place, minlength=edges.size - 1)
    total = np.bincount(place, weights=y[known], minlength=edges.size - 1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _mean_known(rows: np.ndarray) -> np.ndarray:
    known = np.isfinite(rows)
    count = known.sum(axis=0)
    total = np.where(known, rows, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else np.nan


def _share(values: np.ndarray, mine: np.ndarray) -> float:
    known = np.isfinite(values)
    total = float(values[known].sum())
    return float(values[known & mine].sum()) / total if total > 0 else np.nan


def _kept_gain(fitness: np.ndarray, improvement: np.ndarray, mine: np.ndarray) -> float:
    """Return Σ (mean fitness of the next ten − of the ten before) over Σ (f_z − f_μ)."""
    own = np.flatnonzero(mine & np.isfinite(improvement))
    fittest = own[np.argsort(-improvement[own], kind="stable")][: -(-own.size // 10)]
    inside = (fittest >= _BESIDE) & (fittest < fitness.size - _BESIDE)
    lucky = fittest[inside & (improvement[fittest] > 0.0)]
    if not lucky.size:
        return np.nan
    offsets = np.arange(1, _BESIDE + 1)
    after = fitness[lucky[:, None] + offsets].mean(axis=1)
    before = fitness[lucky[:, None] - offsets].mean(axis=1)
    return float((after - before).sum() / improvement[lucky].sum())


def _words(runs: Sequence[Individuals], kind: str) -> str:
    found = [contribution(run, kind) for run in runs]
    count = sum(each.individuals for each in found)
    if not count:
        return f"{kind}: none"
    weights = np.array([each.individuals for each in found]) / count
    accepted = sum(w * each.accepted for w, each in zip(weights, found, strict=True) if w)
    path = _mean(np.array([each.path_share for each in found]))
    gain = _mean(np.array([each.gain_share for each in found]))
    text = f"{kind}: {count} individual{'s' if count > 1 else ''}, {accepted:.0%} moved the mean"
    shares = {"its path": path, "Σ p · gain": gain}
    known = [f", {share:.0%} of {name}" for name, share in shares.items() if not np.isnan(share)]
    return "".join([text, *known])
