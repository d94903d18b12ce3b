"""Named noise: the same numbers for every reader, and sums with the same bits on any threads."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drumline import seeding
from drumline.functional.perturbation import (
    ALIGNMENT,
    TABLE_BLOCK,
    TILE,
    counter_noise,
    counter_reader,
    fill_table,
    perturb,
    perturbed_pieces,
    pieces_of,
    subset_range,
    table_noise,
    table_reader,
    weighted_noise_sum,
)

BIG = 5 * TILE + 1_234
"""More than five tiles, the last one partial: long spans on 1 and 2 threads, short ones on 3."""


def table_of(size: int, threads: int = 1) -> np.ndarray:
    table = np.zeros(size, np.float32)
    fill_table(table, seed=5, threads=threads)
    return table


def scratch(size: int) -> np.ndarray:
    return np.empty(size, np.float32)


@given(st.integers(1, 400), st.integers(0, 400), st.integers(0, 9), st.integers(0, 20))
def test_table_keys_are_aligned_and_leave_room(size: int, spare: int, generation: int, first: int):
    noise = table_noise(np.zeros(size + spare, np.float32), size, seed=1)
    for key in noise.keys(generation, first, 10):
        assert key % ALIGNMENT == 0
        assert 0 <= key <= spare


@pytest.mark.parametrize("source", ["table", "counter"])
def test_keys_do_not_depend_on_how_they_are_asked_for(source: str):
    table = np.zeros(10_000, np.float32)
    noise = table_noise(table, 100, seed=1) if source == "table" else counter_noise(1)
    whole = noise.keys(3, 0, 12)
    assert noise.keys(3, 0, 5) + noise.keys(3, 5, 7) == whole
    assert noise.keys(4, 0, 12) != whole


def test_the_table_is_the_same_on_any_number_of_threads():
    size = 2 * TABLE_BLOCK + 77
    expected = table_of(size).tobytes()
    assert table_of(size, threads=3).tobytes() == expected


def test_the_table_is_the_same_whoever_fills_it():
    """A block's content follows from its number: a shorter table begins a longer one."""
    long, short = table_of(2 * TABLE_BLOCK), table_of(TABLE_BLOCK + 99)
    assert short.tobytes() == long[: short.size].tobytes()
    block = np.empty(TABLE_BLOCK, np.float32)
    stream = seeding.key(5, "noise-table")
    seeding.counter_generator(stream, 1).standard_normal(dtype=np.float32, out=block)
    assert block.tobytes() == long[TABLE_BLOCK:].tobytes()


def test_the_table_is_standard_normal():
    table = table_of(TABLE_BLOCK).astype(np.float64)
    assert abs(table.mean()) < 0.005
    assert abs(table.std() - 1.0) < 0.005


def test_a_table_smaller_than_the_parameters_is_refused():
    with pytest.raises(ValueError, match="smaller than the 101 parameters"):
        table_noise(np.zeros(100, np.float32), 101, seed=0)


@given(st.integers(0, BIG), st.integers(0, BIG))
@example(TILE - 1, TILE + 1)
@example(TILE, 2 * TILE)
@example(2 * TILE + 5, BIG)
@example(9, 9)
def test_a_slice_of_counter_noise_is_a_slice_of_the_whole(one: int, other: int):
    start, stop = sorted((one, other))
    noise = counter_noise(3)
    key = noise.keys(2, 4, 1)[0]
    whole = noise.read(key, 0, BIG, scratch(BIG)).copy()
    piece = noise.read(key, start, stop, scratch(stop - start))
    assert piece.tobytes() == whole[start:stop].tobytes()


def test_counter_noise_differs_between_pairs_generations_tiles_and_seeds():
    first = counter_noise(3)
    size = 2 * TILE
    rows = [first.read(key, 0, size, scratch(size)) for key in (0, 1, 1 << 32)]
    rows.append(counter_noise(4).read(0, 0, size, scratch(size)))
    rows.append(np.roll(rows[0], TILE))
    correlations = np.corrcoef(np.array(rows)) - np.eye(len(rows))
    assert np.abs(correlations).max() < 0.02


@pytest.mark.parametrize("source", ["table", "counter"])
def test_the_weighted_sum_has_the_same_bits_on_any_threads_and_is_the_plain_loop(source: str):
    noise = table_noise(table_of(BIG + 999), BIG, 1) if source == "table" else counter_noise(1)
    keys = noise.keys(0, 0, 6)
    weights = [0.5, -0.25, 0.0, 1.0, -2.0, 0.125]
    sums = [weighted_noise_sum(noise.read, keys, weights, BIG, threads=n) for n in (1, 2, 3)]
    assert len({total.tobytes() for total in sums}) == 1
    expected = np.zeros(BIG, np.float32)
    for key, weight in sorted(zip(keys, weights, strict=True)):
        expected += np.float32(weight) * noise.read(key, 0, BIG, scratch(BIG))
    assert sums[0].tobytes() == expected.tobytes()


