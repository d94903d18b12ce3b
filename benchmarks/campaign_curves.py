"""Learning curves of a campaign's runs, a picture for each part of docs/results.md that has one.

`python benchmarks/campaign.py QUEUE tables` draws them into docs/images. A picture that every
ended run made anew would fill the history, so rows alone are committed as runs end.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from campaign_aes_tables import competitor
from campaign_es_tables import dimensions_of, frame_skip_of
from campaign_tables import Row, Rows

from drumline.display.drawing import import_matplotlib
from drumline.display.plots import MARKERS, PALETTE, write_picture
from drumline.functional.statistics import (
    bootstrap_interval,
    interquartile_mean,
    interquartile_mean_along,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
_COLUMNS = 2
_POINTS = 60
_SHORT_HUMANOID = 5_000_000
"""Env steps of the released configuration's first eight generations."""
_SLACK = 1.05
"""Evaluations fall after whole updates, whose env steps differ."""


class Curve(NamedTuple):
    """Scores of the seeds of one group of runs at equal steps."""

    label: str
    steps: np.ndarray
    """`[points]`, in the units of the axis: only where every seed has a score."""
    scores: np.ndarray
    """`[seeds, points]`."""


class Panel(NamedTuple):
    """The curves that share axes."""

    title: str
    curves: Sequence[Curve]


def draw(rows: Rows, images: Path = IMAGES) -> list[Path]:
    """Write the picture of every part that has curves; return their paths."""
    written: list[Path] = []
    for part, picture in PICTURES.items():
        shown = panels(part, rows)
        if shown:
            write_picture(figure(shown, picture.axis), images / image_name(part))
            written.append(images / image_name(part))
    return written


def curves_line(part: str) -> list[str]:
    """Return the line of docs/results.md that shows a part's picture; none where there is none."""
    name = image_name(part)
    there = part in PICTURES and (IMAGES / name).exists()
    return [f"![Learning curves of the table above](images/{name})"] if there else []


def image_name(part: str) -> str:
    """Return the file name of a part's picture."""
    return f"campaign-{part}.png"


def panels(part: str, rows: Rows) -> list[Panel]:
    """Return the panels of a part, in the order of its rows; none without evaluations."""
    picture = PICTURES[part]
    found: dict[str, list[Curve]] = {}
    for group, mine in _groups(rows, part).items():
        curve = _curve(picture, group, mine, rows.evaluations)
        if curve.steps.size:
            for title in picture.titles(mine[0]):
                found.setdefault(title, []).append(curve)
    return [
        Panel(title, _to_common_end(own))
        for title, own in found.items()
        if len(own) >= picture.fewest
    ]


def figure(shown: Sequence[Panel], axis: str) -> "Figure":
    """Return panels side by side: interquartile means over the seeds, and 95 % intervals."""
    import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    columns = min(_COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    whole = Figure(figsize=(6.2 * columns, 4.0 * lines), dpi=100, layout="constrained")
    whole.set_facecolor("white")
    FigureCanvasAgg(whole)
    grid: Any = whole.subplots(lines, columns, squeeze=False)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid.flat, shown, strict=False):
        for number, curve in enumerate(panel.curves):
            _draw_curve(axes, curve, number)
        axes.set_title(panel.title, loc="left", fontweight="bold")
        axes.set_xlabel(axis)
        axes.set_ylabel("evaluation return")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.02)
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14)}
        axes.legend(frameon=False, fontsize=8, ncols=2, **below)
    return whole


