"""A process that watches a driver while the driver steps environments, and says how it ended.

    python guardian.py PID MEMORY_FD PIPE_FD HANG_SECONDS CREATION_SECONDS REST

The driver closes its end of the pipe when it ends, however that comes about. It notes in the memory
where it is; a step costs it one store. This file is run by its path and imports no package, so that
the process is small and ready soon. REST ends its sentence.
"""

import mmap
import os
import select
import signal
import sys
import time

OUTSIDE, STEPPING, DEBUGGED, BUILDING = range(4)
"""States: in a debugger an environment may stand still for as long as its user likes, and its first
reset and step may take as long as its creation."""

STATE, STEP, LENGTH, SIGNS = range(4)
"""The words of the memory; LENGTH is the number of bytes of the text behind them, and SIGNS counts
signs of life that are no steps."""

TEXT = 64
SIZE = 4096
_ABORT_SECONDS = 5.0


def main() -> None:
    """Watch until the driver closes its end of the pipe."""
    pid, memory_fd, pipe = map(int, sys.argv[1:4])
    hang, creation = map(float, sys.argv[4:6])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the driver's to handle; its end ends this process
    memory = mmap.mmap(memory_fd, SIZE)
    words = memoryview(memory)[:TEXT].cast("q")
    tick = min(1.0, hang / 4)
    seen, still, before = None, 0.0, time.monotonic()
    poll = select.poll()
    poll.register(pipe, select.POLLIN | select.POLLHUP)
    while not poll.poll(tick * 1000.0):
        now = time.monotonic()
        elapsed, before = min(now - before, 2 * tick), now  # a sleeping machine is no hang
        state = words[STATE]
        numbers = (state, words[STEP], words[LENGTH], words[SIGNS])
        mark = (*numbers, bytes(memory[TEXT : TEXT + 64]))
        watched = state in (STEPPING, BUILDING) and not _stopped(pid)
        limit = max(hang, creation) if state == BUILDING else hang
        still = still + elapsed if watched and mark == seen else 0.0
        seen = mark
        if still >= limit:
            flag = "--creation-seconds" if limit > hang else "--hang-seconds"
            _say(f"{place(memory, words)} has hung for {still:.0f} s ({flag} {limit:g})")
            words[STATE] = OUTSIDE
            _end(pid, poll)
            return
    if words[STATE] != OUTSIDE:
        how = "by a crash or an exit of its own, unless it was killed (kill -9, out of memory)"
        _say(f"{place(memory, words)} has ended the process, {how}")


def place(memory: "mmap.mmap", words: "memoryview[int]") -> str:
    """Return where the driver is, in words."""
    text = bytes(memory[TEXT : TEXT + words[LENGTH]]).decode(errors="replace")
    return f"{text}, after step {words[STEP]},"


def _say(text: str) -> None:
    os.write(2, f"drumline: {text}{sys.argv[6]}\n".encode())


def _end(pid: int, poll: "select.poll") -> None:
    os.kill(pid, signal.SIGABRT)  # faulthandler prints the driver's stack
    if not poll.poll(_ABORT_SECONDS * 1000.0):
        os.kill(pid, signal.SIGKILL)


def _stopped(pid: int) -> bool:
    """Return whether the driver is suspended, as by Ctrl-Z or a debugger."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False


if __name__ == "__main__":
    main()
