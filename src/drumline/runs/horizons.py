"""How many env steps a run was to make, and from which update on: what `--total-steps` changed.

Step sizes may fall towards the end of a run, so its updates depend on where that was when they were
made.
"""

from drumline.runs.folder import RunFolder

Horizons = list[list[int]]
"""[update, total_steps], ascending: the updates after `update` were made towards `total_steps`."""


def horizons_of(folder: RunFolder) -> Horizons:
    """Return what a run's updates were made towards."""
    return folder.document.get("horizons") or [[0, folder.document["config"]["total_steps"]]]


def after_resume(horizons: Horizons, update: int, total_steps: int) -> Horizons:
    """Return the horizons of a run that goes on from `update` towards `total_steps`.

    >>> after_resume([[0, 100]], 4, 200)
    [[0, 100], [4, 200]]
    """
    before = [horizon for horizon in horizons if horizon[0] < update]
    if before and before[-1][1] == total_steps:
        return before
    return [*before, [update, total_steps]]
