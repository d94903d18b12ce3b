"""QueuedReplay: a replay whose transitions get a number first and a place in the ring later.

`append` numbers transitions and returns their bytes for the disk at once. `fill` moves them into
the ring as soon as no reader needs the rows there. Numbers, bytes and digests depend on the appends
alone, so the time of a move has no influence.
"""

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.buffers.replay import Replay, ReplayFull, ReplayWriter, Transitions, Wrote
from drumline.buffers.replay_archive import (
    SEGMENT,
    DamagedReplay,
    block_bytes,
    blocks_in,
    part_of,
    segment_name,
)
from drumline.types import Metrics, State

DIGESTS, FIRST, WATERMARK = "replay_digests", "replay_first_segment", "replay_watermark"


class EpisodeTooLong(ValueError):
    """An episode has more steps than the replay was laid out for."""


class QueuedReplay:
    """The one writer of a replay that others read by watermark; whole episodes only."""

    def __init__(self, replay: Replay, longest: int, wrote: Wrote | None = None):
        """`longest`: number of env steps in an episode that the replay's slack was made for.

        `wrote` is told of every write into the ring.
        """
        self.watermark = 0
        """Number of transitions ever appended, in the ring or waiting."""
        self._writer = ReplayWriter(replay, wrote)
        self._capacity = replay.shape.capacity
        self._longest = longest
        self._waiting: deque[Transitions] = deque()
        self._hashes: dict[int, Any] = {}

    def append(self, episode: Transitions) -> list[tuple[str, bytes]]:
        """Number an episode's transitions; return (segment, bytes to append to it).

        Raises EpisodeTooLong for an episode that could find no place while others read.
        """
        taken: list[tuple[str, bytes]] = []
        count, done = len(episode.rewards), 0
        if count > self._longest:
            raise EpisodeTooLong(
                f"an episode took {count:,} steps and the replay was laid out for {self._longest:,}"
                " at most, because the environment states no time limit: put it into "
                "gymnasium.wrappers.TimeLimit and name your factory as module:factory"
            )
        while done < count:
            number = self.watermark // SEGMENT
            last = min(count, done + (number + 1) * SEGMENT - self.watermark)
            data = block_bytes(self.watermark, part_of(episode, done, last))
            self._hashes.setdefault(number, hashlib.sha256()).update(data)
            taken.append((segment_name(number), data))
            self.watermark += last - done
            done = last
        self._waiting.append(episode)
        return taken

    def fill(self, oldest: int | None) -> int:
        """Move waiting transitions into the ring, sparing windows from `oldest` on; return its end.

        Raises ReplayFull if the window of `oldest` leaves no room for its own transitions.
        """
        self._move(oldest)
        taken = self._writer.watermark
        if self._waiting and oldest is not None and taken < oldest:
            raise ReplayFull(self._writer.why_not(self._waiting[0], oldest))
        return taken

    def digests(self) -> np.ndarray:
        """Return the SHA-256 of every segment in the newest window `[S, 32]`."""
        return self._digests(self._numbers(self.watermark))

    def fingerprint(self) -> dict[str, np.ndarray]:
        """Return the digests, which an update's fingerprint covers."""
        return {"replay": self.digests()}

    def metrics(self) -> Metrics:
        """Return how many transitions gradient steps may draw from."""
        return {"replay_transitions": float(min(self.watermark, self._capacity))}

    def segments(self, oldest: int | None) -> list[str]:
        """Return the segments of the windows from watermark `oldest` on."""
        return [segment_name(number) for number in self._numbers(oldest)]

    def state(self, oldest: int | None) -> State:
        """Return the state for a checkpoint, for readers from watermark `oldest` on."""
        numbers = self._numbers(oldest)
        counters: dict[str, int | float] = {FIRST: numbers.start, WATERMARK: self.watermark}
        return State({DIGESTS: self._digests(numbers)}, counters)

    def load(self, state: State, read: Callable[[str], bytes], oldest: int | None) -> None:
        """Load a checkpoint's state; `read` returns a segment at its length in the checkpoint."""
        digests, first = state.tensor(DIGESTS), state.counter(FIRST)
        self.watermark = int(state.counter(WATERMARK))
        numbers = self._numbers(oldest)
        if numbers.start != first or len(numbers) != len(digests):
            raise ValueError(f"the state has other {DIGESTS!r} than its jobs in flight need")
        at = numbers.start * SEGMENT
        self._writer.restart(at)
        self._waiting.clear()
        self._hashes = {}
        for number, digest in zip(numbers, digests, strict=True):
            data = read(segment_name(number))
            running = hashlib.sha256(data)
            if running.digest() != digest.tobytes():
                raise DamagedReplay(f"{segment_name(number)} is not as it was written")
            self._hashes[number] = running
            for transitions in blocks_in(data, at, self._writer.replay.shape):
                self._waiting.append(transitions)
                at += len(transitions.rewards)
                self._move(oldest if oldest is not None else at)
        if at != self.watermark:
            raise DamagedReplay(f"the segments end at transition {at}, not at {self.watermark}")

    def _move(self, oldest: int | None) -> None:
        while self._waiting and self._writer.has_room(self._waiting[0], oldest):
            self._writer.write(self._waiting.popleft())

    def _numbers(self, oldest: int | None) -> range:
        seen = self.watermark if oldest is None else min(oldest, self.watermark)
        return range(max(0, seen - self._capacity) // SEGMENT, -(-self.watermark // SEGMENT))

    def _digests(self, numbers: range) -> np.ndarray:
        digests = [self._hashes[number].digest() for number in numbers]
        return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32)
