"""ReplayArchive: a replay on disk, in append-only segments that checkpoints share.

A segment holds up to 65,536 transitions as blocks. A block is a header of three little-endian int64
(first transition, transitions, final observations), then its arrays one after the other. A
checkpoint holds no transition but the SHA-256 of every segment at its length then.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from drumline.buffers.replay import TRUNCATED, ReplayShape, ReplayWriter, Transitions
from drumline.types import State

SEGMENT = 65_536
DIGESTS, NEXT, WATERMARK = "replay_digests", "replay_next_observation", "replay_watermark"
GOES_ON = "replay_goes_on"
_HEADER = 24


class DamagedReplay(ValueError):
    """A segment whose bytes differ from those written."""


def segment_name(number: int) -> str:
    """Return a segment's path in the run folder.

    >>> segment_name(12)
    'replay/000012'
    """
    return f"replay/{number:06d}"


class ReplayArchive:
    """Conversion between a writer's transitions and the bytes of segments."""

    def __init__(self, writer: ReplayWriter):
        self._writer = writer
        self._saved = 0
        """Number of transitions returned by `take` so far."""
        self._hashes: dict[int, Any] = {}
        """Running SHA-256 of each segment in the window, by its number."""

    @property
    def oldest(self) -> int:
        """Return the watermark whose window has every transition that was not taken yet."""
        return self._saved + self._writer.replay.shape.capacity

    def take(self) -> list[tuple[str, bytes]]:
        """Return the appends since the last call, as (segment, bytes to append to it).

        Appending with this archive's `oldest` keeps transitions from being overwritten before.
        """
        taken: list[tuple[str, bytes]] = []
        new = self._writer.watermark - self._saved
        fresh = self._writer.last(new) if new else None
        while fresh is not None and self._saved < self._writer.watermark:
            number = self._saved // SEGMENT
            end = min((number + 1) * SEGMENT, self._writer.watermark)
            done = new - (self._writer.watermark - self._saved)
            part = part_of(fresh, done, done + end - self._saved)
            data = block_bytes(self._saved, part)
            self._hashes.setdefault(number, hashlib.sha256()).update(data)
            taken.append((segment_name(number), data))
            self._saved = end
        return taken

    def segments(self) -> list[str]:
        """Return the segments of the present window."""
        return [segment_name(number) for number in self._numbers(self._writer.watermark)]

    def state(self) -> State:
        """Return the state for a checkpoint; everything appended must have been taken."""
        writer = self._writer
        assert self._saved == writer.watermark, "take the appended transitions before a checkpoint"
        digests = [self._hashes[number].digest() for number in self._numbers(writer.watermark)]
        size = writer.replay.shape.observation_size
        after = writer.next_observation
        tensors = {
            DIGESTS: np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32),
            NEXT: np.zeros(size, np.float32) if after is None else after.copy(),
        }
        counters: dict[str, int | float] = {
            WATERMARK: writer.watermark,
            GOES_ON: int(after is not None),
        }
        return State(tensors, counters)

    def load(self, state: State, read: Callable[[str], bytes]) -> None:
        """Load a checkpoint's state; `read` returns a segment at its length in the checkpoint."""
        digests, after = state.tensor(DIGESTS), state.tensor(NEXT)
        watermark, goes_on = state.counter(WATERMARK), bool(state.counter(GOES_ON))
        if not isinstance(watermark, int) or not 0 <= watermark < 2**62:
            raise DamagedReplay(f"the checkpoint's replay has {watermark!r} transitions")
        numbers = self._numbers(watermark)
        self._writer.restart(numbers[0] * SEGMENT if numbers else 0)
        self._hashes = {}
        if digests.shape != (len(numbers), 32):
            raise ValueError(f"the state has no tensor {DIGESTS!r} of shape {[len(numbers), 32]}")
        for number, digest in zip(numbers, digests, strict=True):
            data = read(segment_name(number))
            running = hashlib.sha256(data)
            if running.digest() != digest.tobytes():
                raise DamagedReplay(f"{segment_name(number)} is not as it was written")
            self._hashes[number] = running
            self._read_blocks(data)
        if self._writer.watermark != watermark:
            raise DamagedReplay(
                f"the segments end at transition {self._writer.watermark}, not at {watermark}"
            )
        self._saved = watermark
        if goes_on:
            self._writer.reached(after)

    def _numbers(self, watermark: int) -> range:
        first = max(0, watermark - self._writer.replay.shape.capacity)
        return range(first // SEGMENT, -(-watermark // SEGMENT))

    def _read_blocks(self, data: bytes) -> None:
        for transitions in blocks_in(data, self._writer.watermark, self._writer.replay.shape):
            self._writer.write(transitions)


def blocks_in(data: bytes, first_expected: int, shape: ReplayShape) -> Iterator[Transitions]:
    """Yield the blocks of a segment, the first of which starts at transition `first_expected`."""
    start, watermark = 0, first_expected
    row = 4 * (shape.observation_size + shape.action_size + 1) + 1
    while start < len(data):
        left = len(data) - start - _HEADER
        if left < 0:
            raise DamagedReplay("a segment ends within a block's header")
        first, count, finals = np.frombuffer(data, "<i8", 3, start).tolist()
        if first != watermark:
            raise DamagedReplay(f"transition {watermark} is missing")
        if not 0 < count <= SEGMENT or not 0 <= finals <= count:
            raise DamagedReplay(f"a block announces {count} transitions and {finals} ends")
        if count * row + 4 * finals * shape.observation_size > left:
            raise DamagedReplay(f"a block announces {count} transitions, more than its segment has")
        watermark += count
        arrays: list[np.ndarray] = []
        start += _HEADER
        for columns, rows in (
            (shape.observation_size, count),
            (shape.action_size, count),
            (1, count),
            (shape.observation_size, finals),
        ):
            array = np.frombuffer(data, "<f4", rows * columns, start)
            arrays.append(array.reshape(rows, columns))
            start += array.nbytes
        kinds = np.frombuffer(data, np.uint8, count, start)
        start += count
        if kinds.max() > TRUNCATED or np.count_nonzero(kinds == TRUNCATED) != finals:
            raise DamagedReplay("a block's ends of episodes are not those that it announces")
        observations, actions, rewards, last = arrays
        nothing = np.zeros(shape.observation_size, np.float32)
        yield Transitions(observations, actions, rewards[:, 0], kinds, last, nothing)


def part_of(whole: Transitions, first: int, last: int) -> Transitions:
    """Return transitions `first … last − 1`; the observation after them is in the next part."""
    kinds = whole.kinds
    finals = [int(np.count_nonzero(kinds[:at] == TRUNCATED)) for at in (first, last)]
    return Transitions(
        whole.observations[first:last],
        whole.actions[first:last],
        whole.rewards[first:last],
        kinds[first:last],
        whole.final_observations[finals[0] : finals[1]],
        whole.next_observation,
    )


def block_bytes(first: int, part: Transitions) -> bytes:
    """Return one block of a segment."""
    header = np.array([first, len(part.rewards), len(part.final_observations)], "<i8")
    arrays = (part.observations, part.actions, part.rewards, part.final_observations)
    parts = [header.tobytes(), *(np.ascontiguousarray(a, "<f4").tobytes() for a in arrays)]
    return b"".join([*parts, part.kinds.tobytes()])
