"""Generators and threads of the calling process, which a call from Python gives back."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from drumline import seeding


@contextmanager
def process_as_found() -> Iterator[None]:
    """Restore the global generators and torch's threads at the end.

    A torch that is loaded meanwhile is left as a fresh one is.
    """
    torch: Any = sys.modules.get("torch")
    threads = None if torch is None else torch.get_num_threads()
    try:
        with seeding.kept_globals():
            yield
    finally:
        loaded: Any = sys.modules.get("torch")
        if loaded is not None and threads is not None:
            loaded.set_num_threads(threads)
        elif loaded is not None:
            from drumline.functional.torch_threads import unlimited_threads

            loaded.seed()  # a fresh torch draws its seed
            loaded.set_num_threads(unlimited_threads())
