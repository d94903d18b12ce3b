"""The end of a command: every failure becomes one message and an exit code."""

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
from drumline.training.stop_signals import STOPPING, leave_closed_terminals
from drumline.training.stopped import Stopped

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


def ended(command: Callable[[CommandLine], int], line: CommandLine) -> int:
    """Run a command; return 0 or 1 (differs), 2 (wrong use), 3 (failed run), 128 + signal."""
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
    except BrokenPipeError:  # the reader of the output closed the pipe, which is no failure
        _print_no_more(sys.stdout)
        return 0
    except Exception as error:  # noqa: BLE001 - outermost handler: every error has an exit code
        code, text = _judged(error)
        if code:
            return complain(text, code)
        traceback.print_exc()
        return 3  # Python's own exit code 1 would mean that runs differ


def _print_no_more(stream: TextIO) -> None:
    """Redirect a stream to /dev/null, so that flushing its rest at exit cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(text: str, code: int) -> int:
    """Print one message on stderr if that is possible; return the exit code."""
    try:
        print(f"drumline: {text}", file=sys.stderr, flush=True)
    except OSError:  # a closed pipe, or a full disk behind it
        _print_no_more(sys.stderr)
    return code


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP raise Stopped; a run's loop has its own handler."""
    previous: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in STOPPING:
            # Ignored as SIGINT in a background job, and as SIGHUP under nohup.
            if signal.getsignal(number) is not signal.SIG_IGN:
                previous[number] = signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    leave_closed_terminals()
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
    """Return exit code and message; 0 for a fault of drumline's own, which needs its traceback."""
    # Imported only here: a command that ends well does not need these modules.
    from drumline.display.video import VideoError
    from drumline.envs.episode import NonFinite
    from drumline.errors import (
        ImpureEnvironment,
        RoleKilled,
        StrategyFailed,
        TaskKilledWorkers,
        WorkerError,
        WorkersLost,
        about_hangs,
    )
    from drumline.runs.folder import RunError
    from drumline.runs.recorder import RecordingFailed

    failed = (ImpureEnvironment, NonFinite, RecordingFailed, RoleKilled, WorkersLost)
    if isinstance(error, WorkerError):
        if isinstance(error.cause, (NonFinite, FloatingPointError)) and _ours(error.cause):
            return 3, f"{error.cause}{_notes(error)}"  # the message says where
        return 3, f"{error.error}\n{error.traceback.rstrip()}{_notes(error)}"
    if isinstance(error, StrategyFailed):
        return 3, f"{error}{_raised(error.__cause__)}{_notes(error)}"
    if isinstance(error, TaskKilledWorkers):
        how = ", ".join(error.causes)
        times = f"a task ended its worker {len(error.causes)} times"
        return 3, f"{times} ({how}){about_hangs(error.causes)}{_notes(error)}"
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
