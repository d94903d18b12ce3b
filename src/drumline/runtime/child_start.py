"""First and last steps of every child process."""

import ctypes
import faulthandler
import io
import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1


def begin(parent: int) -> None:
    """Tie this process to its parent, ignore Ctrl-C, and print a traceback if a library crashes.

    If the driver died before the kernel was asked, this process already has another parent, and
    ends.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    stdout: Any = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # So a line is whole where other processes print too, and outlives a kill.
        stdout.reconfigure(line_buffering=True, write_through=False)


def leave(code: int) -> NoReturn:
    """End without the interpreter's tear-down, in which native libraries are slow or crash."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)
