"""Code from outside drumline, named as module:name: environments, networks, strategies, methods.

`CodeTrust` is the gate in front of every import of code that a run folder names.
"""

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drumline.envs.make import refuse_registered_here
from drumline.recipes.named_objects import CODE
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.named_code import code_of_config
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
        self._admit(folder.shown, folder.named_code())

    def method(self, folder: RunFolder) -> None:
        """Raise UntrustedCode if the class of the run's config is code that config.json names."""
        self._admit(folder.shown, folder.named_method())

    def config_file(self, path: str, fields: Mapping[str, Any], typed: Collection[str]) -> None:
        """Raise UntrustedCode if a config file names code that the user has not typed."""
        self._admit(path, [name for name in code_of_config("", fields) if name not in typed])

    def policy(self, stored: StoredPolicy) -> None:
        """Raise UntrustedCode if episodes would import code that a policy file names."""
        self._admit(str(stored.path.parent), stored.named_code())

    def _admit(self, folder: str, named: Sequence[str]) -> None:
        if named and not self.given:
            again = self.again or f"drumline.load({folder!r}, trust_code=True)"
            raise UntrustedCode(
                f"{folder} names code to import ({', '.join(named)}); if you trust it: {again}"
            )
        if named:
            importable_cwd(first=bool(self.again))


UNTRUSTED, TRUSTED = CodeTrust(given=False), CodeTrust(given=True)


def refuse_code_of_main(config: Any, layout: Any) -> None:
    """Refuse names from a script or notebook if other processes would have to import them."""
    if type(config).__module__ == "__main__":
        raise ValueError(
            f"the method {type(config).__name__} lives in the script or notebook itself, where no "
            "later process could find it: put it into a module"
        )
    if layout.pool != "inline":
        refuse_registered_here(config.env)
    for field in CODE:
        name = getattr(config, field, "")
        if layout.pool != "inline" and isinstance(name, str) and name.startswith("__main__:"):
            raise ValueError(
                f"{name!r} lives in the script or notebook itself, which workers cannot import: "
                'put it into a module, or use workers="inline" (--pool inline)'
            )


def refuse_main_of_another_process(config: Any) -> None:
    """Refuse to go on with a run whose code was that of a script or notebook, but not of this."""
    for field in CODE:
        name = getattr(config, field, "")
        if not (isinstance(name, str) and name.startswith("__main__:")):
            continue
        if not hasattr(sys.modules["__main__"], name.partition(":")[2]):
            raise RunError(
                f"{name!r} lived in the script or notebook that began the run, and this process is "
                'another: call drumline.load(PATH, trust_code=True).resume(workers="inline") '
                "there, or put it into a module and begin a run with that"
            )


def importable_cwd(*, first: bool = True) -> None:
    """Make the current directory importable, for names that the user typed or trusts.

    Not `first` where Python called: a module that the caller's script has found stays the same one,
    there and in workers.
    """
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0 if first else len(sys.path), os.getcwd())
