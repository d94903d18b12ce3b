"""What was typed after `drumline COMMAND`: names first, then flags; and how to say it again."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Parse = Callable[[Mapping[str, Any], Sequence[str], str], Mapping[str, Any]]
"""(heading → flags as they are by default, words, program) → heading → flags as typed."""


class WrongUse(Exception):
    """One sentence about what was typed."""


def refuse_unwritable(out: Path) -> None:
    """Raise if --out cannot become a file: before the work, not after it."""
    folder = out.parent
    if out.is_dir():
        raise WrongUse(f"cannot write {out}: it is a folder; give a file with --out")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        problem = "is read-only" if folder.is_dir() else "does not exist"
        raise WrongUse(f"cannot write {out}: {folder} {problem}; give another --out")


@dataclass(frozen=True)
class CommandLine:
    """One command's words, and the parser of its flags."""

    command: str
    words: Sequence[str]
    parse: Parse

    @property
    def names(self) -> list[str]:
        """Return the words before the first flag."""
        names: list[str] = []
        for word in self.words:
            if word.startswith("-"):
                break
            names.append(word)
        return names

    @property
    def asks_for_help(self) -> bool:
        """Whether nothing but the flags are to be shown."""
        return bool({"-h", "--help"} & set(self.words))

    def name(self) -> str:
        """Return the one RUN that the command is about."""
        names = self.names
        if not names:
            raise WrongUse(
                f"give a RUN before the flags (a path, a name under runs/, or last), "
                f"as in: drumline {self.command} last"
            )
        if len(names) > 1:
            raise WrongUse(f"{self.command} takes one RUN, got {' '.join(names)}")
        return names[0]

    def flags(self, shown: str, parts: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `parts` with what was typed; `--help` shows them and exits."""
        rest = self.words[len(self.names) :]
        return self.parse(parts, rest, f"{self.command} {shown}")

    def again(self, *more: str) -> str:
        """Return what was typed with `more` behind it, ready to be typed."""
        return shlex.join(["drumline", self.command, *self.words, *more])
