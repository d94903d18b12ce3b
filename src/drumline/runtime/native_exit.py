"""Notices native code that ends this process by C's `exit`, past the interpreter."""

import atexit
import ctypes
import sys
from collections.abc import Callable
from typing import Any

_ALIVE: set["NativeExit"] = set()
"""Functions that the C library may still call when the process ends."""


class NativeExit:
    """Calls `called` when the process comes to C's `exit` before `close`, in the thread that does.

    The handler is registered with the C library for a handle of its own, because running a handle's
    handlers is the only way to take one out again: one that ran after the interpreter's end would
    crash. Nothing is noticed with a C library that cannot do this.
    """

    def __init__(self, called: Callable[[], None]):
        self._armed = True
        self._handle = ctypes.create_string_buffer(1)
        self._library: Any = ctypes.CDLL(None)

        def handler(_: object) -> None:
            if self._armed:
                called()

        self._handler = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(handler)
        if sys.platform == "darwin" or hasattr(self._library, "gnu_get_libc_version"):
            self._library["__cxa_atexit"](self._handler, None, ctypes.byref(self._handle))
            _ALIVE.add(self)
            atexit.register(self.close)

    def close(self) -> None:
        """Take the handler out."""
        self._armed = False
        if self in _ALIVE:
            self._library["__cxa_finalize"](ctypes.byref(self._handle))
            _ALIVE.remove(self)
            atexit.unregister(self.close)
