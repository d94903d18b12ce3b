"""Limits of this process's control groups and free memory, read from the files of the kernel."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_UNLIMITED = 1 << 60  # version 1 writes "no limit" as the largest whole number of pages


class MachineLimits(NamedTuple):
    """The smallest limits on the path from this process's groups to the mounted top; None: none."""

    cores: float | None
    """Cores that the CPU quota grants; 1.5 are one and a half."""
    cores_file: str
    """File with that quota; empty without one."""
    memory: int | None
    """Bytes that the groups may use."""
    memory_file: str
    memory_left: int | None
    """Bytes that the groups may still use; cached files that can be dropped count as free."""
    memory_free: int | None
    """Bytes that the kernel can give to new programs on the whole machine (MemAvailable)."""


def machine_limits(root: Path = Path("/")) -> MachineLimits:
    """Return the limits found below `root`, the top of a file system.

    Control groups of version 1 and 2 may be mounted side by side. A child group may use no more
    than its parents allow, so every group on the way up counts.
    """
    cores: list[tuple[float, str]] = []
    memory: list[tuple[int, str]] = []
    left: list[int] = []
    for controllers, group in _groups(root):
        if "cpu" in controllers:
            cores += _quotas(root, group)
        if "memory" in controllers:
            memory += _memory_limits(root, group)
            left += _memory_left(root, group)
    fewest, least = min(cores, default=(None, "")), min(memory, default=(None, ""))
    return MachineLimits(*fewest, *least, min(left, default=None), _memory_available(root))


def _groups(root: Path) -> Iterator[tuple[set[str], PurePosixPath]]:
    """Return the controllers and the folder of each group of this process, parents included."""
    mounts = list(_mounts(root))
    for line in _text(root, "/proc/self/cgroup").splitlines():
        fields = line.split(":", 2)
        if len(fields) != 3:
            continue
        # Version 2 has one line, "0::path", for all controllers.
        named = set(fields[1].split(",")) if fields[1] else {"cpu", "memory"}
        for version_2, controllers, top, place in mounts:
            if version_2 == (fields[1] == "") and (version_2 or named & controllers):
                yield from ((named, folder) for folder in _upwards(fields[2], top, place))
                break


def _mounts(root: Path) -> Iterator[tuple[bool, set[str], str, str]]:
    """Return version 2 or not, options, group at the top and place of each mounted hierarchy."""
    for line in _text(root, "/proc/self/mountinfo").splitlines():
        before, separator, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if separator and len(fields) > 4 and kind and kind[0] in ("cgroup", "cgroup2"):
            options = set(kind[-1].split(","))
            yield kind[0] == "cgroup2", options, _unescaped(fields[3]), _unescaped(fields[4])


def _upwards(path: str, top: str, place: str) -> Iterator[PurePosixPath]:
    """Return the group's folder and its parents' up to the mounted top.

    Inside a container the path may be that of the host, which is not mounted: then only the top is.
    """
    mounted = PurePosixPath(place)
    group, above = PurePosixPath(path), PurePosixPath(top)
    below = PurePosixPath()
    if ".." not in group.parts and group.is_relative_to(above):
        below = group.relative_to(above)
    yield mounted / below
    for parent in below.parents:
        yield mounted / parent


def _quotas(root: Path, group: PurePosixPath) -> Iterator[tuple[float, str]]:
    file = group / "cpu.max"
    words = _text(root, file).split()
    if not words:
        file = group / "cpu.cfs_quota_us"
        words = (_text(root, file) + " " + _text(root, group / "cpu.cfs_period_us")).split()
    numbers = [int(word) for word in words if word.isdecimal()]
    if len(numbers) == 2 and min(numbers) > 0:
        yield numbers[0] / numbers[1], str(file)


def _memory_limits(root: Path, group: PurePosixPath) -> Iterator[tuple[int, str]]:
    for name in ("memory.max", "memory.limit_in_bytes"):
        limit = _number(root, group / name)
        if limit is not None and limit < _UNLIMITED:
            yield limit, str(group / name)


def _memory_left(root: Path, group: PurePosixPath) -> Iterator[int]:
    for limit, file in _memory_limits(root, group):
        version_2 = file.endswith("memory.max")
        used = _number(root, group / ("memory.current" if version_2 else "memory.usage_in_bytes"))
        droppable = "inactive_file" if version_2 else "total_inactive_file"
        for line in _text(root, group / "memory.stat").splitlines():
            name, _, value = line.partition(" ")
            if name == droppable and used is not None:
                used -= int(value)
        yield limit if used is None else min(limit, max(0, limit - used))


def _memory_available(root: Path) -> int | None:
    for line in _text(root, "/proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _number(root: Path, file: PurePosixPath) -> int | None:
    word = _text(root, file).strip()
    return int(word) if word.isdecimal() else None


def _text(root: Path, file: str | PurePosixPath) -> str:
    """Return a file below `root`; empty if there is none or it may not be read."""
    try:
        return (root / str(file).lstrip("/")).read_text(errors="replace")
    except OSError:
        return ""


def _unescaped(field: str) -> str:
    r"""Return a path of mountinfo, where a space is \040.

    >>> _unescaped(r"/my\040groups")
    '/my groups'
    """
    for code in (r"\040", r"\011", r"\012", r"\134"):
        field = field.replace(code, chr(int(code[1:], 8)))
    return field
