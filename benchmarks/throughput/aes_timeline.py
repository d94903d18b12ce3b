"""Waits between processes: five workers' time with a barrier between generations, and without.

Draws some seconds of `p-cem-rl --clock wall`, `aes --clock wall` and `aes` under the virtual clock
from the runs' own `timeline.json`. Episodes sleep (`napping.py`); no individual is refined and no
mean is evaluated, so every bar is one individual's life.

    python benchmarks/throughput/aes_timeline.py --out docs/images/aes-timeline.png
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from napping import MEAN_STEPS, SHAPES, STEP_SECONDS

from drumline.display.plots import PALETTE

HERE = Path(__file__).resolve().parent
WORKERS = 5
ALIKE = ["--mean-evaluations", "0", "--warmup-steps", "0", "--concurrency", str(WORKERS)]
GOES_ON = [*ALIKE, "--p-desired", "0", "--env-step-cost", str(round(STEP_SECONDS * 1e9))]
RUNS = {
    "p-cem-rl: ten individuals, then a barrier": (
        "p-cem-rl",
        [*ALIKE, "--clock", "wall", "--critic", "parallel", "--refined-members", "0"],
    ),
    "aes --clock wall": ("aes", [*GOES_ON, "--clock", "wall"]),
    "aes, virtual clock": ("aes", GOES_ON),
}


class Life(NamedTuple):
    """When a logical worker lived an individual, in seconds."""

    worker: int
    start: float
    end: float


def lives(method: str, law: str, words: list[str], individuals: int, out: Path) -> list[Life]:
    """Train, and return what the logical workers did."""
    words = [*words, "--total-steps", str(individuals * MEAN_STEPS), "--hidden", "8", "--quiet"]
    words += ["--evaluate-every", "0", "--evaluate-episodes", "1", "--no-promise"]
    python = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    words += ["--out", str(out), "--no-tensorboard"]
    subprocess.run(
        [sys.executable, "-m", "drumline", "train", method, f"napping:{law}", *words],
        env={**os.environ, "PYTHONPATH": python},
        check=True,
    )
    events = json.loads((out / "timeline.json").read_text())["traceEvents"]
    spans = [event for event in events if event.get("cat") == "logical worker"]
    return [Life(e["tid"], e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6) for e in spans]


def window(found: Sequence[Life], skipped: int, seconds: float) -> tuple[list[Life], float]:
    """Return the lives within the seconds after the first ones began; and the share that is idle.

    Start-up is no part of the picture, so a few individuals are skipped.
    """
    begin = sorted(life.start for life in found)[skipped]
    end = begin + seconds
    if max(life.end for life in found) < end:
        raise ValueError(f"the run ends before {seconds} s have passed: let it live more")
    inside = [
        Life(life.worker, max(life.start, begin) - begin, min(life.end, end) - begin)
        for life in found
        if life.end > begin and life.start < end
    ]
    busy = sum(life.end - life.start for life in inside)
    return inside, 1 - busy / (WORKERS * seconds)


def draw(panels: dict[str, tuple[list[Life], float]], seconds: float, image: Path) -> None:
    """Draw a line per worker and a bar per individual."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.9 * len(panels)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes: list[Any] = figure.subplots(len(panels), 1, sharex=True).ravel().tolist()
    for axis, (name, (inside, idle)) in zip(axes, panels.items(), strict=True):
        for worker in range(WORKERS):
            bars = sorted((x.start, x.end - x.start) for x in inside if x.worker == worker)
            colors = [PALETTE[0] if n % 2 else PALETTE[4] for n in range(len(bars))]
            axis.broken_barh(bars, (worker - 0.4, 0.8), facecolors=colors)
        ended = sum(life.end < seconds for life in inside)
        axis.set_title(f"{name}: {ended} lives ended, workers idle {idle:.0%}", fontsize=10)
        axis.set_yticks(range(WORKERS), [f"worker {n}" for n in range(WORKERS)], fontsize=8)
        axis.set_ylim(WORKERS - 0.5, -0.5)
        axis.set_xlim(0, seconds)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("seconds")
    figure.savefig(image, format="png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--law", default="exponential", choices=list(SHAPES))
    parser.add_argument("--seconds", type=float, default=6.0)
    options = parser.parse_args()
    skipped = 4 * WORKERS
    individuals = 2 * skipped + round(2 * WORKERS * options.seconds / (MEAN_STEPS * STEP_SECONDS))
    with tempfile.TemporaryDirectory() as folder:
        panels = {
            name: window(
                lives(method, options.law, words, individuals, Path(folder) / str(number)),
                skipped,
                options.seconds,
            )
            for number, (name, (method, words)) in enumerate(RUNS.items())
        }
    for name, (_, idle) in panels.items():
        print(f"{name}: workers idle {idle:.1%}")
    draw(panels, options.seconds, options.out)


if __name__ == "__main__":
    main()
