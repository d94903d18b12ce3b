"""Logs of other libraries, found where a run of ours is expected, to be compared with ours."""

import os
from pathlib import Path

from drumline.display import monitor_files, tensorboard_logs
from drumline.display.foreign_runs import ForeignRun


def read_foreign(path: Path) -> ForeignRun | None:
    """Return the run whose logs are at `path`, a folder or a file; None where there are none.

    A folder of Stable-Baselines3 has `*monitor.csv`, and `evaluations.npz` where it evaluated; a
    folder of CleanRL has TensorBoard's event files with `charts/episodic_return`. RunError for
    logs that are damaged.
    """
    if os.path.lexists(path / "config.json"):  # no error for a folder that may not be read
        return None
    for reader in (monitor_files, tensorboard_logs):
        if files := reader.files_at(path):
            return reader.read(path, files)
    return None
