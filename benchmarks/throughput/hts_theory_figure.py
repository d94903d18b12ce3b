"""The figure of `hts_theory.py`: lines are predictions, points are what was measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drumline.display.plots import MARKERS, PALETTE

Row = dict[str, str]
LOOKS = {
    "sliding": ("sliding barrier", PALETTE[0], MARKERS[0]),
    "hard": ("hard barrier (alpha 1: lock-step)", PALETTE[1], MARKERS[1]),
    "none": ("asynchronous", PALETTE[2], MARKERS[2]),
}
TITLES = {
    "exponential:5ms": "exponential",
    "constant:5ms": "constant",
    "gamma:5ms,4": "Gamma(4)",
    "bursts:2.631579ms,26.31579ms,0.1,4": "bursts of 4 slow steps",
    "bursts:2.631579ms,26.31579ms,0.1,64": "bursts of 64 slow steps",
    "straggler:2ms,10": "a straggler, ten times as slow",
}


def draw(rows: Sequence[Row], image: Path, environments: int = 32) -> None:
    """Draw one pair of axes per law, then speed against environments and against executors."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    grid = [row for row in rows if row["part"] == "grid"]
    figure = Figure(figsize=(13, 6.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 4).ravel().tolist()
    of_all = [row for row in grid if int(row["environments"]) == environments]
    for axis, (law, title) in zip(axes, TITLES.items(), strict=False):
        _alphas(axis, [row for row in of_all if row["law"] == law])
        axis.set_title(title, fontsize=10)
    figure.suptitle(f"{environments} environments: lines predicted, points measured", fontsize=11)
    axes[0].legend(frameon=False, fontsize=8, loc="lower right")
    exponential = [row for row in grid if row["law"] == "exponential:5ms"]
    _environments(axes[6], exponential)
    _executors(axes[7], rows)
    for axis in axes:
        axis.set_ylim(0, 1.05 * axis.dataLim.y1)
        axis.tick_params(labelsize=8)
    for axis in (axes[0], axes[4]):
        axis.set_ylabel("env steps per second")
    figure.savefig(image, format="png")


def _alphas(axis: Any, rows: Sequence[Row]) -> None:
    for barrier in ("sliding", "hard"):
        _series(axis, [row for row in rows if row["barrier"] == barrier], "alpha", LOOKS[barrier])
    label, color, _ = LOOKS["none"]
    for row in rows:
        if row["barrier"] == "none":
            axis.axhline(float(row["predicted_env_steps_per_second"]), color=color, label=label)
            measured = float(row["measured_env_steps_per_second"])
            axis.axhline(measured, color=color, linestyle=":", label=f"{label}, measured")
    _powers_of_two(axis, "alpha", [int(row["alpha"]) for row in rows if int(row["alpha"])])


def _environments(axis: Any, rows: Sequence[Row]) -> None:
    lines = (
        ("asynchronous", 2, _of(rows, "none", 0)),
        ("sliding, alpha 128", 0, _of(rows, "sliding", 128)),
        ("hard, alpha 128", 1, _of(rows, "hard", 128)),
        ("lock-step", 3, _of(rows, "hard", 1)),
    )
    for label, look, chosen in lines:
        _series(axis, chosen, "environments", (label, PALETTE[look], MARKERS[look]))
    axis.legend(frameon=False, fontsize=8)
    axis.set_title("exponential", fontsize=10)
    _powers_of_two(axis, "environments", [int(row["environments"]) for row in rows])


def _executors(axis: Any, rows: Sequence[Row]) -> None:
    chosen = [
        row
        for row in _of(rows, "sliding", 64)
        if (row["part"] == "executors" or row["executors"] == row["environments"] == "32")
        and row["actors"] == "0"
    ]
    if not chosen:
        axis.set_axis_off()  # not measured yet
        return
    _series(axis, chosen, "executors", LOOKS["sliding"])
    axis.set_title("exponential, alpha 64", fontsize=10)
    _powers_of_two(axis, "executors", [int(row["executors"]) for row in chosen])


def _of(rows: Sequence[Row], barrier: str, alpha: int) -> list[Row]:
    return [row for row in rows if (row["barrier"], row["alpha"]) == (barrier, str(alpha))]


def _series(axis: Any, rows: Sequence[Row], x: str, look: tuple[str, str, str]) -> None:
    label, color, marker = look
    ordered = sorted(rows, key=lambda row: int(row[x]))
    at = [int(row[x]) for row in ordered]
    predicted = [float(row["predicted_env_steps_per_second"]) for row in ordered]
    measured = [float(row["measured_env_steps_per_second"]) for row in ordered]
    axis.plot(at, predicted, color=color, linewidth=1.2, label=label)
    axis.plot(at, measured, color=color, marker=marker, linestyle="", markersize=5)


def _powers_of_two(axis: Any, name: str, values: Sequence[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(sorted(set(values)), [str(value) for value in sorted(set(values))])
    axis.set_xlabel(name)