def _draw_curve(axes: Any, curve: Curve, number: int) -> None:
    color = PALETTE[number % len(PALETTE)]
    middle = [interquartile_mean(column) for column in curve.scores.T]
    if len(curve.scores) > 2:
        ends = [
            bootstrap_interval(column, seed=0, statistic=interquartile_mean_along)
            for column in curve.scores.T
        ]
        low, high = zip(*ends, strict=True)
        axes.fill_between(curve.steps, low, high, color=color, alpha=0.12, linewidth=0)
    some = len(curve.scores)
    axes.plot(
        curve.steps,
        middle,
        color=color,
        linewidth=1.8,
        marker=MARKERS[number % len(MARKERS)],
        markersize=4,
        markevery=max(1, len(middle) // 6),
        label=f"{curve.label} ({some} seed{'s' if some > 1 else ''})",
    )


def _curve(
    picture: "Picture", group: str, runs: Sequence[Row], evaluations: Sequence[Row]
) -> Curve:
    """Return every seed's score at their evaluations, on the line between its own beside them."""
    label, frames = picture.label(runs[0]), picture.frames(runs[0])
    seeds: list[tuple[np.ndarray, np.ndarray]] = []
    for run in runs:
        mine = [
            (frames * int(row["env_steps"]), float(row["mean"]))
            for row in evaluations
            if (row["group"], row["seed"]) == (group, run["seed"]) and not row["of"]
        ]
        if not mine:
            return Curve(label, np.empty(0), np.empty((0, 0)))
        steps, scores = np.array(mine, float).T
        seeds.append((steps, scores))
    begin, end = max(steps[0] for steps, _ in seeds), min(steps[-1] for steps, _ in seeds)
    grid = np.unique(np.concatenate([steps for steps, _ in seeds]))
    grid = grid[(grid >= begin) & (grid <= end)]
    if grid.size > _POINTS:
        grid = grid[np.linspace(0, grid.size - 1, _POINTS).round().astype(int)]
    known = [np.interp(grid, steps, scores) for steps, scores in seeds]
    return Curve(label, grid, np.array(known))


def _to_common_end(curves: Sequence[Curve]) -> list[Curve]:
    """Return curves up to the steps that all have, in the order of their labels' numbers."""
    end = min(curve.steps[-1] for curve in curves)
    cut = [curve.steps <= _SLACK * end for curve in curves]
    short = [Curve(c.label, c.steps[i], c.scores[:, i]) for c, i in zip(curves, cut, strict=True)]
    return sorted(short, key=lambda curve: _number(curve.label))


def _number(label: str) -> float:
    found = re.search(r"\d+", label.replace(",", ""))
    return float(found[0]) if found else -1.0


def _groups(rows: Rows, part: str) -> dict[str, list[Row]]:
    """Return the runs of a part by group; the preset's come first."""
    found: dict[str, list[Row]] = {}
    for row in rows.runs:
        if row["group"] in _BESIDE.get(part, ()):
            found.setdefault(row["group"], []).append(row)
    for row in rows.runs:
        if row["part"] == part:
            found.setdefault(row["group"], []).append(row)
    return found


_PRESETS = ("es-Swimmer-all", "es-HalfCheetah-all")
_BESIDE: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "es-initial-weights": _PRESETS,
        "es-variants": ("es-HalfCheetah-all",),
        "es-beside-others": _PRESETS,
        "es-frame-skip": ("es-Freeway",),
    }
)
"""Groups of other parts that stand beside a part's own: the presets."""


def _task(run: Row) -> str:
    return run["env"].split("-")[0]


def _setting(run: Row) -> str:
    """Return a group's name without its method and task; the preset is `preset`."""
    words = run["group"].removeprefix(f"{run['method']}-").removeprefix(_task(run)).strip("-")
    return "preset" if words in ("", "all") else words.replace("-", " ")


def _by_task(run: Row) -> list[str]:
    return [run["env"]]


def _by_task_if_long(run: Row) -> list[str]:
    """Return no panel for a run that another one continues."""
    return [run["env"]] if int(run["env_steps"]) > _SHORT_HUMANOID else []


def _by_task_and_budget(run: Row) -> list[str]:
    return [f"{run['env']}, {int(run['env_steps']):,} env steps"]


def _by_observations(run: Row) -> list[str]:
    raw = "--no-normalize" in run["command"]
    return [f"{run['env']}, {'raw' if raw else 'normalised'} observations"]


def _initial_weights(run: Row) -> str:
    setting = _setting(run).removesuffix("raw observations").strip()
    return "column normalized" if setting == "preset" else setting


def _by_variant(run: Row) -> list[str]:
    whats = {
        "perturb": "parameters perturbed for each pair",
        "use": "parameters used in the update",
        "": "actions, mirroring, seeds",
    }
    if _setting(run) == "preset":
        return [f"{run['env']}, {what}" for what in whats.values()]
    if "cap" in run["group"]:
        return [f"{run['env']}, episodes with and without a cap"]
    found = re.search(r"--subset=(\w+)", run["command"])
    return [f"{run['env']}, {whats[found[1] if found else '']}"]


def _method_and_setting(run: Row) -> str:
    return run["group"].replace(f"-{_task(run)}", "").removesuffix("-all").replace("-", " ")


def _dimensions(run: Row) -> str:
    dimensions = dimensions_of(run)
    return f"{dimensions:,} dimensions" if dimensions else "all parameters"


def _frame_skip(run: Row) -> str:
    return f"frame skip {frame_skip_of(run)}"


def _one(run: Row) -> int:
    return 1


class Picture(NamedTuple):
    """A part's picture: the panels in which a group is drawn, its name there, and the axis."""

    titles: Callable[[Row], list[str]]
    label: Callable[[Row], str]
    axis: str = "env steps"
    frames: Callable[[Row], int] = _one
    """Units of the axis for each env step."""
    fewest: int = 2
    """Curves of a panel: the preset's alone compares nothing."""


PICTURES: Mapping[str, Picture] = MappingProxyType(
    {
        "es-subspaces": Picture(_by_task, _dimensions),
        "es-initial-weights": Picture(_by_observations, _initial_weights),
        "es-variants": Picture(_by_variant, _setting),
        "es-beside-others": Picture(_by_task, _method_and_setting),
        "es-frame-skip": Picture(_by_task, _frame_skip, "frames of the emulator", frame_skip_of),
        "aes-rl": Picture(_by_task, competitor),
        "humanoid": Picture(_by_task_if_long, lambda run: run["method"], fewest=1),
        "hts-goals": Picture(_by_task_and_budget, lambda run: run["method"]),
    }
)
