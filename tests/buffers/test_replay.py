"""The ring against a list of everything ever appended."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.buffers.replay import (
    GOES_ON,
    TERMINATED,
    TRUNCATED,
    Batch,
    Replay,
    ReplayFull,
    ReplayShape,
    ReplayWriter,
    one_episode,
)

Kinds = Sequence[int]


def make(shape: ReplayShape) -> ReplayWriter:
    arrays = {n: np.zeros(size, kind) for n, (size, kind) in shape.layout().items()}
    return ReplayWriter(Replay(shape, arrays))


class Everything:
    """The oracle: pieces with numbers that say which they are, kept for ever."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float, float, bool, float]] = []
        self._clock = 0.0

    def piece(self, length: int, kind: int):
        start = self._clock
        observations = start + np.arange(length + 1.0, dtype=np.float32)
        # An episode that goes on begins its next piece with the same observation.
        self._clock = start + length + (0.0 if kind == GOES_ON else 1.0)
        for t in range(length):
            ends = kind == TERMINATED and t == length - 1
            now = float(observations[t])
            self.rows.append((now, -now, 0.5 * now, ends, float(observations[t + 1])))
        values = observations[:, None].repeat(2, axis=1)
        return one_episode(values, -values[:-1, :1], 0.5 * values[:-1, 0], kind)


def contents(replay: Replay, watermark: int) -> list[tuple[float, float, float, bool, float]]:
    """Everything in a window, gathered in order."""
    count = min(watermark, replay.shape.capacity)
    uniform = (np.arange(count) + 0.5) / count
    batch = Batch.allocate(count, replay.shape)
    replay.gather(replay.rows(uniform, watermark), batch)
    after = np.where(batch.terminated, np.nan, batch.next_observations[:, 0])
    columns = (batch.observations[:, 0], batch.actions[:, 0], batch.rewards, batch.terminated)
    rows = zip(*(column.tolist() for column in (*columns, after)), strict=True)
    return [tuple(row) for row in rows]


def same(one: object, other: object) -> bool:
    return np.array_equal(np.array(one, float), np.array(other, float), equal_nan=True)


def window(everything: Everything, watermark: int, capacity: int) -> list[tuple[float, ...]]:
    rows = everything.rows[max(0, watermark - capacity) : watermark]
    return [(*row[:4], np.nan if row[3] else row[4]) for row in rows]


@given(
    pieces=st.lists(
        st.tuples(st.integers(1, 5), st.sampled_from([GOES_ON, TERMINATED, TRUNCATED])),
        min_size=1,
        max_size=30,
    )
)
@settings(max_examples=60, deadline=None)
def test_a_window_holds_the_newest_transitions_with_their_next_observations(
    pieces: list[tuple[int, int]],
):
    writer, everything = make(ReplayShape(11, 2, 1, 6, 20)), Everything()
    for length, kind in pieces:
        writer.append(everything.piece(length, kind))
        got = contents(writer.replay, writer.watermark)
        assert same(got, window(everything, writer.watermark, 11))


