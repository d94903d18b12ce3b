"""Code that is named, not part of drumline: environments and networks as module:name."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drumline.commands.command_line import CommandLine, WrongUse
from drumline.runs.folder import RunFolder


def open_run(line: CommandLine, *, trust_code: bool) -> RunFolder:
    """Open the RUN that the command is about; what config.json names must be trusted."""
    folder = RunFolder.open(line.name())
    refuse_untrusted(line, folder.path, folder.named_code(), trust_code=trust_code)
    return folder


def refuse_untrusted(
    line: CommandLine, path: Path, named: Sequence[str], *, trust_code: bool
) -> None:
    """Refuse to import names that a run folder gives, and say what to type if it is trusted."""
    if named and not trust_code:
        raise WrongUse(
            f"{path} names code to import ({', '.join(named)}); if you trust it: "
            f"{line.again('--trust-code')}"
        )
    if named:
        importable_cwd()


def refuse_code_of_main(config: Any, layout: Any) -> None:
    """Refuse names from a script or notebook where processes would have to import them."""
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
