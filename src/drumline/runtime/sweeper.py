"""Sweeper: a process beside the driver that kills its descendants once the driver has ended.

The kernel ends a worker with the driver, but not the processes that an environment has started. So
every worker carries a mark in its environment variables, which its descendants inherit, in whatever
group or session they are. The sweeper holds one end of a pipe whose other end only the driver has.
When that closes, however the driver ended, it kills every process that has the mark.

This needs /proc (Linux). Elsewhere only the groups of workers are killed, by a living driver.
"""

import os
import secrets
import sys
from contextlib import suppress

_PROGRAM = """
import os, sys, time
mark = sys.argv[1].encode()
os.chdir("/")
while os.read(0, 1):
    pass
quiet = 0
for _ in range(200):  # a process may be starting another one meanwhile
    found = 0
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            try:
                with open("/proc/" + name + "/environ", "rb") as file:
                    marked = mark in file.read()
                with open("/proc/" + name + "/stat", "rb") as file:
                    ended = file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
                if marked and not ended:
                    os.kill(int(name), 9)
                    found += 1
            except OSError:
                pass
    quiet = 0 if found else quiet + 1
    if quiet == 2:
        break
    time.sleep(0.02)
"""


class Sweeper:
    """The mark of a driver's workers, and the sweeping process, started with the first of them."""

    def __init__(self):
        self._owner = 0
        self._mark = ""

    def mark(self) -> dict[str, str]:
        """Return the variable that marks a worker; starts the sweeping process if there is none.

        A copy of the driver made by fork has workers of its own, and gets a sweeper of its own.
        """
        if self._owner != os.getpid():
            # The name differs between drivers: one that runs inside a worker keeps both marks.
            self._mark = f"DRUMLINE_WORKER_{secrets.token_hex(8)}"
            if sys.platform == "linux" and os.access("/proc/self/environ", os.R_OK):
                _start(f"{self._mark}=1")
            self._owner = os.getpid()
        return {self._mark: "1"}


SWEEPER = Sweeper()
"""The sweeper of this process."""


def _start(mark: str) -> None:
    """Start the sweeping process: in a session of its own, with nothing of the driver's open."""
    read_fd, write_fd = os.pipe()  # the writing end stays open until the driver ends
    try:
        arguments = [sys.executable, "-I", "-S", "-c", _PROGRAM, mark]
        files = [
            (os.POSIX_SPAWN_DUP2, read_fd, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        # Few variables: the marks of a driver above would have it killed with that one's workers.
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        try:
            os.posix_spawn(sys.executable, arguments, kept, file_actions=files, setsid=True)
        except NotImplementedError:  # an old C library
            os.posix_spawn(sys.executable, arguments, kept, file_actions=files, setpgroup=0)
    except BaseException:
        with suppress(OSError):
            os.close(write_fd)
        raise
    finally:
        os.close(read_fd)
