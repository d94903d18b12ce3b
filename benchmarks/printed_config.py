"""The settings of a run, as `--print-config` prints them."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


def printed_config(method: str, words: Sequence[str]) -> dict[str, Any]:
    """Return what the config.json of `drumline train METHOD WORDS` would say of the method."""
    command = [sys.executable, "-m", "drumline", "train", method, *words, "--print-config"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
