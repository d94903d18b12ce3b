"""The words after `drumline COMMAND`: names first, then flags; and the command with more flags."""

import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Parse = Callable[[Mapping[str, Any], Sequence[str], str, Collection[str]], Mapping[str, Any]]
"""(heading → flags with their defaults, words, program, fields that help leaves out) → heading →
flags as typed."""

_NAME = re.compile(r"^--[\w-]+(?==|$)")
"""The name of a flag, at the begin of a word."""


class WrongUse(Exception):
    """One sentence for the user about a wrong command line (exit code 2)."""


def refuse_unwritable(out: Path, flag: str = "--out") -> None:
    """Raise WrongUse if `out` cannot be written as a file; called before the work."""
    folder = out.parent
    if out.is_dir():
        raise WrongUse(f"cannot write {out}: it is a folder; give a file with {flag}")
    if out.exists() and not out.is_file():
        raise WrongUse(f"cannot write {out}: it is a device or a pipe; give a file with {flag}")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        problem = "is read-only" if folder.is_dir() else "does not exist"
        raise WrongUse(f"cannot write {out}: {folder} {problem}; give another {flag}")


def refuse_other_pictures(out: Path) -> None:
    """Raise WrongUse if the ending of `out` is that of no picture; called before the work."""
    from drumline.display.plots import FORMATS

    if out.suffix.lower() not in FORMATS:
        raise WrongUse(f"cannot draw {out}: give a file that ends with {', '.join(FORMATS)}")


@dataclass(frozen=True)
class CommandLine:
    """The words of one command, and the parser of its flags."""

    command: str
    words: Sequence[str]
    parse: Parse

    def __post_init__(self) -> None:
        # The parser takes --total_steps as well, and what looks at words knows one spelling.
        words = [_NAME.sub(lambda name: name[0].replace("_", "-"), word) for word in self.words]
        object.__setattr__(self, "words", words)

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
        """Whether the user asks for the most used flags alone."""
        return bool({"-h", "--help"} & set(self.words))

    @property
    def asks_for_all_help(self) -> bool:
        """Whether the user asks for every flag."""
        return "--help-all" in self.words

    def name(self) -> str:
        """Return the one RUN of the command; WrongUse for none or several."""
        names = self.names
        if not names:
            raise WrongUse(
                f"give a RUN before the flags (a path, a name under runs/, or last), "
                f"as in: drumline {self.command} last"
            )
        if len(names) > 1:
            raise WrongUse(f"{self.command} takes one RUN, got {' '.join(names)}")
        return names[0]

    def flags(
        self, shown: str, parts: Mapping[str, Any], hidden: Collection[str] = ()
    ) -> Mapping[str, Any]:
        """Return `parts` with the typed flags; `--help` shows all but `hidden` ones and exits."""
        rest = ["--help" if word == "--help-all" else word for word in self.words]
        return self.parse(parts, rest[len(self.names) :], f"{self.command} {shown}", hidden)

    def value(self, flag: str) -> str:
        """Return the last value typed for a flag that decides other flags' defaults, else ""."""
        found = ""
        for place, word in enumerate(self.words):
            if word == flag:
                found = "".join(self.words[place + 1 : place + 2])
            elif word.startswith(f"{flag}="):
                found = word.partition("=")[2]
        return found

    def refuse_empty(self, *flags: str) -> None:
        """Raise WrongUse if a flag has an empty value, as from a shell's variable without one."""
        for place, word in enumerate(self.words):
            if word in (f"{flag}=" for flag in flags) or (
                word in flags and self.words[place + 1 : place + 2] == [""]
            ):
                name = word.rstrip("=")
                raise WrongUse(f"{name} is empty: give it a value, or leave {name} out")

    def again(self, *more: str) -> str:
        """Return the typed command with `more` words behind it."""
        return shlex.join(["drumline", self.command, *self.words, *more])
