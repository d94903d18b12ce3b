"""Transitions in order before they have a place: numbers, bytes and digests know no ring."""

from dataclasses import replace

import numpy as np
import pytest

from drumline.buffers import queued_replay
from drumline.buffers.queued_replay import EpisodeTooLong, QueuedReplay
from drumline.buffers.replay import (
    TERMINATED,
    TRUNCATED,
    Batch,
    Replay,
    ReplayFull,
    ReplayShape,
    one_episode,
)
from drumline.buffers.replay_archive import DamagedReplay

SHAPE = ReplayShape(capacity=20, observation_size=2, action_size=1, slack=12, truncations=40)


def queue() -> tuple[QueuedReplay, Replay]:
    arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in SHAPE.layout().items()}
    replay = Replay(SHAPE, arrays)
    return QueuedReplay(replay, longest=12), replay


def episode(number: int, length: int):
    rng = np.random.default_rng(number)
    observations = rng.standard_normal((length + 1, 2)).astype(np.float32)
    actions = rng.standard_normal((length, 1)).astype(np.float32)
    rewards = rng.standard_normal(length).astype(np.float32)
    return one_episode(observations, actions, rewards, TRUNCATED if number % 2 else TERMINATED)


def window(replay: Replay, watermark: int) -> bytes:
    """Everything that the rows of a window hold."""
    rows = np.arange(max(0, watermark - SHAPE.capacity), watermark) % SHAPE.rows
    batch = Batch.allocate(len(rows), SHAPE)
    replay.gather(rows, batch)
    batch.next_observations[batch.terminated] = 0.0  # says nothing there
    return b"".join(array.tobytes() for array in batch)


def test_numbers_bytes_and_digests_do_not_depend_on_when_the_ring_moves(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(queued_replay, "SEGMENT", 16)
    eager, lazy = queue()[0], queue()[0]
    for number in range(12):
        one = eager.append(episode(number, 5))
        assert eager.fill(None) == eager.watermark
        assert lazy.append(episode(number, 5)) == one
        assert lazy.digests().tobytes() == eager.digests().tobytes()
        lazy.fill(20)  # a reader still has the window of watermark 20
    assert lazy.fill(20) < eager.watermark == 60
    assert lazy.fill(None) == 60


def test_a_window_with_more_cut_episodes_than_it_keeps_is_refused_by_name():
    shape = replace(SHAPE, truncations=4)
    arrays = {name: np.zeros(form, kind) for name, (form, kind) in shape.layout().items()}
    replay = QueuedReplay(Replay(shape, arrays), longest=12)
    segments: dict[str, bytes] = {}
    for number in range(5):
        for name, data in replay.append(episode(2 * number + 1, 2)):  # cut after two steps
            segments[name] = segments.get(name, b"") + data
    assert replay.fill(6) == 8  # a reader of the first three finds its window
    with pytest.raises(ReplayFull, match="more than 4 episodes of a replay window of 20"):
        replay.fill(10)
    replay.load(replay.state(None), segments.__getitem__, None)  # without a reader it may wait
    assert replay.fill(None) == 8


@pytest.mark.parametrize("oldest", [None, 60, 47, 33])
def test_a_loaded_replay_has_every_window_from_the_oldest_on(
    oldest: int | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(queued_replay, "SEGMENT", 16)
    before, ring = queue()
    segments: dict[str, bytes] = {}
    kept: dict[int, bytes] = {}
    for number in range(12):
        for name, data in before.append(episode(number, 5)):
            segments[name] = segments.get(name, b"") + data
        before.fill(None)
        kept[before.watermark] = window(ring, before.watermark)
    state = before.state(oldest)
    assert set(before.segments(oldest)) <= set(segments)

    after, again = queue()
    after.load(state, segments.__getitem__, oldest)
    assert after.watermark == 60
    assert after.digests().tobytes() == before.digests().tobytes()
    filled = after.fill(oldest)
    assert filled >= (oldest or 60)
    for watermark, expected in kept.items():
        if (oldest or 60) <= watermark <= filled:
            assert window(again, watermark) == expected
    more = episode(99, 4)
    assert after.append(more) == before.append(more)


def test_a_damaged_segment_and_a_missing_tensor_are_refused():
    whole, _ = queue()
    parts = whole.append(episode(0, 5))
    state = whole.state(None)
    damaged = bytes([parts[0][1][0] ^ 1]) + parts[0][1][1:]
    with pytest.raises(DamagedReplay, match="is not as it was written"):
        queue()[0].load(state, lambda name: damaged, None)
    del state.tensors["replay_digests"]
    with pytest.raises(ValueError, match="no tensor 'replay_digests'"):
        queue()[0].load(state, lambda name: parts[0][1], None)


def test_an_episode_longer_than_the_replay_was_laid_out_for_is_refused_and_changes_nothing():
    replay, _ = queue()
    replay.append(episode(0, 12))
    before = replay.state(None)
    with pytest.raises(EpisodeTooLong, match=r"took 13 steps and .* laid out for 12 .*TimeLimit"):
        replay.append(episode(1, 13))
    assert replay.watermark == 12
    assert replay.digests().tobytes() == before.tensors["replay_digests"].tobytes()
    assert replay.fill(None) == 12
