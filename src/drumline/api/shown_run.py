"""A run as Python and notebooks show it: one line of words, and its curve as a picture."""

import io

from drumline.runs.folder import RunError, RunFolder
from drumline.runs.problem import words_of
from drumline.runs.run_row import row_of
from drumline.runs.safe_text import visible


def line_of(folder: RunFolder) -> str:
    """Return the run in words: method, environment, seed, steps, score, state; never an error."""
    try:
        row, words = row_of(folder), words_of(folder.document["config"])
    except (RunError, ValueError, OSError):
        return visible(f"Run({folder.shown!r}, damaged)")
    score = "" if row["score"] is None else f", {words.value} {row['score']:.6g}"
    steps = f"{row['steps']:,} {words.steps}{score}"
    problem = f"{row['method']} on {row['environment']}, seed {row['seed']}"
    return visible(f"Run({folder.shown!r}: {problem}, {steps}, {row['state']})")


def curve_of(folder: RunFolder) -> bytes | None:
    """Return the learning curve as a PNG; None where there is none to draw."""
    from drumline.display.plots import curves_figure
    from drumline.display.run_data import read_run

    try:
        figure = curves_figure([read_run(folder.path)])
    except (RunError, ValueError, OSError):
        return None
    data = io.BytesIO()
    figure.savefig(data, format="png")
    return data.getvalue()
