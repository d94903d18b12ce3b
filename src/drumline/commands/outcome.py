"""The end of a command: every failure becomes one message and an exit code."""

import errno
import os
import resource  # without open files, none of these can be imported later
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from traceback import walk_tb
from types import FrameType
from typing import Any, TextIO, TypeGuard

from drumline.commands.command_line import CommandLine, WrongUse
from drumline.runs.safe_text import visible
from drumline.runs.typed_paths import typed_here
from drumline.training.stop_signals import STOPPING, leave_closed_terminals
from drumline.training.stopped import Stopped

_PROCESSES = (errno.EAGAIN, errno.ENOMEM)
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_PLACE = (
    *(errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST),
    *(errno.ENAMETOOLONG, errno.ELOOP),
)
_AGAIN_SECONDS = 0.05
"""Seconds after which a signal is sent again that came where nothing could be raised."""
_FOREIGN = ("drumline.envs.", "drumline.workers.")
"""Modules that call code of the user's."""
_STEPPING = (*_FOREIGN, "drumline.display.video")
"""The same, with the loop of `enjoy`, which also writes to a path of the user's."""


def ended(command: Callable[[CommandLine], int], line: CommandLine) -> int:
    """Run a command; return 0 or 1 (differs), 2 (wrong use), 3 (failed run), 128 + signal."""
    try:
        with _stoppable(), typed_here():
            return _printed(command, line)
    except WrongUse as error:
        return complain(str(error), 2)
    except Stopped as stop:
        if stop.signal_number == signal.SIGPIPE:
            _print_no_more(sys.stdout)
        _say(visible(_stopped(stop)))
        return 128 + stop.signal_number
    except Exception as error:  # noqa: BLE001 - outermost handler: every error has an exit code
        if isinstance(error, BrokenPipeError) and _reader_has_left():  # which is no failure
            _print_no_more(sys.stdout)
            return 0
        code, text = _judged(error)
        if code == 2 and _is_of_foreign_code(error):
            code = 0  # a ValueError of an environment is no wrong use
        if not code and _is_of_a_place(error):
            code, text = 2, f"cannot read or write {error.filename} ({error.strerror})"
        if code:
            return complain(text, code)
        _say(visible(traceback.format_exc().rstrip(), lines=True))
        return 3  # Python's own exit code 1 would mean that runs differ
    finally:
        try:
            _flush()
        except OSError:  # it was said, or the command failed before; Python would exit with 120
            _print_no_more(sys.stdout)


def _printed(command: Callable[[CommandLine], int], line: CommandLine) -> int:
    """Run a command, and write what it printed while a failure to write is still heard."""
    try:
        code = command(line)
    except SystemExit:  # behind a page of flags
        _flush()
        raise
    _flush()
    return code


def _flush() -> None:
    stdout: Any = sys.stdout
    if stdout is None:  # descriptor 1 was closed when this process began
        return
    try:
        stdout.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, "the output") from error


def _reader_has_left() -> bool:
    """Return whether standard output or error is a pipe that is read no more.

    A pipe of an environment's own may break, too.
    """
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # there is none, or it is no file
            poll.register(stream.fileno(), 0)
    return bool(poll.poll(0))  # asked for nothing, it tells errors alone


