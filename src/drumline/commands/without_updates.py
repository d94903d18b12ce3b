"""Runs that have no update yet, and so no curve."""

import sys
from collections.abc import Sequence

from drumline.display.run_data import has_updates
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.safe_text import visible


def with_updates(folders: Sequence[RunFolder], *, alone: bool = True) -> list[RunFolder]:
    """Return the runs with an update; the others are named on stderr.

    `alone`: these are all that there is to show, so RunError if none is left.
    """
    there = [folder for folder in folders if has_updates(folder.path)]
    names = ", ".join(folder.shown for folder in folders if folder not in there)
    if alone and not there:
        raise RunError(f"{names}: no updates yet, so there is nothing to show; train it on first")
    if names:
        print(f"drumline: left out: {visible(names)}; no updates yet", file=sys.stderr)
    return there
