"""Low-rank noise: against explicit matrices, its moments, and the same bits on any threads."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from drumline import seeding
from drumline.functional import low_rank
from drumline.functional.low_rank import LowRank, LowRankNoise
from drumline.functional.perturbation import (
    TILE,
    generation_keys,
    perturb,
    perturbed_pieces,
    weighted_noise_sum,
)

SHAPES = ((600, 130), (130,), (16, 3, 4, 4), (0, 3), (2, 2), (1, 40), (33, 31), ())
"""More than a tile and several slabs of rows, a convolution, and what has noise of full rank."""
KEY = 7 << 32 | 3


def noise_of(shapes: tuple[tuple[int, ...], ...] = SHAPES, rank: int = 2) -> LowRankNoise:
    return LowRankNoise(5, LowRank(rank, shapes))


def drawn(noise: LowRankNoise, size: int, key: int = KEY) -> np.ndarray:
    return noise.read(key, 0, size, np.empty(size, np.float32)).copy()


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_perturbation_is_the_explicit_matrices(rank: int):
    """E = A Bᵀ / √R in float64, from normals that are drawn here by name."""
    layout = LowRank(rank, SHAPES)
    noise = LowRankNoise(5, layout)
    factors = seeding.counter_generator(seeding.key(5, "noise-factors"), 0, 3, 7)
    numbers = seeding.counter_generator(seeding.key(5, "noise-full-rank"), 0, 3, 7)
    expected: list[np.ndarray] = []
    for shape in SHAPES:
        rows, columns = (shape[0], int(np.prod(shape[1:]))) if len(shape) > 1 else (1, 0)
        if rank * (rows + columns) < rows * columns:
            a = factors.standard_normal((rank, rows), np.float32).T.astype(np.float64)
            b = factors.standard_normal((rank, columns), np.float32).T.astype(np.float64)
            expected.append((a @ b.T / np.sqrt(rank)).ravel())
        else:
            expected.append(numbers.standard_normal(int(np.prod(shape)), np.float32))
    whole = np.concatenate(expected)
    assert layout.parameter_count == whole.size
    np.testing.assert_allclose(drawn(noise, whole.size), whole, rtol=1e-5, atol=1e-5)


SIZE = LowRank(2, SHAPES).parameter_count


@given(st.integers(0, SIZE), st.integers(0, SIZE))
@example(TILE - 1, TILE + 1)
@example(129, 131)
@example(600 * 130 - 1, 600 * 130 + 131)
@example(9, 9)
def test_a_slice_is_a_slice_of_the_whole(one: int, other: int):
    noise = noise_of()
    start, stop = sorted((one, other))
    whole = drawn(noise, SIZE)
    piece = noise.read(KEY, start, stop, np.empty(stop - start, np.float32))
    assert piece.tobytes() == whole[start:stop].tobytes()


def test_pieces_and_the_whole_have_the_same_bits():
    noise, theta = noise_of(), np.linspace(-1.0, 1.0, SIZE, dtype=np.float32)
    whole = np.empty_like(theta)
    perturb(theta, noise.read, KEY, -0.3, whole)
    pieces = [p.copy() for _, p in perturbed_pieces(theta, noise.read, KEY, -0.3)]
    assert len(pieces) > 1
    assert np.concatenate(pieces).tobytes() == whole.tobytes()
    mirrored = np.empty_like(theta)
    perturb(theta, noise.read, KEY, 0.3, mirrored)
    np.testing.assert_allclose((whole + mirrored) / 2, theta, atol=1e-6)


def test_numbers_that_are_not_kept_are_the_same(monkeypatch: pytest.MonkeyPatch):
    kept = drawn(noise_of(), SIZE)
    monkeypatch.setattr(low_rank, "_HELD", 10)
    other = noise_of()
    assert drawn(other, SIZE).tobytes() == kept.tobytes()
    assert other.full(KEY).tobytes() == noise_of().full(KEY).tobytes()


@pytest.mark.parametrize("rank", [1, 2])
def test_entries_have_mean_0_and_the_identity_as_covariance(rank: int):
    """Two matrices of one shape and a vector. Bounds: five standard errors of these estimates."""
    shapes, draws = ((7, 6), (3,), (7, 6)), 8_000
    noise = noise_of(shapes, rank)
    rows = np.stack([drawn(noise, 87, key) for key in generation_keys(0, 0, draws)])
    rows = rows.astype(np.float64)
    assert np.abs(rows.mean(axis=0)).max() < 5 / np.sqrt(draws)
    covariance = rows.T @ rows / draws
    # Of products of two entries the variance is at most (1 + 2/R)² − 1 on the diagonal, where E[e⁴]
    # is (3 + 6/R), and 1 + 2/R beside it, in one row or column.
    beside = covariance - np.diag(np.diag(covariance))
    assert np.abs(np.diag(covariance) - 1).max() < 5 * np.sqrt((2 + 6 / rank) / draws)
    assert np.abs(beside).max() < 5 * np.sqrt((1 + 2 / rank) / draws)
    # It is of rank R: E[e⁴] of a matrix is 3 + 6/R, of a vector 3.
    fourth = (rows**4).mean(axis=0)
    assert fourth[:42].mean() == pytest.approx(3 + 6 / rank, rel=0.15)
    assert fourth[42:45].mean() == pytest.approx(3, rel=0.15)


def test_pairs_generations_and_seeds_have_noise_of_their_own():
    shapes = ((20, 30), (10,))
    keys = [*generation_keys(0, 0, 3), *generation_keys(1, 0, 3)]
    rows = [drawn(noise_of(shapes), 610, key) for key in keys]
    rows.append(drawn(LowRankNoise(6, LowRank(2, shapes)), 610, keys[0]))
    likeness = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(likeness).max() < 0.3


@pytest.mark.parametrize("rank", [1, 3])
def test_the_sum_is_that_of_explicit_perturbations(rank: int):
    noise, keys = noise_of(rank=rank), generation_keys(2, 0, 40)
    weights = np.random.default_rng(0).uniform(-0.5, 0.5, 40)
    weights[7] = 0.0
    explicit = sum(
        np.float64(np.float32(weight)) * drawn(noise, SIZE, key).astype(np.float64)
        for weight, key in zip(weights, keys, strict=True)
    )
    total = noise.weighted_sum(keys, weights.tolist(), SIZE, 1)
    np.testing.assert_allclose(total, explicit, rtol=1e-4, atol=2e-5)
    slow = weighted_noise_sum(noise.read, keys, weights.tolist(), SIZE)
    np.testing.assert_allclose(total, slow, rtol=1e-4, atol=2e-5)


def test_neither_threads_nor_the_order_of_keys_change_a_bit_of_the_sum():
    """Several groups of keys, several slabs of rows, and full rank in two spans."""
    shapes = ((600, 500), (70_000,), (40, 70))
    noise, keys = noise_of(shapes, 1), generation_keys(2, 0, 600)
    layout = LowRank(1, shapes)
    assert len(keys) > 2 * low_rank._DEPTH
    rng = np.random.default_rng(1)
    weights = np.where(rng.random(600) < 0.05, 0.0, rng.uniform(-0.5, 0.5, 600))
    expected = noise.weighted_sum(keys, weights.tolist(), layout.parameter_count, 1).tobytes()
    order = rng.permutation(600)
    shuffled = [keys[i] for i in order]
    for threads, blas in ((2, 1), (3, 1), (1, 2)):
        with threadpool_limits(blas, "blas"):
            again = noise.weighted_sum(
                shuffled, weights[order].tolist(), layout.parameter_count, threads
            )
        assert again.tobytes() == expected, (threads, blas)


def test_a_sum_without_weights_is_zero():
    assert not noise_of().weighted_sum([1, 2], [0.0, 0.0], SIZE, 1).any()


def test_a_sum_over_other_parameters_is_refused():
    with pytest.raises(ValueError, match=f"is for {SIZE} parameters, got 9"):
        noise_of().weighted_sum([1], [1.0], 9, 1)


@pytest.mark.parametrize(
    ("rank", "shapes", "said"),
    [
        (0, ((5, 5),), "a rank of 1 or more, got 0"),
        (3, ((5, 5), (9,)), "low-rank:3: no parameter is a matrix with more numbers than"),
        (1, ((900,),), "no parameter is a matrix"),
    ],
)
def test_a_rank_that_does_nothing_is_refused(rank: int, shapes: Any, said: str):
    with pytest.raises(ValueError, match=said):
        LowRank(rank, shapes)