def _print_no_more(stream: TextIO) -> None:
    """Redirect a stream to /dev/null, so that flushing its rest at exit cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(text: str, code: int) -> int:
    """Print one message on stderr if that is possible; return the exit code."""
    # Only the failure of a run has several lines: a traceback, or a note below.
    _say(f"drumline: {visible(text, lines=code == 3)}")
    return code


def _say(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:  # a closed pipe, or a full disk behind it
        _print_no_more(sys.stderr)


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
        _give_back(previous)


def _give_back(handlers: dict[int, Any]) -> None:
    """Put every handler back, through any number of signals, and then raise Stopped for the last.

    A signal that comes meanwhile is heard in here, and raises between two of them.
    """
    late = None
    while True:
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            break
        except Stopped as stop:
            late = stop
    if late is not None:
        raise late


def _stop(number: int, frame: FrameType | None) -> None:
    leave_closed_terminals()
    if _torch_begins():
        again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
        return
    raise Stopped(number)


def _torch_begins() -> bool:
    """Return whether torch is being imported: an exception there may end the process in C++."""
    torch = sys.modules.get("torch")
    return bool(getattr(getattr(torch, "__spec__", None), "_initializing", False))


def keep_code(code: int) -> None:
    """Let further signals end this process at once, with the code that its command has."""
    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(code))


def _stopped(stop: Stopped) -> str:
    name = signal.Signals(stop.signal_number).name
    if stop.run is None:
        return f"stopped by {name}"
    from drumline.runs.next_commands import as_typed

    command = as_typed(stop.run, "resume")
    return f"stopped {stop.run.shown} by {name}; go on with: {command}"


def _judged(error: Exception) -> tuple[int, str]:
    """Return exit code and message; 0 for a fault of drumline's own, which needs its traceback."""
    scarce = _scarce(error)  # first: without files, nothing more can be imported
    if scarce:
        return 3, f"{scarce}{_notes(error)}"
    # Imported only here: a command that ends well does not need these modules.
    from drumline.display.video import VideoError
    from drumline.envs.environment import EnvironmentProblem, LateFault
    from drumline.envs.episode import NonFinite
    from drumline.errors import (
        CallbackFailed,
        ImpureEnvironment,
        ObjectiveProblem,
        RoleKilled,
        StrategyFailed,
        TaskKilledWorkers,
        WorkerError,
        WorkersLost,
        about_hangs,
    )
    from drumline.runs.folder import RunError
    from drumline.runs.recorder import RecordingFailed

    failed = (ImpureEnvironment, LateFault, NonFinite, RecordingFailed, RoleKilled, WorkersLost)
    if isinstance(error, WorkerError):
        if isinstance(error.cause, LateFault):
            return 3, f"{error.cause}{_notes(error)}"
        if isinstance(error.cause, (EnvironmentProblem, ObjectiveProblem)):
            return 2, str(error.cause)
        if isinstance(error.cause, (NonFinite, FloatingPointError)) and _ours(error.cause):
            return 3, f"{error.cause}{_notes(error)}"  # the message says where
        return 3, f"{error.error}\n{error.traceback.rstrip()}{_notes(error)}"
    if isinstance(error, (CallbackFailed, StrategyFailed)):
        return 3, f"{error}{_raised(error.__cause__)}{_notes(error)}"
    if isinstance(error, TaskKilledWorkers):
        how = ", ".join(error.causes)
        times = f"a task ended its worker {len(error.causes)} times"
        return 3, f"{times} ({how}){about_hangs(error.causes)}{_notes(error)}"
    if isinstance(error, (*failed, FloatingPointError)):
        return 3, f"{error}{_notes(error)}"
    if isinstance(error, (RunError, VideoError, ValueError)):
        return 2, str(error)
    if isinstance(error, MemoryError):
        return 3, f"there is not enough memory ({error})"
    if isinstance(error, OSError) and error.errno in _DISK:
        return 3, f"cannot write {error.filename or 'a file'} ({error.strerror})"
    return 0, ""


def _is_of_foreign_code(error: Exception) -> bool:
    """Return whether an environment or an objective raised it in this process, and not drumline."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    return any(name.startswith(_STEPPING) for name in modules) and not modules[-1].startswith(
        "drumline."
    )


def _is_of_a_place(error: Exception) -> TypeGuard[OSError]:
    """Whether a path given to drumline is at fault, and no code of the user's in this process."""
    if not isinstance(error, OSError) or error.errno not in _PLACE or error.filename is None:
        return False
    modules = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    return not any(name.startswith(_FOREIGN) for name in modules)


def _scarce(error: Exception) -> str:
    """Return a sentence about files, processes or memory that the system refused; else nothing."""
    cause: BaseException | None = error
    if not isinstance(error, OSError):
        cause = getattr(error, "cause", None)  # of a worker's or a role's exception
    if isinstance(error, MemoryError) and str(error):
        return str(error)
    if not isinstance(cause, OSError):
        return ""
    where = "" if cause is error else " in a worker process"
    if cause.errno == errno.EMFILE:
        return (
            f"too many open files{where}: a process may have {_open_files_limit()} of them; raise "
            "that, as in ulimit -n 4096, or ask for fewer processes (--workers)"
        )
    if cause.errno == errno.ENFILE:
        return (
            f"too many open files on this machine{where}: end other programs, ask for fewer "
            "processes (--workers) or have the limit of the system raised (fs.file-max)"
        )
    if cause is error and cause.errno in _PROCESSES and cause.filename is None:
        return (
            f"the system starts no further process or gives no further memory ({cause.strerror}): "
            "ask for fewer processes (--workers), or raise the limits (ulimit -u, ulimit -v)"
        )
    return ""


def _open_files_limit() -> str:
    return str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _raised(cause: BaseException | None) -> str:
    return "" if cause is None else "\n" + "".join(traceback.format_exception(cause)).rstrip()


def _ours(error: BaseException) -> bool:
    return type(error).__module__.startswith("drumline.")


def _notes(error: BaseException) -> str:
    return "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
