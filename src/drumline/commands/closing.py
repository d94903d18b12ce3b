"""Words about returns, and the last lines of a finished run."""

import os
import sys
from collections.abc import Sequence

import numpy as np

from drumline.display.dashboard import Display, choose_display
from drumline.display.run_data import last_returns
from drumline.functional.statistics import mean_interval
from drumline.runs.folder import RunFolder
from drumline.runs.next_commands import as_typed
from drumline.runs.safe_text import visible


def display_for(*, quiet: bool, json: bool) -> Display:
    """Return the display of a run on standard output."""
    return choose_display(sys.stdout, quiet=quiet, json=json, environ=os.environ)


def say_finished(folder: RunFolder) -> None:
    """Print the run folder, the outcome and the next command to try."""
    print(visible(folder.path))
    returns = last_returns(folder.path)
    if returns:
        print(mean_line(returns))
    commands = (as_typed(folder, name) for name in ("plot", "enjoy", "verify"))
    print("next: " + " · ".join(map(visible, commands)))


def mean_line(returns: Sequence[float]) -> str:
    """Return the mean of episode returns in words, with its interval if there is one."""
    mean = f"return {sum(returns) / len(returns):.1f}"
    if len(returns) == 1:
        return f"{mean}, 1 episode"
    interval = mean_interval(np.array(returns))
    low, high = f"{interval.low:.1f}", f"{interval.high:.1f}"
    return f"{mean}, 95 % interval {low} to {high}, {len(returns)} episodes"
