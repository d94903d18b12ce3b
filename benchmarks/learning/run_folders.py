"""A run folder as the outcome of a command: made, gone on with or read, never of another one."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from printed_config import printed_config

from drumline.recipes.methods import find_method
from drumline.runs.folder import RunFolder

DRUMLINE = [sys.executable, "-m", "drumline"]
LEFT_OPEN = {"engine": "auto", "strategy_budget": 0}
"""Values that older runs recorded of settings that a run finds itself."""


def finished(folder: Path) -> bool:
    """Whether a run came to its end: only there its last policy has been evaluated."""
    description = folder / "policy-last.json"
    return (
        description.exists() and json.loads(description.read_text())["evaluation_mean"] is not None
    )


def bring_to_end(
    folder: Path, method: str, env: str, flags: Sequence[str], layout: Sequence[str]
) -> None:
    """Train, go on where a run was stopped, or leave a finished one as it is.

    Exits where the folder has a run of other settings: that would be taken for the wanted one's.
    """
    exists = (folder / "config.json").exists()
    if exists and (found := differences(folder, method, env, flags)):
        sys.exit(
            f"{folder} has a run of other settings ({'; '.join(found)}): "
            "give another --runs, or delete that folder"
        )
    if exists and finished(folder):
        return
    # Code that the run names is what this command names: the settings are the same.
    resume = ["resume", str(folder), "--trust-code"]
    command = resume if exists else ["train", method, env, *flags]
    out = [] if exists else [f"--out={folder}"]
    subprocess.run([*DRUMLINE, *command, *layout, *out, "--quiet"], check=True)


def differences(folder: Path, method: str, env: str, flags: Sequence[str]) -> list[str]:
    """Return how the settings of a folder's run differ from those that are wanted now."""
    document = RunFolder.open(folder).document
    if document["method"] != method:
        return [f"it is of {document['method']}, not {method}"]
    wanted = resolved(method, env, flags)
    # A setting that an older run does not know could not be set then.
    before = json.loads(json.dumps(asdict(find_method(method).config(env=env))))
    kept = {**before, **document["config"]}
    return [
        f"{name} is {json.dumps(kept[name])} there and {json.dumps(value)} here"
        for name, value in wanted.items()
        if kept[name] not in (value, LEFT_OPEN.get(name, value))
    ]


def resolved(method: str, env: str, flags: Sequence[str]) -> dict[str, Any]:
    """Return what config.json would say."""
    return printed_config(method, [env, *flags])
