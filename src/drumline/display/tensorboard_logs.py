"""CleanRL's logs: TensorBoard's event files with `charts/episodic_return` at every episode's end.

CleanRL names a run's folder `ENV__EXPERIMENT__SEED__TIME` and writes its settings as a table in
the text `hyperparameters`. A file of another library without that curve is refused by name.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drumline.display.foreign_runs import (
    UNKNOWN,
    Episode,
    ForeignRun,
    curve_of_episodes,
    without_number,
)
from drumline.runs.event_files import events
from drumline.runs.run_error import RunError

RETURNS = "charts/episodic_return"
_SETTINGS = "hyperparameters/text_summary"
_MOST_TEXT = 1 << 16

_NO_SETTING = frozenset(
    (
        *("seed", "env_id", "exp_name", "track", "capture_video", "wandb_project_name"),
        *("wandb_entity", "save_model", "upload_model", "hf_entity"),
    )
)
"""Rows of CleanRL's table that do not tell groups apart, or are read from elsewhere."""


def files_at(path: Path) -> list[Path]:
    """Return the event files at `path`: those in a folder, or the file itself."""
    if path.is_dir():
        return sorted(path.glob("*tfevents*"))
    return [path] if "tfevents" in path.name and path.is_file() else []


def read(path: Path, files: Sequence[Path]) -> ForeignRun:
    """Return the run of some event files."""
    settings: dict[str, str] = {}

    def episodes() -> Iterator[Episode]:
        began: float | None = None
        for event in events(files):
            began = event.wall_time if began is None else began
            for value in event.summary.value:
                if value.tag == RETURNS:
                    yield Episode(float(event.step), event.wall_time - began, _scalar(value))
                elif value.tag == _SETTINGS and not settings:
                    settings.update(_table(value))

    try:
        curve = curve_of_episodes(path, episodes())
    except RunError as error:
        if "no ended episode" not in str(error):
            raise
        raise RunError(
            f"{path} has no {RETURNS}, the curve of CleanRL's logs: nothing to compare"
        ) from error
    folder = (path if path.is_dir() else path.parent).resolve()
    parts = folder.name.split("__")
    env_id, experiment = parts[:2] if len(parts) == 4 else (UNKNOWN, without_number(folder.name))
    document = {
        "method": f"cleanrl {settings.get('exp_name', experiment)}",
        "config": {
            "env": settings.get("env_id", env_id),
            **{name: text for name, text in settings.items() if name not in _NO_SETTING},
        },
    }
    return ForeignRun(document, curve)


def _scalar(value: Any) -> float:
    """Return a scalar of either of TensorBoard's two forms."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    found = value.tensor.float_val
    return float(found[0]) if found else float("nan")


def _table(value: Any) -> dict[str, str]:
    """Return the rows of a Markdown table of two columns."""
    text = b"".join(value.tensor.string_val)[:_MOST_TEXT].decode(errors="replace")
    rows = [line.strip("| ").split("|", 1) for line in text.splitlines()[2:]]
    return {row[0]: row[1] for row in rows if len(row) == 2}
