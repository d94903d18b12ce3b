"""Matplotlib, imported without settings that lie about in the current directory."""

import contextlib
import importlib
import os
import sys
from pathlib import Path


def import_matplotlib() -> None:
    """Import matplotlib where no `matplotlibrc` of the current directory is read.

    The first import reads one before the user's own, and the current directory may be a stranger's.
    It cannot be told to leave it out, so the import happens in the root directory.
    """
    if "matplotlib" in sys.modules:
        return
    try:
        elsewhere = contextlib.chdir(Path(os.getcwd()).anchor)
    except FileNotFoundError:  # the current directory is gone, and holds no file
        elsewhere = contextlib.nullcontext()
    with elsewhere:
        importlib.import_module("matplotlib")
