"""Generators, threads and arithmetic of the calling process: a call from Python restores them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from drumline import seeding


@contextmanager
def process_as_found() -> Iterator[None]:
    """Restore the global generators, and torch's threads and choice of kernels, at the end.

    A torch that is loaded meanwhile is left as a fresh one is.
    """
    torch: Any = sys.modules.get("torch")
    threads = None if torch is None else torch.get_num_threads()
    arithmetic: Any = None if torch is None else _arithmetic().now()
    try:
        with seeding.kept_globals():
            yield
    finally:
        loaded: Any = sys.modules.get("torch")
        if loaded is not None and threads is not None:
            loaded.set_num_threads(threads)
            arithmetic.set()
        elif loaded is not None:
            from drumline.functional.torch_threads import unlimited_threads

            loaded.seed()  # a fresh torch draws its seed
            loaded.set_num_threads(unlimited_threads())
            _arithmetic()().set()


def _arithmetic() -> Any:
    from drumline.functional.torch_devices import Arithmetic  # imports torch

    return Arithmetic
