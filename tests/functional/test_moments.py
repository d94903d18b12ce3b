"""Running moments: equal to NumPy's on the concatenation, and folded in the order given."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional.moments import (
    FOLD_BLOCK,
    fold,
    initial_moments,
    inverse_std,
    inverse_std_unless_constant,
    merge,
    moments_of,
    pooled,
)


def parts_of(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(i, 1.0 + i, (3 + 5 * (i % 9), 4)) for i in range(count)]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=7))
def test_merging_is_numpys_moments_of_the_concatenation(lengths: list[int]):
    rng = np.random.default_rng(lengths)
    parts = [rng.normal(i, 1.0 + i, (length, 4)) for i, length in enumerate(lengths)]
    merged = fold(moments_of(parts[0]), map(moments_of, parts[1:]))
    rows = np.concatenate(parts)
    assert merged.count == len(rows)
    assert merged.mean == pytest.approx(rows.mean(axis=0), rel=1e-12, abs=1e-12)
    assert merged.squares / merged.count == pytest.approx(rows.var(axis=0), rel=1e-12, abs=1e-12)


def test_merging_survives_a_large_offset():
    rows = np.random.default_rng(0).normal(1e6, 1.0, (1_000, 2))
    merged = merge(moments_of(rows[:300]), moments_of(rows[300:]))
    assert merged.squares / merged.count == pytest.approx(rows.var(axis=0), rel=1e-9)


def test_folding_is_merging_from_left_to_right():
    start, parts = initial_moments(4), [moments_of(rows) for rows in parts_of(2 * FOLD_BLOCK + 3)]
    folded, expected = fold(start, parts), start
    for part in parts:
        expected = merge(expected, part)
    assert folded.count == expected.count
    assert folded.mean == pytest.approx(expected.mean, rel=1e-12)
    assert folded.squares == pytest.approx(expected.squares, rel=1e-12)


def test_folding_merges_whole_blocks_in_the_order_given():
    start, parts = initial_moments(4), [moments_of(rows) for rows in parts_of(FOLD_BLOCK + 5)]
    folded = fold(start, iter(parts))
    blocks = pooled(parts[:FOLD_BLOCK]), pooled(parts[FOLD_BLOCK:])
    expected = merge(merge(start, blocks[0]), blocks[1])
    assert folded.mean.tobytes() == expected.mean.tobytes()
    assert folded.squares.tobytes() == expected.squares.tobytes()


def test_pooling_survives_a_large_offset_and_nothing():
    rows = np.random.default_rng(0).normal(1e6, 1.0, (1_000, 2))
    found = pooled([moments_of(part) for part in np.split(rows, 10)])
    assert found.squares / found.count == pytest.approx(rows.var(axis=0), rel=1e-9)
    assert pooled([initial_moments(2, pseudo_count=0.0)] * 2).count == 0


def test_folding_changes_neither_the_start_nor_the_parts():
    start, part = initial_moments(4), moments_of(parts_of(1)[0])
    before = start.mean.copy(), part.squares.copy()
    fold(start, [part, part])
    assert start.mean.tobytes() == before[0].tobytes()
    assert part.squares.tobytes() == before[1].tobytes()


def test_merging_nothing_with_nothing_is_nothing():
    empty = initial_moments(2, pseudo_count=0.0)
    assert merge(empty, empty).count == 0


def test_moments_travel_with_all_their_bits():
    sent = moments_of(parts_of(2)[1])
    received = pickle.loads(pickle.dumps(sent, 5))
    assert received.count == sent.count
    assert received.mean.tobytes() == sent.mean.tobytes()
    assert received.squares.tobytes() == sent.squares.tobytes()
    assert merge(received, received).squares.tobytes() == merge(sent, sent).squares.tobytes()


def test_float32_rows_are_summed_in_float64():
    rows = np.full((100_000, 1), 0.1, np.float32)
    assert moments_of(rows).mean[0] == pytest.approx(float(np.float32(0.1)), rel=1e-12)


def test_initial_moments_are_a_hundredth_of_a_row_with_mean_0_and_variance_1():
    moments = initial_moments(2)
    assert moments.count == 0.01
    assert moments.mean.tolist() == [0.0, 0.0]
    assert (moments.squares / moments.count).tolist() == [1.0, 1.0]


def test_the_first_inverse_std_is_one_and_small_variances_are_floored():
    assert inverse_std(initial_moments(3)).tolist() == [1.0, 1.0, 1.0]
    assert inverse_std(moments_of(np.ones((5, 1)))).tolist() == [10.0]


def test_before_anything_was_observed_nothing_is_blanked_out():
    assert inverse_std_unless_constant(initial_moments(2, 0.0)).tolist() == [1.0, 1.0]


def test_what_never_varies_is_blanked_out_and_small_stds_are_not_floored():
    rows = np.stack([np.ones(4), [0.0, 1e-3, 0.0, 1e-3]], axis=1)
    assert inverse_std_unless_constant(moments_of(rows)).tolist() == pytest.approx([0.0, 2000.0])
