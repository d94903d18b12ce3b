"""A run as a row of a table: its problem, steps, score and state."""

from typing import Any

from drumline.runs.claims import is_claimed
from drumline.runs.folder import RunFolder
from drumline.runs.metrics import last_evaluation
from drumline.runs.own_files import is_there
from drumline.runs.problem import problem_of
from drumline.runs.tables import read_table


def row_of(folder: RunFolder) -> dict[str, Any]:
    """Return the row of a run, by column; its score is the mean of the last evaluation."""
    document, config = folder.document, folder.document["config"]
    steps, evaluation = _env_steps(folder), last_evaluation(folder.evaluations_csv)
    total = config.get("total_steps")
    if is_claimed(folder):
        state = "running"
    elif steps and isinstance(total, int) and steps >= total:
        state = "finished"
    else:
        state = "stopped" if steps else "not begun"
    return {
        "method": document["method"],
        "environment": problem_of(config),
        "seed": config.get("seed"),
        "steps": steps,
        "total_steps": total,
        "score": None if evaluation is None else evaluation.mean,
        "state": state,
        "tags": list(document.get("tags", ())),
    }


def _env_steps(folder: RunFolder) -> int:
    """Return the env steps of training so far."""
    if not is_there(folder.metrics_csv):
        return 0
    table, newest = read_table(folder.metrics_csv), 0
    if "env_steps" in table.columns:
        for (steps,) in table.values(("env_steps",), (int,)):
            newest = steps
    return newest
