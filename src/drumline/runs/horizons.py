"""Horizons: the total env steps that a run aimed at, from which update on (`--total-steps`).

Step sizes may fall towards the end of a run, so an update depends on the total that held when it
was made.
"""

from drumline.runs.folder import RunError, RunFolder

Horizons = list[list[int]]
"""[update, total_steps], ascending: updates after `update` aimed at `total_steps` env steps."""


def horizons_of(folder: RunFolder) -> Horizons:
    """Return a run's horizons."""
    if "horizons" in folder.document:
        return folder.document["horizons"]
    if "total_steps" not in folder.document["config"]:
        raise RunError(f"{folder.config_json} is damaged (no 'total_steps' in its config)")
    return [[0, folder.document["config"]["total_steps"]]]


def after_resume(horizons: Horizons, update: int, total_steps: int) -> Horizons:
    """Return the horizons of a run that goes on from `update` towards `total_steps`.

    >>> after_resume([[0, 100]], 4, 200)
    [[0, 100], [4, 200]]
    """
    before = [horizon for horizon in horizons if horizon[0] < update]
    if before and before[-1][1] == total_steps:
        return before
    return [*before, [update, total_steps]]
