"""Code from outside drumline, named as module:name: environments, networks, strategies."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drumline.commands.command_line import CommandLine, WrongUse
from drumline.runs.folder import RunFolder


def open_run(line: CommandLine, *, trust_code: bool) -> RunFolder:
    """Open the RUN of the command; the code that its config.json names must be trusted."""
    folder = RunFolder.open(line.name())
    refuse_untrusted(line, folder.path, folder.named_code(), trust_code=trust_code)
    return folder


def refuse_untrusted(
    line: CommandLine, path: Path, named: Sequence[str], *, trust_code: bool
) -> None:
    """Raise WrongUse if a run folder names code to import; the message gives the flag."""
    if named and not trust_code:
        raise WrongUse(
            f"{path} names code to import ({', '.join(named)}); if you trust it: "
            f"{line.again('--trust-code')}"
        )
    if named:
        importable_cwd()


def refuse_code_of_main(config: Any, layout: Any) -> None:
    """Refuse names from a script or notebook if other processes would have to import them."""
    if type(config).__module__ == "__main__":
        raise ValueError(
            f"the method {type(config).__name__} lives in the script or notebook itself, where no "
            "later process could find it: put it into a module"
        )
    for name in (config.env, getattr(config, "policy", ""), getattr(config, "network", "")):
        if layout.pool == "process" and name.startswith("__main__:"):
            raise ValueError(
                f"{name!r} lives in the script or notebook itself, which workers cannot import: "
                'put it into a module, or use workers="inline" (--pool inline)'
            )


def importable_cwd() -> None:
    """Make the current directory importable, for names given on the command line."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
