"""Code from outside drumline, named as module:name: environments, networks, strategies, methods.

`CodeTrust` is the gate in front of every import of code that a run folder names.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drumline.commands.command_line import CommandLine
from drumline.envs.make import refuse_registered_here
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.policy_files import StoredPolicy


class UntrustedCode(RunError):
    """A run folder names code to import, and the user has not said that it may."""


@dataclass(frozen=True)
class CodeTrust:
    """Whether the user trusts the code that a run folder names, and the words that say so.

    Each function that may import such code takes a `CodeTrust` and asks it first.
    """

    given: bool
    again: str = ""
    """The command to repeat with trust; empty in Python, where `drumline.load` is named."""

    def run(self, folder: RunFolder) -> None:
        """Raise UntrustedCode if training would import code that config.json names."""
        self._admit(folder.path, folder.named_code())

    def method(self, folder: RunFolder) -> None:
        """Raise UntrustedCode if the class of the run's config is code that config.json names."""
        self._admit(folder.path, folder.named_method())

    def policy(self, stored: StoredPolicy) -> None:
        """Raise UntrustedCode if episodes would import code that a policy file names."""
        self._admit(stored.path.parent, stored.named_code())

    def _admit(self, folder: Path, named: Sequence[str]) -> None:
        if named and not self.given:
            again = self.again or f"drumline.load({str(folder)!r}, trust_code=True)"
            raise UntrustedCode(
                f"{folder} names code to import ({', '.join(named)}); if you trust it: {again}"
            )
        if named:
            importable_cwd()


UNTRUSTED, TRUSTED = CodeTrust(given=False), CodeTrust(given=True)


def trust_of(line: CommandLine, *, trust_code: bool) -> CodeTrust:
    """Return the trust that a command line gives."""
    return CodeTrust(trust_code, line.again("--trust-code"))


def refuse_code_of_main(config: Any, layout: Any) -> None:
    """Refuse names from a script or notebook if other processes would have to import them."""
    if type(config).__module__ == "__main__":
        raise ValueError(
            f"the method {type(config).__name__} lives in the script or notebook itself, where no "
            "later process could find it: put it into a module"
        )
    if layout.pool != "inline":
        refuse_registered_here(config.env)
    for field in ("env", "policy", "network", "objective", "initial"):
        name = getattr(config, field, "")
        if layout.pool != "inline" and name.startswith("__main__:"):
            raise ValueError(
                f"{name!r} lives in the script or notebook itself, which workers cannot import: "
                'put it into a module, or use workers="inline" (--pool inline)'
            )


def importable_cwd() -> None:
    """Make the current directory importable, for names that the user typed or trusts."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
