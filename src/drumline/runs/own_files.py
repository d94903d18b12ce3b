"""Files inside a run folder: opened without following a link, and only if they are plain files.

A run folder may come from a stranger. A link in it could make a command read or overwrite any other
file, and a pipe could make it wait for ever. The way to the run folder itself may lead over links.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from drumline.runs.run_error import RunError

TENSORBOARD_FILE = "events.out.tfevents.drumline"
"""One file per run, so that a resume can cut it; TensorBoard wants `tfevents` in the name."""

FILES = frozenset(
    (
        *("config.json", "metrics.csv", "episodes.csv", "evaluations.csv", "fingerprints.csv"),
        *(
            "events.jsonl",
            TENSORBOARD_FILE,
            "info.csv",
            "nodes.csv",
            "timeline.json",
            "processes.csv",
            "card.md",
        ),
        *("policy-best.json", "policy-last.json", "policy-before-best.json"),
        *("policy-best.safetensors", "policy-last.safetensors", "policy-before-best.safetensors"),
        "policy-start.safetensors",
        *("episode.mp4", "printed.txt"),
    )
)
"""Names of the plain files that drumline reads or writes in a run folder."""

DIRECTORIES = ("checkpoints", "replay", "scalars")
"""Names of its directories; what is inside them is drumline's, or is left alone."""

_CHECKPOINT = re.compile(r"\d+|\.\d+\.([0-9a-f]{16}\.partial|partial|replaced)")
_ASIDE = re.compile(r"\.(?P<name>.+?)(\.[0-9a-f]{32})?\.partial")


def aside_name(name: str) -> str:
    """Return a temporary name beside the file `name`, which no other process can foresee.

    >>> aside_name("card.md") != aside_name("card.md")
    True
    """
    return f".{name}.{os.urandom(16).hex()}.partial"


def refuse_links(folder: Path, *, writing: bool = False) -> None:
    """Raise RunError if a link, a pipe or a device is in the place of a file of the run's.

    Before `writing`, a file that has another name elsewhere (a hard link) is refused as well.
    """
    for path, is_directory in _places(folder):
        if fault := _fault(path, is_directory, writing):
            raise RunError(
                f"{path} {fault}, and drumline follows no link inside a run folder: put a copy of "
                "the file in its place (cp -rL copies a folder with what its links lead to)"
            )


def remove_asides(folder: Path) -> None:
    """Remove temporary files that a kill has left; only the run's one writer may call it."""
    for path in folder.iterdir():
        found = _ASIDE.fullmatch(path.name)
        if found and found["name"] in FILES:
            path.unlink()  # of a link, this removes the link


def opened(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a plain file of a run without following a link; OSError names the file.

    With a flag to write, a file with a second name elsewhere is refused.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its other end.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        raise OSError(error.errno, _words(path, error), str(path)) from error
    status = os.fstat(descriptor)
    fault = "is not a plain file" if not stat.S_ISREG(status.st_mode) else ""
    if flags & (os.O_WRONLY | os.O_RDWR) and status.st_nlink > 1:
        fault = "has a second name elsewhere (a hard link)"
    if fault:
        os.close(descriptor)
        raise RunError(f"{path} {fault}, so drumline leaves it alone; put a copy in its place")
    return descriptor


def read_file(path: Path, most: int = -1) -> bytes:
    """Return the bytes of a run's file; OSError as of `Path.read_bytes`, RunError for a link.

    Of a file of more than `most` bytes one more than these are read, which tells that it is longer.
    """
    with os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return file.read() if most < 0 else file.read(min(size, most) + 1)


def is_there(path: Path) -> bool:
    """Return whether a plain file is at `path`; a link there is none."""
    return size_of(path) is not None


def size_of(path: Path) -> int | None:
    """Return the size in bytes of the plain file at `path`; None if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _words(path: Path, error: OSError) -> str | None:
    return "it is a link" if path.is_symlink() else error.strerror


def _places(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield every path that is drumline's, with whether a directory belongs there."""
    for name, _ in _entries(folder):
        if name in FILES or name in DIRECTORIES:
            yield folder / name, name in DIRECTORIES
    for directory in DIRECTORIES:
        for name, is_directory in _entries(folder / directory):
            inner = folder / directory / name
            ours = directory == "checkpoints" and _CHECKPOINT.fullmatch(name)
            yield inner, bool(ours) or is_directory  # a file manager's are left alone
            if is_directory:
                yield from ((inner / file, False) for file, _ in _entries(inner))


def _entries(directory: Path) -> list[tuple[str, bool]]:
    """Return the names in a directory, each with whether it is a directory itself."""
    try:
        with os.scandir(directory) as found:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in found)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise RunError(f"cannot read {directory} ({error.strerror}); give another RUN") from error


def _fault(path: Path, is_directory: bool, writing: bool) -> str:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return ""  # a run that goes on meanwhile replaces its files
    if stat.S_ISLNK(status.st_mode):
        return f"is a link to {os.readlink(path)}"
    if is_directory:
        return "" if stat.S_ISDIR(status.st_mode) else "is not a directory"
    if not stat.S_ISREG(status.st_mode):
        return "is not a plain file"
    if writing and status.st_nlink > 1:
        return f"has {status.st_nlink} names, one of them elsewhere (a hard link)"
    return ""
