"""Segments give back the rows that were appended, and no row is written twice."""

from collections import defaultdict

import numpy as np
import pytest

from drumline.buffers import replay_archive
from drumline.buffers.replay import (
    GOES_ON,
    TERMINATED,
    TRUNCATED,
    Batch,
    Replay,
    ReplayShape,
    ReplayWriter,
    one_episode,
)
from drumline.buffers.replay_archive import DamagedReplay, ReplayArchive
from drumline.types import State

SHAPE = ReplayShape(capacity=20, observation_size=3, action_size=2, slack=9, truncations=12)


class Saved:
    """A writer with its archive and the bytes that its disk would hold."""

    def __init__(self) -> None:
        arrays = {n: np.zeros(size, kind) for n, (size, kind) in SHAPE.layout().items()}
        self.writer = ReplayWriter(Replay(SHAPE, arrays))
        self.archive = ReplayArchive(self.writer)
        self.disk: dict[str, bytes] = defaultdict(bytes)

    def flush(self) -> None:
        for name, data in self.archive.take():
            self.disk[name] += data

    def contents(self) -> list[list[list[float]]]:
        count = min(self.writer.watermark, SHAPE.capacity)
        rows = self.writer.replay.rows((np.arange(count) + 0.5) / count, self.writer.watermark)
        batch = Batch.allocate(count, SHAPE)
        self.writer.replay.gather(rows, batch)
        batch.next_observations[batch.terminated] = 0.0
        return [array.tolist() for array in batch]


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_archive, "SEGMENT", 8)


def append(saved: Saved, rng: np.random.Generator, count: int) -> None:
    for _ in range(count):
        length = int(rng.integers(1, 6))
        kind = int(rng.choice([GOES_ON, TERMINATED, TRUNCATED]))
        observations = rng.standard_normal((length + 1, 3), dtype=np.float32)
        if saved.writer.next_observation is not None:
            observations[0] = saved.writer.next_observation
        actions = rng.standard_normal((length, 2), dtype=np.float32)
        rewards = rng.standard_normal(length, dtype=np.float32)
        saved.writer.append(one_episode(observations, actions, rewards, kind))
        if rng.random() < 0.7:
            saved.flush()
    saved.flush()


@pytest.mark.parametrize("pieces", [0, 1, 3, 8, 25])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_loaded_replay_goes_on_with_the_same_contents(pieces: int, seed: int):
    saved, loaded = Saved(), Saved()
    append(saved, np.random.default_rng(seed), pieces)
    lengths = {name: len(saved.disk[name]) for name in saved.archive.segments()}
    state = saved.archive.state()
    original = np.random.default_rng(99)
    append(saved, original, 3)  # the files grow behind the checkpoint
    loaded.archive.load(state, lambda name: saved.disk[name][: lengths[name]])
    loaded.disk.update({name: saved.disk[name][:length] for name, length in lengths.items()})
    append(loaded, np.random.default_rng(99), 3)
    assert loaded.contents() == saved.contents()
    needed = saved.archive.segments()
    assert {n: loaded.disk[n] for n in needed} == {n: saved.disk[n] for n in needed}
    for name, tensor in saved.archive.state().tensors.items():
        assert np.array_equal(loaded.archive.state().tensors[name], tensor)
    assert loaded.archive.state().counters == saved.archive.state().counters


def test_only_segments_of_the_window_are_needed():
    saved = Saved()
    append(saved, np.random.default_rng(3), 40)
    watermark = saved.writer.watermark
    first = (watermark - SHAPE.capacity) // 8
    assert saved.archive.segments()[0] == replay_archive.segment_name(first)
    assert len(saved.archive.segments()) <= 20 // 8 + 2
    assert sum(len(data) for data in saved.disk.values()) < watermark * 4 * (3 + 2 + 1 + 3 + 8)


def test_a_flipped_bit_in_a_segment_is_found():
    saved, loaded = Saved(), Saved()
    append(saved, np.random.default_rng(4), 10)
    name = saved.archive.segments()[0]
    data = bytearray(saved.disk[name])
    data[-1] ^= 1
    saved.disk[name] = bytes(data)
    with pytest.raises(DamagedReplay, match=f"{name} is not as it was written"):
        loaded.archive.load(saved.archive.state(), saved.disk.__getitem__)


@pytest.mark.parametrize(
    "missing", ["replay_digests", "replay_next_observation", "replay_watermark", "replay_goes_on"]
)
def test_a_state_with_a_part_missing_is_refused(missing: str):
    saved = Saved()
    append(saved, np.random.default_rng(5), 6)
    state = saved.archive.state()
    less = State(
        {k: v for k, v in state.tensors.items() if k != missing},
        {k: v for k, v in state.counters.items() if k != missing},
    )
    with pytest.raises(ValueError, match=missing):
        Saved().archive.load(less, saved.disk.__getitem__)
