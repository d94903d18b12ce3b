"""The claim of a run folder by the one process that writes it: locks that the kernel frees with it.

The folder itself is locked, and a file in it: on a network file system (NFS, Lustre) the lock of a
directory counts on one machine alone, that of a file on all of them.
"""

import fcntl
import os
from contextlib import suppress
from time import sleep

from drumline.runs.folder import RunError, RunFolder
from drumline.runs.own_files import opened

LOCK = ".lock"
"""Name of the file; it has no bytes."""
_LOOKED_AT_SECONDS = 0.05


class Claim:
    """The right of this process to write a run; RunError if another process has it."""

    def __init__(self, folder: RunFolder):
        self._folder = folder
        self.descriptors = [os.open(folder.path, os.O_RDONLY)]
        """Descriptors of the folder and of its lock file; the kernel unlocks with them."""
        try:
            _lock(self.descriptors[0], folder)
            with suppress(OSError):  # a full or read-only disk, which the writer's first row meets
                self.descriptors.append(opened(folder.path / LOCK, os.O_RDWR | os.O_CREAT))
            _lock(self.descriptors[-1], folder)
        except BaseException:
            self.close()
            raise

    def refuse_moved(self) -> None:
        """Raise RunError if another folder is at the run's path now: it must not be written to."""
        own = os.fstat(self.descriptors[0])
        try:
            there = os.stat(self._folder.path)
        except OSError:
            there = None
        if there is None or (own.st_dev, own.st_ino) != (there.st_dev, there.st_ino):
            raise RunError(
                f"{self._folder.shown} was moved or removed while it was written: give its new "
                "place to drumline resume"
            )

    def close(self) -> None:
        """Give it up; may be called twice."""
        while self.descriptors:
            os.close(self.descriptors.pop())


def refuse_busy(folder: RunFolder) -> None:
    """Raise RunError if another process writes to the folder now."""
    Claim(folder).close()


def is_claimed(folder: RunFolder) -> bool:
    """Return whether a process writes the run now; always False on a file system without locks."""
    for path, flags in ((folder.path, 0), (folder.path / LOCK, os.O_NOFOLLOW | os.O_NONBLOCK)):
        try:
            descriptor = os.open(path, os.O_RDONLY | flags)
        except OSError:
            continue  # a run that no process has written since there is such a file
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return False


def _lock(descriptor: int, folder: RunFolder) -> None:
    """Lock a file for this process; the kernel unlocks it however the process ends."""
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(_LOOKED_AT_SECONDS)  # `drumline list` may just look whether it is locked
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RunError(
            f"{folder.shown} is being written by another process; wait for it, or give another RUN"
        ) from error
    except OSError:
        pass  # a file system without locks: the run goes on unlocked