def test_pairs_that_share_a_key_are_summed_in_the_order_of_the_pairs():
    noise = table_noise(table_of(200), 100, 1)
    keys, weights = [64, 16, 64, 64], [1.0, 1.0, 1e8, -1e8]
    slices = [noise.read(key, 0, 100, scratch(100)) for key in (16, 64)]
    expected = slices[0] + slices[1]
    expected += np.float32(1e8) * slices[1]
    expected -= np.float32(1e8) * slices[1]
    assert weighted_noise_sum(noise.read, keys, weights, 100).tobytes() == expected.tobytes()


@pytest.mark.parametrize("source", ["table", "counter"])
def test_the_weighted_sum_within_ranges_is_the_plain_loop(source: str):
    noise = table_noise(table_of(BIG + 999), BIG, 1) if source == "table" else counter_noise(1)
    keys = noise.keys(0, 0, 3)
    ranges = [(0, TILE + 7), (TILE - 3, BIG), (2 * TILE, 2 * TILE + 1)]
    weights = [0.5, -1.5, 3.0]
    expected = np.zeros(BIG, np.float32)
    for key, weight, (start, stop) in zip(keys, weights, ranges, strict=True):
        expected[start:stop] += (
            np.float32(weight) * noise.read(key, 0, BIG, scratch(BIG))[start:stop]
        )
    for threads in (1, 2, 3):
        total = weighted_noise_sum(noise.read, keys, weights, BIG, ranges=ranges, threads=threads)
        assert total.tobytes() == expected.tobytes()


@given(st.integers(1, 500), st.integers(1, 100))
def test_subset_ranges_are_equal_blocks_that_cover_all_parameters(size: int, blocks: int):
    found = sorted({subset_range(key, size, 1.0 / blocks) for key in range(1_500)})
    # With 1,500 keys, missing one of 100 blocks has probability 3e-5.
    assert len(found) == min(size, blocks)
    assert [i for start, stop in found for i in range(start, stop)] == list(range(size))
    lengths = [stop - start for start, stop in found]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("source", ["table", "counter"])
@pytest.mark.parametrize("fraction", [1 / 33, 0.25, 0.5])
def test_every_parameter_is_in_the_chosen_block_equally_often(source: str, fraction: float):
    """Over `draws` keys a parameter's count is binomial(draws, 1 / blocks): 5 σ on either side."""
    size, draws = 103, 40_000
    empty = np.zeros(1 << 24, np.float32)
    noise = table_noise(empty, size, 1) if source == "table" else counter_noise(1)
    keys = [key for generation in range(40) for key in noise.keys(generation, 0, draws // 40)]
    edges = np.zeros(size + 1, np.int64)
    for key in keys:
        start, stop = subset_range(key, size, fraction)
        edges[start] += 1
        edges[stop] -= 1
    counts = edges[:-1].cumsum()
    share = 1 / round(1 / fraction)
    assert np.abs(counts - draws * share).max() < 5 * np.sqrt(draws * share * (1 - share))


@pytest.mark.parametrize("source", ["table", "counter"])
def test_perturbing_adds_scaled_noise_and_only_within_the_block(source: str):
    noise = table_noise(table_of(2_000), 1_000, 1) if source == "table" else counter_noise(1)
    theta = np.linspace(-1, 1, 1_000, dtype=np.float32)
    key = noise.keys(0, 0, 1)[0]
    epsilon = noise.read(key, 0, 1_000, scratch(1_000)).copy()
    out = scratch(1_000)
    perturb(theta, noise.read, key, -0.5, out)
    assert out.tobytes() == (np.float32(-0.5) * epsilon + theta).tobytes()
    perturb(theta, noise.read, key, 0.5, out, (100, 200))
    expected = theta.copy()
    expected[100:200] += np.float32(0.5) * epsilon[100:200]
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "within", [None, (5, 9), (TILE - 3, 2 * TILE + 1), (2 * TILE, 2 * TILE + 9)]
)
@pytest.mark.parametrize("kind", ["counter", "table"])
def test_pieces_have_the_bits_of_the_whole_perturbation(kind: str, within: Any):
    rng = np.random.default_rng(1)
    parameters = rng.standard_normal(2 * TILE + 9, np.float32)
    read = counter_reader(3)
    if kind == "table":
        read = table_reader(rng.standard_normal(3 * TILE, np.float32))
    whole = np.empty_like(parameters)
    perturb(parameters, read, 64, 0.3, whole, within)
    pieces = perturbed_pieces(parameters, read, 64, 0.3, within)
    joined = np.concatenate([piece.copy() for _, piece in pieces])
    assert joined.tobytes() == whole.tobytes()
    again = np.concatenate([piece.copy() for _, piece in pieces_of(whole)])
    assert again.tobytes() == whole.tobytes()
