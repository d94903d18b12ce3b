"""Stable-Baselines3's logs: monitor files of training episodes, and `evaluations.npz`.

A monitor file is CSV below a comment: `#{"t_start": 1700000000.0, "env_id": "CartPole-v1"}`, then
columns r (return), l (length) and t (seconds since t_start), a row per episode; each environment of
a run has a file of its own. `EvalCallback` writes `evaluations.npz` with the arrays timesteps `[M]`
and results `[M, episodes]`.
"""

import heapq
import math
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from drumline.display.foreign_runs import (
    UNKNOWN,
    Episode,
    Evaluations,
    ForeignRun,
    curve_of_episodes,
    without_number,
)
from drumline.runs.append_file import whole_lines
from drumline.runs.own_files import is_there, size_of
from drumline.runs.run_error import RunError
from drumline.runs.strict_json import parsed

_ENDING = "monitor.csv"
_MOST_BYTES = 1 << 28
"""Largest `evaluations.npz` that is read, as it lies and unpacked."""


class _Start(NamedTuple):
    seconds: float
    env_id: str
    columns: tuple[int, int, int]
    """Places of r, l and t."""
    cells: int


def files_at(path: Path) -> list[Path]:
    """Return the monitor files at `path`: those in a folder, or the file itself."""
    if path.is_dir():
        return sorted(path.glob(f"*{_ENDING}"))
    return [path] if path.name.endswith(_ENDING) and path.is_file() else []


def read(path: Path, files: Sequence[Path]) -> ForeignRun:
    """Return the run of some monitor files; episodes of all files in the order of their ends."""
    starts = {file: _start(file) for file in files}
    began = min(start.seconds for start in starts.values())
    every = [_ends(file, start, began) for file, start in starts.items()]
    steps = 0.0

    def episodes() -> Iterator[Episode]:
        nonlocal steps
        for seconds, length, episode_return in heapq.merge(*every):
            steps += length
            yield Episode(steps, seconds, episode_return)

    env_id = next(iter(starts.values())).env_id
    folder = path if path.is_dir() else path.parent
    curve = curve_of_episodes(path, episodes(), _evaluations(folder))
    document = {
        "method": f"stable-baselines3 {_algorithm(path, env_id)}",
        "config": {"env": env_id},
    }
    return ForeignRun(document, curve)


def _algorithm(path: Path, env_id: str) -> str:
    """Return the name of a run's setting: its folder's, in the zoo the folder's above it."""
    folder = (path if path.is_dir() else path.parent).resolve()
    name = without_number(folder.name)
    return folder.parent.name if name == env_id.replace("/", "-") else name


def _start(path: Path) -> _Start:
    lines = whole_lines(path)
    comment, header = next(lines, b""), next(lines, b"").decode(errors="replace")
    columns = header.rstrip("\r\n").split(",")
    if not comment or not header:
        raise RunError(f"{path} ends before its first episode: nothing to compare")
    try:
        if not comment.startswith(b"#"):
            raise ValueError("its first line is no comment")
        facts = parsed(comment[1:])
        seconds = float(facts["t_start"])
        if not math.isfinite(seconds):
            raise ValueError("t_start is not finite")
        env_id = facts.get("env_id")
        places = (columns.index("r"), columns.index("l"), columns.index("t"))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RunError(f"{path} is no monitor file of Stable-Baselines3: {error}") from error
    if not isinstance(env_id, str) or env_id in ("", "None"):
        env_id = UNKNOWN
    return _Start(seconds, env_id, places, len(columns))


def _ends(path: Path, start: _Start, began: float) -> Iterator[tuple[float, float, float]]:
    """Yield (seconds since the run began, length, return) of a file's episodes, in order.

    A run that went on appends to its file with a clock that begins anew: its seconds follow on.
    """
    before = latest = 0.0
    for number, line in enumerate(whole_lines(path), start=1):
        if number <= 2:
            continue
        try:
            cells = line.decode().rstrip("\r\n").split(",")
            if len(cells) != start.cells:
                raise ValueError(f"{len(cells)} cells instead of {start.cells}")
            episode_return, length, seconds = (float(cells[place]) for place in start.columns)
            if not math.isfinite(seconds) or not 0 <= length < math.inf:
                raise ValueError("a length or a time that is none")
        except ValueError as error:
            raise RunError(f"{path} is damaged: line {number}: {error}") from error
        if seconds < latest:
            before += latest
        latest = seconds
        yield start.seconds - began + before + seconds, length, episode_return


def _evaluations(folder: Path) -> Evaluations | None:
    path = folder / "evaluations.npz"
    if not is_there(path):
        return None
    try:
        if (size_of(path) or 0) > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
        with zipfile.ZipFile(path) as packed:
            if sum(entry.file_size for entry in packed.infolist()) > _MOST_BYTES:
                raise ValueError(f"it unpacks to more than {_MOST_BYTES >> 20} MiB")
        with np.load(path, allow_pickle=False) as arrays:
            steps = np.asarray(arrays["timesteps"], np.float64)
            results = np.asarray(arrays["results"], np.float64)
        if steps.ndim != 1 or results.ndim != 2 or len(steps) != len(results):
            raise ValueError(f"timesteps {steps.shape} and results {results.shape} do not fit")
        if not results.size:
            return None
    except (ValueError, LookupError, OSError, EOFError, zipfile.BadZipFile, MemoryError) as error:
        raise RunError(f"{path} is damaged: {error}; remove it to compare without it") from error
    count = results.shape[1]
    error = results.std(axis=1, ddof=1) / math.sqrt(count) if count > 1 else np.zeros(len(steps))
    return Evaluations(steps, results.mean(axis=1), error)
