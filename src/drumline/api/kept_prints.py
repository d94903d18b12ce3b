"""Prints of environments: into a file of the run, with the last line on the screen."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from drumline.runs.printed_file import PrintedFile
from drumline.runs.safe_text import visible
from drumline.runtime.printed import PRINTED


@contextmanager
def kept_prints(say: Callable[[str], None] | None) -> Iterator[PrintedFile]:
    """Keep what is printed meanwhile, and `say` a sentence about it at the end; None: keep nothing.

    A command that fails before the file has a place prints what it holds.
    """
    file = PrintedFile()
    if say is None:
        yield file
        return
    told = False

    def keep(data: bytes) -> None:
        nonlocal told
        file.write(data)
        if not told and file.lines and file.path is not None:
            told = True
            with suppress(OSError):  # the reader of the output has gone, as the run will notice
                say(f"what the environment prints goes to {file.shown}")

    try:
        with PRINTED.captured(keep):
            yield file
    except BaseException:
        if file.path is None and file.lines:
            print(visible(file.held, lines=True), end="", file=sys.stderr)
        elif file.lines:
            say(about(file))
        raise
    else:
        if file.lines:
            say(about(file))
    finally:
        file.close()


def unsaid(text: str) -> None:
    """Say nothing about what environments print, as while their spaces are looked at."""


def about(file: PrintedFile) -> str:
    """Return how many lines were printed, the last one, and where they are."""
    where = "" if file.path is None else f" ({file.shown})"
    return f"{file.lines:,} lines were printed by the environment{where}; the last: {file.last}"
