"""Generators, threads and arithmetic of the calling process: a call from Python restores them.

Meanwhile torch's settings are those of a fresh process, as in workers: none of the caller's may
change a run's bits.
"""

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from drumline import seeding
from drumline.functional.numpy_threads import one_numpy_thread_from_now

_LOGGER = logging.getLogger("drumline")
_TURN = threading.RLock()
"""Held by the thread whose call uses the process's generators, threads and kernels."""


def _free_in_child() -> None:
    """Give a forked process a lock of its own: the thread that held the other is not there."""
    global _TURN  # noqa: PLW0603 - one per process
    _TURN = threading.RLock()


os.register_at_fork(after_in_child=_free_in_child)


@contextmanager
def process_as_found() -> Iterator[None]:
    """Restore the global generators, and torch's threads and settings, at the end.

    A torch that is loaded meanwhile is left as a fresh one is. Calls from several threads take
    turns: each would change the other's random numbers and arithmetic.
    """
    turn = _TURN
    if not turn.acquire(blocking=False):
        _LOGGER.warning(
            "another thread of this process trains or evaluates: this call waits for its end; "
            "processes can train at the same time"
        )
        turn.acquire()
    try:
        _fill_standard_descriptors()
        with one_numpy_thread_from_now(), _restored():
            yield
    finally:
        turn.release()


def _fill_standard_descriptors() -> None:
    """Open what is closed of standard input, output and error: a pipe there would be taken."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


@contextmanager
def _restored() -> Iterator[None]:
    torch: Any = sys.modules.get("torch")
    threads = None if torch is None else torch.get_num_threads()
    arithmetic: Any = None if torch is None else _arithmetic().now()
    try:
        if torch is not None:
            _arithmetic()().set()  # also float32: a caller's float64 would be mixed with it
        with _plain_modes(torch), seeding.kept_globals():
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


@contextmanager
def _plain_modes(torch: Any) -> Iterator[None]:
    """Leave the modes of torch that the caller is in: autocast, inference, another device."""
    with ExitStack() as left:
        if torch is not None:
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    left.enter_context(torch.autocast(device, enabled=False))
            if torch.is_inference_mode_enabled():
                left.enter_context(torch.inference_mode(False))
            if torch.get_default_device().type != "cpu":
                left.enter_context(torch.device("cpu"))
        yield


def _arithmetic() -> Any:
    from drumline.functional.torch_devices import Arithmetic  # imports torch

    return Arithmetic
