"""How a command ends: every failure becomes one message and an exit code."""

import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TextIO

from drumline.commands.command_line import CommandLine, WrongUse
from drumline.training.stopped import Stopped

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


def ended(command: Callable[[CommandLine], int], line: CommandLine) -> int:
    """Run a command and return its exit code: 1 differs, 2 wrong use, 3 failed, 128 + signal."""
    try:
        with _stoppable():
            return command(line)
    except WrongUse as error:
        return complain(str(error), 2)
    except Stopped as stop:
        if stop.signal_number == signal.SIGPIPE:
            _print_no_more(sys.stdout)
        with suppress(BrokenPipeError):
            print(_stopped(stop), file=sys.stderr, flush=True)
            return 128 + stop.signal_number
        _print_no_more(sys.stderr)
        return 128 + stop.signal_number
    except BrokenPipeError:  # whoever read the output has seen enough
        _print_no_more(sys.stdout)
        return 0
    except Exception as error:  # noqa: BLE001 - the last to see it: everything has an exit code
        code, text = _judged(error)
        if code:
            return complain(text, code)
        traceback.print_exc()
        return 3  # Python's own 1 would say that runs differ


def _print_no_more(stream: TextIO) -> None:
    """Let what is left in a stream that nobody reads go nowhere, so that no flush fails at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(text: str, code: int) -> int:
    """Print one message on stderr and return the exit code, also where nothing can be printed."""
    try:
        print(f"drumline: {text}", file=sys.stderr, flush=True)
    except OSError:  # nobody reads it, or it goes to the disk that is full
        _print_no_more(sys.stderr)
    return code


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end a command alike, wherever it is; a run in its loop is gentler."""
    previous: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as a background job's may be
                previous[number] = signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def _stopped(stop: Stopped) -> str:
    name = signal.Signals(stop.signal_number).name
    if stop.run is None:
        return f"stopped by {name}"
    from drumline.runs.folder import RunFolder
    from drumline.runs.next_commands import as_typed

    command = as_typed(RunFolder.open(stop.run), "resume")
    return f"stopped {stop.run} by {name}; go on with: {command}"


def _judged(error: Exception) -> tuple[int, str]:
    """Return exit code and message; 0 for a fault of drumline's own, whose traceback is wanted."""
    # Imported only now: a command that ends well need not know what else could have failed.
    from drumline.display.video import VideoError
    from drumline.envs.episode import NonFinite
    from drumline.errors import (
        ImpureEnvironment,
        RoleKilled,
        StrategyFailed,
        TaskKilledWorkers,
        WorkerError,
        WorkersLost,
    )
    from drumline.runs.folder import RunError
    from drumline.runs.recorder import RecordingFailed

    failed = (ImpureEnvironment, NonFinite, RecordingFailed, RoleKilled, WorkersLost)
    if isinstance(error, WorkerError):
        if isinstance(error.cause, (NonFinite, FloatingPointError)) and _ours(error.cause):
            return 3, f"{error.cause}{_notes(error)}"  # it says where; the traceback is our own
        return 3, f"{error.error}\n{error.traceback.rstrip()}{_notes(error)}"
    if isinstance(error, StrategyFailed):
        return 3, f"{error}{_raised(error.__cause__)}{_notes(error)}"
    if isinstance(error, TaskKilledWorkers):
        how = ", ".join(error.causes)
        times = f"a task ended its worker {len(error.causes)} times"
        return 3, f"{times} ({how}){_notes(error)}"
    if isinstance(error, (*failed, FloatingPointError)):
        return 3, f"{error}{_notes(error)}"
    if isinstance(error, (RunError, VideoError, ValueError)):
        return 2, str(error)
    if isinstance(error, OSError) and error.errno in _DISK:
        return 3, f"cannot write {error.filename or 'a file'} ({error.strerror})"
    return 0, ""


def _raised(cause: BaseException | None) -> str:
    return "" if cause is None else "\n" + "".join(traceback.format_exception(cause)).rstrip()


def _ours(error: BaseException) -> bool:
    return type(error).__module__.startswith("drumline.")


def _notes(error: BaseException) -> str:
    return "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
