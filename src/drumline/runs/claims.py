"""Whether a process writes a run folder: its lock, which the kernel frees with the process."""

import fcntl
import os

from drumline.runs.folder import RunFolder


def is_claimed(folder: RunFolder) -> bool:
    """Return whether a process writes the run now; always False on a file system without locks."""
    descriptor = os.open(folder.path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
