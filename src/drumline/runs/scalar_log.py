"""The scalar log: what each generation of a search was told, from which its parameters follow.

A search's update is a function of the fitness, return and length of every member, by index, and of
the observation moments of the members that contribute some (Salimans et al. 2017, Algorithm 2). So
a generation takes 24 bytes for each member and 16 · D + 12 for each contributing one, whatever the
number of parameters. Records are appended to files under scalars/, which are never rewritten.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from drumline.runs.checkpoint import Checkpoint
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.own_files import read_file
from drumline.runs.segments import segments_there
from drumline.types import Moments

SEGMENT_BYTES = 1 << 26
"""Length from which on the next record begins a new file."""
_HEAD = struct.Struct("<4sIQQQI")
"""Mark, CRC-32 of the rest, generation, members, contributing members, observation size."""
_MARK = b"gen1"
_ROOM = "scalars"


class CutShort(ValueError):
    """The bytes end within a record, as a kill or a power loss leaves them."""


class ToldMember(NamedTuple):
    """The scalars of one member, and the moments of its observations if it contributes them."""

    fitness: float
    episode_return: float
    length: int
    moments: Moments | None


class ToldGeneration(NamedTuple):
    """All that a search was told in one generation, by member."""

    generation: int
    """Generations told before it."""
    members: tuple[ToldMember, ...]


def encoded(told: ToldGeneration) -> bytes:
    """Return a generation as one record."""
    moments = [(i, m.moments) for i, m in enumerate(told.members) if m.moments is not None]
    size = moments[0][1].mean.size if moments else 0
    rows = np.array([(m.fitness, m.episode_return) for m in told.members], "<f8").reshape(-1, 2)
    parts = [
        rows.tobytes(),
        np.array([m.length for m in told.members], "<i8").tobytes(),
        np.array([place for place, _ in moments], "<u4").tobytes(),
        np.array([part.count for _, part in moments], "<f8").tobytes(),
        *(np.concatenate(part[1:]).astype("<f8").tobytes() for _, part in moments),
    ]
    numbers = (told.generation, len(told.members), len(moments), size)
    body = _HEAD.pack(_MARK, 0, *numbers)[8:] + b"".join(parts)
    return _MARK + struct.pack("<I", zlib.crc32(body)) + body


def moments_bytes(told: ToldGeneration) -> int:
    """Return the bytes of a record that are moments, with the indices of their members."""
    parts = [member.moments for member in told.members if member.moments is not None]
    return sum(12 + 16 * part.mean.size for part in parts)


def decoded(data: bytes) -> Iterator[ToldGeneration]:
    """Yield the generations of a file; ValueError for bytes that are not `encoded`'s."""
    at = 0
    while at < len(data):
        told, at = _record(memoryview(data), at)
        yield told


def _record(data: memoryview, at: int) -> tuple[ToldGeneration, int]:
    if len(data) - at < _HEAD.size:
        raise CutShort("a record is cut short")
    mark, crc, generation, members, contributing, size = _HEAD.unpack_from(data, at)
    # Compared before memory is taken: the numbers may be anything.
    length = 24 * members + (12 + 16 * size) * contributing
    end = at + _HEAD.size + length
    if mark != _MARK or contributing > members:
        raise ValueError("a record begins with other bytes")
    if end > len(data):
        raise CutShort("a record is cut short")
    if zlib.crc32(data[at + 8 : end]) != crc:
        raise ValueError("a record has changed")
    at += _HEAD.size

    def array(kind: str, *shape: int) -> np.ndarray:
        nonlocal at
        count = int(np.prod(shape))
        found = np.frombuffer(data, kind, count, at).reshape(shape)
        at += found.nbytes
        return found

    rows, lengths = array("<f8", members, 2), array("<i8", members)
    places, counts = array("<u4", contributing), array("<f8", contributing)
    parts = array("<f8", contributing, 2, size)
    if np.any(places >= members):
        raise ValueError("a record names a member that is not there")
    moments = {
        int(place): Moments(float(count), part[0].copy(), part[1].copy())
        for place, count, part in zip(places, counts, parts, strict=True)
    }
    told = tuple(
        ToldMember(float(fitness), float(gained), int(length), moments.get(member))
        for member, ((fitness, gained), length) in enumerate(zip(rows, lengths, strict=True))
    )
    return ToldGeneration(generation, told), end


class ScalarLog:
    """Names and lengths of a run's log; the bytes go to the run's recorder."""

    def __init__(self, resumed_from: Checkpoint | None):
        there = {} if resumed_from is None else resumed_from.lengths
        self._lengths = {name: size for name, size in there.items() if name.startswith(_ROOM)}

    @property
    def segments(self) -> Sequence[str]:
        """Return the names of the files, oldest first; empty before the first record."""
        return sorted(self._lengths)

    def append(self, told: ToldGeneration) -> tuple[str, bytes]:
        """Return the file that a generation's record goes to, and the record."""
        data = encoded(told)
        names = self.segments
        name = names[-1] if names else f"{_ROOM}/{0:06d}"
        if self._lengths.get(name, 0) >= SEGMENT_BYTES:
            name = f"{_ROOM}/{len(names):06d}"
        self._lengths[name] = self._lengths.get(name, 0) + len(data)
        return name, data


def read_scalars(folder: RunFolder) -> Iterator[ToldGeneration]:
    """Yield the generations of a run's log in their order; RunError for a damaged log.

    A record that a kill has cut short ends the log.
    """
    names = [name for name in segments_there(folder) if name.startswith(_ROOM)]
    expected = 0
    for name in names:
        path = folder.path / name
        try:
            for told in decoded(read_file(path)):
                if told.generation != expected:
                    raise ValueError(f"generation {told.generation} where {expected} belongs")
                expected += 1
                yield told
        except (OSError, ValueError) as error:
            if name == names[-1] and isinstance(error, CutShort):
                return
            raise RunError(f"{path} is damaged: {error}") from error