@given(lengths=st.lists(st.integers(1, 4), min_size=5, max_size=40), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_window_that_is_still_read_is_never_overwritten(lengths: list[int], seed: int):
    writer, everything = make(ReplayShape(7, 2, 1, 5, 12)), Everything()
    rng = np.random.default_rng(seed)
    held = 0
    for length in lengths:
        kind = int(rng.choice([TERMINATED, TRUNCATED]))
        piece = everything.piece(length, kind)
        while not writer.has_room(piece, held):
            with pytest.raises(ReplayFull, match="would overwrite the window"):
                writer.append(piece, held)
            held += 1  # the reader goes on
            assert held <= writer.watermark
        writer.append(piece, held)
        if held:
            assert same(contents(writer.replay, held), window(everything, held, 7))


def test_too_many_short_cut_episodes_are_refused_in_words():
    writer, everything = make(ReplayShape(8, 2, 1, 4, 2)), Everything()
    for _ in range(2):
        writer.append(everything.piece(1, TRUNCATED))
    with pytest.raises(ReplayFull, match="more than 2 episodes of a replay window of 8"):
        writer.append(everything.piece(1, TRUNCATED))


def test_a_piece_that_does_not_go_on_where_the_episode_is_changes_nothing():
    writer, everything = make(ReplayShape(8, 2, 1, 4, 2)), Everything()
    writer.append(everything.piece(3, GOES_ON))
    other = Everything().piece(3, TERMINATED)
    with pytest.raises(ValueError, match="not from the observation that it reached"):
        writer.append(other)
    assert writer.watermark == 3


@pytest.mark.parametrize("field", ["observations", "actions", "rewards"])
def test_transitions_that_are_not_finite_are_refused(field: str):
    writer, piece = make(ReplayShape(8, 2, 1, 4, 2)), Everything().piece(3, TERMINATED)
    array = np.array(getattr(piece, field))
    array[1] = np.nan
    with pytest.raises(ValueError, match=f"the {field} of a transition are not finite"):
        writer.append(piece._replace(**{field: array}))
    assert writer.watermark == 0


def test_draws_are_uniform_over_the_window_and_its_ends_are_reached():
    writer, everything = make(ReplayShape(10, 2, 1, 5, 2)), Everything()
    for _ in range(7):
        writer.append(everything.piece(4, TERMINATED))
    uniform = np.random.default_rng(0).random(20_000)
    rows = writer.replay.rows(np.append(uniform, [0.0, np.nextafter(1.0, 0.0)]), 28)
    chosen = writer.replay.observations[rows, 0]
    expected = [row[0] for row in everything.rows[-10:]]
    values, counts = np.unique(chosen, return_counts=True)
    assert values.tolist() == expected
    assert np.all(np.abs(counts - 2000) < 5 * np.sqrt(2000))


def test_a_million_transitions_of_humanoid_take_less_than_3_2_gigabytes():
    layout = ReplayShape(1_000_000, 348, 17, 65_536, 62_500).layout()
    size = sum(int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in layout.values())
    assert size < 3.2e9 / 1.9  # next observations apart would double it


def test_the_newest_transitions_come_back_as_they_were_appended():
    writer, everything = make(ReplayShape(10, 2, 1, 5, 4)), Everything()
    copy = make(ReplayShape(10, 2, 1, 5, 4))
    for length, kind in [(4, TERMINATED), (3, TRUNCATED), (2, GOES_ON)]:
        writer.append(everything.piece(length, kind))
    copy.append(writer.last(9))
    assert same(contents(copy.replay, 9), contents(writer.replay, 9))
    assert np.array_equal(np.asarray(copy.next_observation), np.asarray(writer.next_observation))


def test_nothing_is_drawn_from_an_empty_replay():
    writer = make(ReplayShape(10, 2, 1, 5, 4))
    with pytest.raises(ValueError, match="empty replay"):
        writer.replay.rows(np.zeros(3), 0)


def test_a_replay_without_room_is_refused():
    with pytest.raises(ValueError, match="slack of a replay must be 1 or more, got 0"):
        ReplayShape(10, 2, 1, 0, 4)


def test_a_copy_that_is_told_of_every_write_equals_the_replay():
    shape = ReplayShape(capacity=7, observation_size=2, action_size=1, slack=4, truncations=3)
    copied = {n: np.zeros(size, kind) for n, (size, kind) in shape.layout().items()}
    arrays = {n: array.copy() for n, array in copied.items()}

    def copy(name: str, first: int, last: int) -> None:
        copied[name][first:last] = arrays[name][first:last]

    writer = ReplayWriter(Replay(shape, arrays), copy)
    everything = Everything()
    for length, kind in [(3, TRUNCATED), (4, GOES_ON), (2, TRUNCATED), (3, TERMINATED)] * 5:
        writer.append(everything.piece(length, kind))
        assert all(np.array_equal(copied[name], array) for name, array in arrays.items())
