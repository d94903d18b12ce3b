"""Folder for the sessions of a Ray cluster that a test starts."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def ray_folder() -> Iterator[str]:
    """Make a folder and remove it; not pytest's own, because paths of sockets must be short."""
    # Ray notes its address in its own folder too, and does not make that one.
    Path(tempfile.gettempdir(), "ray").mkdir(exist_ok=True)
    folder = tempfile.mkdtemp(prefix="drum")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
