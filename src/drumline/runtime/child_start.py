"""What every child process does first and last."""

import ctypes
import faulthandler
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


def begin(parent: int) -> None:
    """Die with the parent, leave Ctrl-C to the driver, and print a traceback if a library crashes.

    The driver may have died before the kernel was asked: then this process has another parent.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()


def leave(code: int) -> NoReturn:
    """End without the interpreter's tear-down: native libraries are slow or crash there."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)
