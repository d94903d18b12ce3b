"""Guard: notes where the driver steps environments, for a guardian process that says how it ended.

A worker process that dies is seen by the driver; nothing but its parent sees the driver. An
environment in the driver may hang, crash in native code or call `os._exit`, without a word.
"""

import faulthandler
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from drumline.runtime import guardian
from drumline.runtime.guardian import (
    BUILDING,
    DEBUGGED,
    LENGTH,
    OUTSIDE,
    SIGNS,
    SIZE,
    STATE,
    STEP,
    STEPPING,
    TEXT,
)
from drumline.runtime.native_exit import NativeExit
from drumline.runtime.shared_arrays import anonymous_file

_FAILED_RUN = 3


class Guard:
    """A `Whereabouts` over memory that a guardian reads; close it when the run ends."""

    def __init__(self, hang_seconds: float, creation_seconds: float = 0.0, *, run: bool = False):
        """`creation_seconds`: the limit of calls in `building`, if it is the longer one.

        `run`: the driver trains, and its end leaves a run that can go on.
        """
        self._owner = os.getpid()
        self.entered = 0
        fd = anonymous_file("drumline-guard")
        read_end, self._pipe = os.pipe()
        try:
            os.truncate(fd, SIZE)
            self._memory = mmap.mmap(fd, SIZE)
            self._words = memoryview(self._memory)[:TEXT].cast("q")
            self.step = self._words[STEP : STEP + 1]
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", guardian.__file__),
                    *map(str, (os.getpid(), fd, read_end, hang_seconds, creation_seconds)),
                    "; the run can go on from its last checkpoint" if run else "",
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(fd, read_end),
                process_group=0,
                cwd=Path(sys.executable).anchor,
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(fd)
            os.close(read_end)
        self._had_handler = faulthandler.is_enabled()
        if not self._had_handler:
            with suppress(ValueError, OSError, RuntimeError):  # a notebook's stderr is no file
                faulthandler.enable()
        self._exit: Callable[[int], NoReturn] = os._exit
        os._exit = self._exited
        self._native_exit = NativeExit(self._exited_natively)
        self._stepping, self._building = STEPPING, False
        self._breakpoint = sys.breakpointhook
        sys.breakpointhook = self._at_breakpoint

    def enter(self, where: str) -> None:
        """Note the environment that is stepped from here on, before its first step."""
        self.entered += 1
        text = where.encode()[: SIZE - TEXT]
        self._words[STATE] = OUTSIDE
        self._memory[TEXT : TEXT + len(text)] = text
        self._words[LENGTH], self._words[STEP] = len(text), 0
        self.again()

    def progress(self, amount: int) -> None:
        """Count steps."""
        self.step[0] += amount

    def leave(self) -> None:
        """Note that no environment is stepped from here on."""
        self._words[STATE] = OUTSIDE

    def again(self) -> None:
        """Note that the environment of the latest `enter` is stepped again."""
        state = DEBUGGED if sys.gettrace() is not None else self._stepping
        self._words[STATE] = BUILDING if self._building and state == STEPPING else state

    def alive(self) -> None:
        """Count a sign of life that is no step."""
        self._words[SIGNS] += 1

    @contextmanager
    def building(self) -> Generator[None]:
        """Give the calls within the time of a creation: a first reset or step may compile."""
        words, self._building = self._words, True
        if words[STATE] == STEPPING:
            words[STATE] = BUILDING
        try:
            yield
        finally:
            self._building = False
            if words[STATE] == BUILDING:
                words[STATE] = STEPPING

    def close(self) -> None:
        """End the guardian, which says nothing then."""
        if os.getpid() != self._owner:
            return
        self.leave()
        self._native_exit.close()
        os._exit = self._exit
        sys.breakpointhook = self._breakpoint
        if not self._had_handler:
            faulthandler.disable()
        with suppress(OSError):  # a child of the user's that was forked may hold the pipe open
            os.write(self._pipe, b"\0")
        os.close(self._pipe)
        self._process.wait()

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _at_breakpoint(self, *arguments: Any, **named: Any) -> Any:
        if self._words[STATE] in (STEPPING, BUILDING):
            self._words[STATE] = DEBUGGED
        self._stepping = DEBUGGED
        return self._breakpoint(*arguments, **named)

    def _exited(self, code: int) -> NoReturn:
        """Stand in for `os._exit`: an environment must not end a run as if all were well."""
        if os.getpid() != self._owner or self._words[STATE] == OUTSIDE:
            self._exit(code)
        self._say_ended(f"os._exit({code})")
        self._exit(code or _FAILED_RUN)

    def _exited_natively(self) -> None:
        """End the process with a code that is not 0: C's `exit` does not tell its own here."""
        if os.getpid() == self._owner and self._words[STATE] != OUTSIDE:
            self._say_ended("exit() in native code")
            self._exit(_FAILED_RUN)

    def _say_ended(self, call: str) -> None:
        where = guardian.place(self._memory, self._words)
        self.leave()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        with suppress(OSError):
            os.write(2, f"drumline: {where} has called {call}\n".encode())
