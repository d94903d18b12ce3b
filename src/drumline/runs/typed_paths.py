"""Paths as the user typed them: those of the directory in which a command or a call began."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

_begun: ContextVar[Path | None] = ContextVar("begun", default=None)


@contextmanager
def typed_here() -> Iterator[None]:
    """Take this directory as that of all typed paths, though the user's code may leave it."""
    token = None
    if _begun.get() is None:
        with suppress(FileNotFoundError):  # it was removed: only absolute paths can be meant
            token = _begun.set(Path.cwd())
    try:
        yield
    finally:
        if token is not None:
            _begun.reset(token)


def typed(path: Path) -> Path:
    """Return the place that a typed path stands for."""
    begun = _begun.get()
    return path if begun is None else begun / path
