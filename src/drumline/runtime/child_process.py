"""ChildProcess: a child in a process group of its own, reaped and killed with its group."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from pathlib import Path

from drumline.runtime.printed import PRINTED
from drumline.runtime.sweeper import SWEEPER

EXIT_SECONDS = 1.0
_CLOSING_SECONDS = 5.0
_ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)
_HERE = str(Path(__file__).parents[2])
"""Folder of this `drumline`, which may lie in site-packages."""

_BEGIN = """
import importlib, sys
here, module = sys.argv[1:3]
del sys.argv[1:3]
if here not in sys.path:
    places = (k for k, path in enumerate(sys.path) if path.endswith(("-packages", "-packages/")))
    sys.path.insert(next(places, len(sys.path)), here)
importlib.import_module(module).main()
"""
"""Program of a child: the standard library stays before `here`, and that before other packages."""


class Stillness:
    """Seconds for which a child has shown no sign of work."""

    def __init__(self):
        self._seen: Hashable = None
        self._seconds = 0.0

    def seconds(self, mark: Hashable, elapsed: float) -> float:
        """Return the seconds since `mark` last changed; it changes with the child's work."""
        moved = mark != self._seen
        self._seen = mark
        self._seconds = 0.0 if moved else self._seconds + elapsed
        return self._seconds


class ChildProcess:
    """A child that calls a module's `main`; the kernel ends it with the thread that started it."""

    def __init__(self, module: str, arguments: Sequence[object], fds: Sequence[int]):
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BEGIN, _HERE, module, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=PRINTED.fd,
            env=_environment(),
            pass_fds=tuple(fds),
            process_group=0,
        )
        self.pid = self._process.pid

    def exited(self) -> bool:
        """Return whether the process has ended; if so, the rest of its group is killed at once.

        The group's id is not given to another process while one of the group is left. (`waitid`,
        which could look without reaping, is missing on macOS before Python 3.13.)
        """
        if self._process.returncode is None and self._process.poll() is not None:
            self._kill_group()
        return self._process.returncode is not None

    def kill(self) -> None:
        """Kill the child and every process that an environment has started in its group."""
        if self._process.returncode is None:
            self._kill_group()

    def end(
        self, grace_seconds: float = EXIT_SECONDS, leaving: Callable[[], bool] = lambda: False
    ) -> str:
        """Reap the process, after a kill if it takes too long; return the cause of its death.

        A process that is `leaving`, with nothing left to do but to close its environments, has more
        time.
        """
        deadline = time.perf_counter() + grace_seconds
        while not self.exited():
            late = time.perf_counter() - deadline
            if late >= (_CLOSING_SECONDS if late >= 0 and leaving() else 0.0):
                break
            time.sleep(0.001)
        self.kill()
        code = self._process.wait()
        return _signal_name(-code) if code < 0 else f"exit code {code}"

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal has no name


def _environment() -> dict[str, str]:
    """Return the child's environment variables: one BLAS thread, fixed string hashes, its mark.

    With fixed hashes, the order of a set is the same in all children.
    """
    return {**os.environ, **_ONE_THREAD, "PYTHONHASHSEED": "0", **SWEEPER.mark()}
