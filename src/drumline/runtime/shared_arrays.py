"""Named arrays in memory that several processes share and that has no name in the system.

The memory is reached through a descriptor only. The kernel therefore frees it with its last user,
however that user ends, and the size of /dev/shm does not matter.
"""

import errno
import math
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np

from drumline.protocols import PublishedLayout
from drumline.runtime.machine_limits import machine_limits

_ALIGNMENT = 64  # a cache line, so that two arrays of different writers never share one


class SharedArrays:
    """Named ndarrays laid over one anonymous memory."""

    def __init__(self, fd: int, layout: PublishedLayout, memory: mmap.mmap):
        self.layout = layout
        self.arrays: dict[str, np.ndarray] = {}
        self._watchers: list[Callable[[str, int, int], None]] = []
        self._memory: mmap.mmap | None = memory
        self._fd = fd
        self._close_fd = weakref.finalize(self, os.close, fd)
        offsets, _ = _offsets(layout)
        for name, (shape, dtype) in layout.arrays.items():
            self.arrays[name] = np.ndarray(shape, dtype, buffer=memory, offset=offsets[name])

    @staticmethod
    def create(layout: PublishedLayout) -> "SharedArrays":
        """Return zeroed arrays; MemoryError at once for more than the machine has.

        The kernel would grant any size here and kill a process later, at the first write.
        """
        size = refuse_too_large(layout)
        fd = anonymous_file("drumline-arrays")
        try:
            _allocate(fd, size)
            return SharedArrays(fd, layout, mmap.mmap(fd, size))
        except OSError as error:
            os.close(fd)
            if error.errno == errno.EFBIG:
                raise MemoryError(
                    f"shared arrays need {_readable(size)} in a file in memory, and this shell "
                    "allows no files of that size: ulimit -f says how large they may be"
                ) from error
            tmp = f"{tempfile.gettempdir()} (TMPDIR names another folder)"
            place = "memory" if hasattr(os, "memfd_create") else tmp
            raise MemoryError(
                f"shared arrays need {_readable(size)}, but {place} has no room for them "
                f"({error.strerror}); make the largest of them smaller: {_largest(layout)}"
            ) from error

    @staticmethod
    def attach(fd: int, layout: PublishedLayout) -> "SharedArrays":
        """Return the arrays that another process created; `fd` belongs to them from now on."""
        _, size = _offsets(layout)
        return SharedArrays(fd, layout, mmap.mmap(fd, size))

    @property
    def fd(self) -> int:
        """Descriptor that a child attaches to."""
        if not self._close_fd.alive:
            raise ValueError("these shared arrays are closed")
        return self._fd

    def wrote(self, name: str, first: int, last: int) -> None:
        """Say that the driver has written rows `[first, last)` of an array after its creation.

        Processes of this machine see them anyway; a pool of other machines has to send them.
        """
        for watcher in self._watchers:
            watcher(name, first, last)

    def watch(self, watcher: Callable[[str, int, int], None]) -> None:
        """Have `watcher` called at every `wrote`."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[str, int, int], None]) -> None:
        """Call `watcher` no more."""
        self._watchers.remove(watcher)

    def close(self) -> None:
        """Free the memory as soon as no view of it is left; may be called twice."""
        self.arrays.clear()
        self._close_fd()
        self._memory = None  # not unmapped by force: a view that a caller still holds would crash


def _allocate(fd: int, size: int) -> None:
    """Give a file its size.

    On a full disk, a write into the mapping of a file without room would kill the process.
    """
    if hasattr(os, "memfd_create") or not hasattr(os, "posix_fallocate"):
        os.ftruncate(fd, size)
    else:
        os.posix_fallocate(fd, 0, size)


def refuse_too_large(layout: PublishedLayout) -> int:
    """Return the size of the arrays in bytes; MemoryError if the machine has less."""
    _, size = _offsets(layout)
    available = available_bytes()
    if available is not None and size > available:
        raise MemoryError(
            f"shared arrays need {_readable(size)}, but only {_readable(available)} "
            "of memory is available; make the largest of them smaller: " + _largest(layout)
        )
    return size


def anonymous_file(label: str) -> int:
    """Return the descriptor of an empty file that no other process can find by a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(label)
    fd, path = tempfile.mkstemp(prefix=label)
    os.unlink(path)
    return fd


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return the usable memory in bytes, container limits included; None if unknown."""
    limits = machine_limits(root)
    known = [value for value in (limits.memory_free, limits.memory_left) if value is not None]
    return min(known, default=None)


def _offsets(layout: PublishedLayout) -> tuple[dict[str, int], int]:
    """Return each array's offset and the total size in bytes; the same in every process."""
    offsets: dict[str, int] = {}
    end = 0
    for name, (shape, dtype) in layout.arrays.items():
        if np.dtype(dtype).hasobject:
            raise ValueError(f"array {name!r} has dtype {dtype}, which holds Python objects")
        offsets[name] = end
        size = math.prod(shape) * np.dtype(dtype).itemsize
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return offsets, max(end, _ALIGNMENT)


def _largest(layout: PublishedLayout) -> str:
    name, (shape, dtype) = max(
        layout.arrays.items(),
        key=lambda item: math.prod(item[1][0]) * np.dtype(item[1][1]).itemsize,
    )
    return f"{name!r} {list(shape)} {np.dtype(dtype).name}"


def _readable(size: int) -> str:
    """Return a size in binary units.

    >>> _readable(3 * 2**30)
    '3.0 GiB'
    """
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"
