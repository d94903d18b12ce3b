"""Words about returns, and the last lines of a finished run."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drumline.api.run_document import promises
from drumline.display.dashboard import Display, choose_display
from drumline.display.plain import json_line
from drumline.display.run_data import last_returns
from drumline.functional.statistics import mean_interval
from drumline.runs.folder import RunFolder
from drumline.runs.metrics import last_evaluation
from drumline.runs.next_commands import as_typed
from drumline.runs.own_files import is_there
from drumline.runs.problem import has_objective, words_of
from drumline.runs.safe_text import visible
from drumline.runs.tables import read_table


def display_for(*, quiet: bool, json: bool) -> Display:
    """Return the display of a run on standard output."""
    return choose_display(sys.stdout, quiet=quiet, json=json, environ=os.environ)


def say_finished(folder: RunFolder) -> None:
    """Print the run folder, the outcome and the next command to try."""
    print(visible(folder.shown))
    returns, config = last_returns(folder.path), folder.document["config"]
    if returns:
        print(mean_line(returns, config))
    shown = "evaluate" if has_objective(config) else "enjoy"
    names = ["plot", shown, "verify"] if promises(folder) else ["plot", shown]
    commands = (as_typed(folder, name) for name in names)
    print("next: " + " · ".join(map(visible, commands)))


def say_finished_in_json(folder: RunFolder) -> None:
    """Print one object with the run folder and the last evaluation, null if there was none."""
    last, evaluation = last_evaluation(folder.evaluations_csv), None
    if last is not None:
        at = {"update": last.update, "env_steps": last.env_steps}
        evaluation = {**at, **summary_of(last.returns), "returns": last.returns}
    print(json_line({"event": "end", "run": folder.shown, "evaluation": evaluation}))


def env_steps_at(folder: RunFolder, update: object) -> int | None:
    """Return the env steps of training up to an update; None where the run has no such row."""
    if not is_there(folder.metrics_csv):
        return None
    table = read_table(folder.metrics_csv)
    if "env_steps" in table.columns and "update" in table.columns:
        for number, steps in table.values(("update", "env_steps"), (int, float)):
            if number == update:
                return int(steps)
    return 0 if update == 0 else None


def summary_of(returns: Sequence[float]) -> dict[str, Any]:
    """Return mean, 95 % interval (null for one episode) and number of episodes, for JSON."""
    interval = mean_interval(np.array(returns))
    return {
        "mean": sum(returns) / len(returns),
        "interval": tuple(interval) if len(returns) > 1 else None,
        "episodes": len(returns),
    }


def mean_line(returns: Sequence[float], config: Mapping[str, Any]) -> str:
    """Return the mean of episode returns, or of an objective's values, in words.

    Objectives may be of any size, so they are written with six digits.
    """
    words, form = words_of(config), "{:.6g}" if has_objective(config) else "{:.1f}"
    mean = f"{words.value} {form.format(sum(returns) / len(returns))}"
    if len(returns) == 1:
        return f"{mean}, 1 {words.episodes.removesuffix('s')}"
    interval = mean_interval(np.array(returns))
    low, high = form.format(interval.low), form.format(interval.high)
    return f"{mean}, 95 % interval {low} to {high}, {len(returns)} {words.episodes}"
