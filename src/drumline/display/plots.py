"""Learning curves as a picture."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from drumline.display.drawing import import_matplotlib
from drumline.display.run_data import RunCurve
from drumline.runs.atomic_files import replace_file
from drumline.runs.problem import Words, words_together
from drumline.runs.safe_text import plot_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, for every kind of colour blindness; their yellow is too pale.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_GRAY = "#555555"
Clock = Literal["env_steps", "wall_seconds"]


FORMATS: Mapping[str, Mapping[str, None]] = {
    ".png": {},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}
"""Ending of a picture's file → metadata that would give the same figure other bytes each time."""


def write_picture(figure: "Figure", out: Path) -> None:
    """Write a figure as its file's ending says; a link at `out` is replaced and not followed."""
    replace_file(out, picture_of(figure, out.suffix.lower()))


def picture_of(figure: "Figure", ending: str) -> bytes:
    """Return the bytes of a figure's picture: those of the same figure are the same."""
    import matplotlib as mpl

    data = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "drumline"}):
        figure.savefig(data, format=ending[1:], metadata=dict(FORMATS[ending]))
    return data.getvalue()


def curves_figure(
    runs: Sequence[RunCurve],
    *,
    x: Clock = "env_steps",
    title: str = "",
) -> "Figure":
    """Return a figure of runs: training (thin) and evaluations (marked, ± one standard error).

    Figures are made without pyplot, whose global state would leak into a user's notebook.
    """
    if not runs:
        raise ValueError("no runs to plot")
    import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for i, run in enumerate(runs):
        _draw_run(axes, run, x, PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)])
    words = words_together(run.words for run in runs)
    what = runs[0].what if len({run.what for run in runs}) == 1 else words.value_axis
    name = plot_label(runs[0].label) if len(runs) == 1 else f"{len(runs)} runs"
    dress(axes, x, title or name, what, words)
    _legend(figure, axes, any(run.evaluation_mean.size for run in runs))
    return figure


def _draw_run(axes: "Axes", run: RunCurve, x: Clock, color: str, marker: str) -> None:
    clock = run.env_steps if x == "env_steps" else run.wall_seconds
    if run.env_steps.size == 0:
        raise ValueError(f"{run.label} has no updates yet: nothing to plot")
    evaluated = run.evaluation_mean.size > 0
    axes.plot(
        clock,
        run.episode_return_mean,
        color=color,
        linewidth=0.8,
        alpha=0.5,
        marker="." if run.env_steps.size == 1 else "",  # a line of one point is invisible
        label=None if evaluated else plot_label(run.label),
    )
    if not evaluated:
        return
    points = run.evaluation_env_steps if x == "env_steps" else run.evaluation_wall_seconds
    mean, error = run.evaluation_mean, np.nan_to_num(run.evaluation_standard_error)
    axes.fill_between(points, mean - error, mean + error, color=color, alpha=0.2, linewidth=0)
    # Above the training curves of all runs, whatever the order of drawing.
    axes.plot(
        points,
        mean,
        color=color,
        marker=marker,
        markersize=5,
        linewidth=1.8,
        label=plot_label(run.label),
        zorder=3,
    )


def _legend(figure: "Figure", axes: "Axes", evaluated: bool) -> None:
    """Draw one entry per run and the meaning of both kinds of line, below the axes."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    training = Line2D([], [], color=_GRAY, linewidth=0.8, alpha=0.7)
    handles, labels = [*handles, training], [*labels, "thin: training"]
    if evaluated:
        handles.append(Line2D([], [], color=_GRAY, linewidth=1.8, marker="o", markersize=5))
        labels.append("marked: evaluation ± standard error")
    labels = [text if len(text) <= 60 else f"{text[:59]}…" for text in labels]
    columns = max(1, min(3, 120 // (max(map(len, labels)) + 6)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def dress(axes: "Axes", x: Clock, title: str, what: str, words: Words) -> None:
    """Label the axes and the title of learning curves."""
    from matplotlib.ticker import EngFormatter

    labels = {"env_steps": words.steps_axis, "wall_seconds": "time (s)"}
    axes.set_xlabel(labels[x])
    axes.set_ylabel(plot_label(what))
    axes.set_title(title, loc="left", fontweight="bold")
    if x == "env_steps":
        # "2.5M", instead of "2.5" with "1e6" in a corner.
        formatter: Any = EngFormatter(sep="")
        axes.xaxis.set_major_formatter(formatter)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.02)
