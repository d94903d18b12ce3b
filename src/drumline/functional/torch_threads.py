"""Torch's threads and settings: set for Drumline's work, and kept as they were before."""

import importlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any


def limit_torch(threads: int) -> None:
    """Set the threads of one operator of torch's."""
    unlimited_threads()
    _torch().set_num_threads(threads)


@contextmanager
def one_torch_thread() -> Generator[None]:
    """One thread, for environments and modules of the user's own that use torch, if it is there.

    A sum over two threads has other bits than one over one, and every process is to have the same.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or (threads := torch.get_num_threads()) == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def torch_settings_kept() -> Generator[None]:
    """Put back torch's settings, such as its default dtype, that the user's code has changed.

    A module sets them once, when it is first imported: they would hold in one process and not in
    another, or from one call to the next.
    """
    torch: Any = sys.modules.get("torch")
    before = None if torch is None else _arithmetic().now()
    try:
        yield
    finally:
        if "torch" in sys.modules and _arithmetic().now() != (before or _arithmetic()()):
            (before or _arithmetic()()).set()


def _arithmetic() -> Any:
    from drumline.functional.torch_devices import Arithmetic  # imports torch

    return Arithmetic


@cache
def unlimited_threads() -> int:
    """Return the threads that torch had at the first call, before any `limit_torch`."""
    return _torch().get_num_threads()


def _torch() -> Any:
    return importlib.import_module("torch")
