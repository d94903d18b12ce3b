"""Each formula against a slow loop in the paper's notation, and its invariances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline import seeding
from drumline.functional.gradient_steps import adam_step, momentum_step
from drumline.functional.moments import fold, initial_moments, merge, moments_of
from drumline.functional.perturbation import (
    TABLE_BLOCK,
    TILE,
    counter_noise,
    fill_table,
    perturb,
    subset_range,
    table_noise,
    weighted_noise_sum,
)
from drumline.functional.ranking import centered_ranks, unshaped, z_scores
from drumline.functional.top_directions import top_direction_weights

fitnesses = st.lists(st.integers(-5, 5), min_size=2, max_size=30).map(
    lambda values: np.array(values, dtype=np.float64)
)


@given(fitnesses)
def test_centered_ranks_sum_to_zero_and_share_ties(fitness):
    ranks = centered_ranks(fitness)
    assert abs(ranks.sum()) < 1e-12
    for value in np.unique(fitness):
        assert len(set(ranks[fitness == value].tolist())) == 1
    assert np.abs(ranks).max() <= 0.5


@given(fitnesses)
def test_centered_ranks_see_only_the_order(fitness):
    assert np.array_equal(centered_ranks(fitness), centered_ranks(np.exp(fitness / 3) * 7 + 1))


@given(fitnesses, st.randoms(use_true_random=False))
def test_centered_ranks_follow_a_permutation(fitness, random):
    order = list(range(fitness.size))
    random.shuffle(order)
    assert np.array_equal(centered_ranks(fitness)[order], centered_ranks(fitness[order]))


def test_centered_ranks_without_ties_are_the_papers():
    assert centered_ranks(np.array([3.0, 1.0, 2.0])).tolist() == [0.5, -0.5, 0.0]


@pytest.mark.parametrize("shape", [centered_ranks, z_scores])
def test_constant_fitness_has_exactly_zero_weights(shape):
    assert not shape(np.full(7, 0.1)).any()


def test_z_scores_have_mean_0_and_std_1():
    scores = z_scores(np.array([1.0, 2.0, 4.0, 9.0]))
    assert scores.mean() == pytest.approx(0.0)
    assert scores.std() == pytest.approx(1.0)
    assert unshaped(np.array([1.5, -2.0])).tolist() == [1.5, -2.0]


def test_the_tables_content_does_not_depend_on_threads():
    one, three = (np.empty(2 * TABLE_BLOCK + 5, np.float32) for _ in range(2))
    fill_table(one, 3, threads=1)
    fill_table(three, 3, threads=3)
    assert one.tobytes() == three.tobytes()
    assert abs(float(one.mean())) < 0.01
    assert float(one.std()) == pytest.approx(1.0, abs=0.01)


def test_table_keys_are_aligned_in_range_and_extend():
    noise = table_noise(np.zeros(1000, np.float32), 100, seed=0)
    keys = noise.keys(4, 0, 300)
    assert all(key % 16 == 0 and 0 <= key <= 900 for key in keys)
    assert noise.keys(4, 100, 50) == keys[100:150]
    assert noise.keys(5, 0, 300) != keys


def test_a_table_smaller_than_the_parameters_is_refused():
    with pytest.raises(ValueError, match=r"100 floats.*101"):
        table_noise(np.zeros(100, np.float32), 101, seed=0)


@given(st.integers(0, 3 * TILE), st.integers(0, 3 * TILE))
def test_any_slice_of_counter_noise_equals_the_whole(a, b):
    start, stop = sorted((a, b))
    noise = counter_noise(1)
    key = noise.keys(2, 5, 1)[0]
    whole = noise.read(key, 0, 3 * TILE, np.empty(3 * TILE, np.float32)).copy()
    piece = noise.read(key, start, stop, np.empty(stop - start, np.float32))
    assert piece.tobytes() == whole[start:stop].tobytes()


@pytest.mark.parametrize("source", ["table", "counter"])
@pytest.mark.parametrize("fraction", [None, 0.3])
def test_the_weighted_sum_has_the_same_bits_on_1_2_and_3_threads(source, fraction):
    size, pairs = 3 * TILE + 17, 4
    table = np.empty(size * 2, np.float32)
    fill_table(table, 0)
    noise = table_noise(table, size, 0) if source == "table" else counter_noise(0)
    keys, weights = noise.keys(0, 0, pairs), [0.5, 0.0, -0.25, 0.125]
    ranges = None if fraction is None else [subset_range(k, size, fraction) for k in keys]
    sums = [
        weighted_noise_sum(noise.read, keys, weights, size, ranges=ranges, threads=threads)
        for threads in (1, 2, 3)
    ]
    assert sums[0].tobytes() == sums[1].tobytes() == sums[2].tobytes()
    expected = np.zeros(size)
    for i, (key, weight) in enumerate(zip(keys, weights, strict=True)):
        low, high = (0, size) if ranges is None else ranges[i]
        scratch = np.empty(high - low, np.float32)
        expected[low:high] += weight * noise.read(key, low, high, scratch).astype(np.float64)
    assert np.abs(sums[0] - expected).max() < 1e-5


def test_perturbed_pairs_mirror_each_other_and_subsets_leave_the_rest_alone():
    noise, parameters = counter_noise(0), np.ones(50, np.float32)
    plus, minus, part = (np.empty(50, np.float32) for _ in range(3))
    perturb(parameters, noise.read, 7, 0.5, plus)
    perturb(parameters, noise.read, 7, -0.5, minus)
    assert np.allclose(plus + minus, 2.0)
    perturb(parameters, noise.read, 7, 0.5, part, within=(10, 20))
    assert np.array_equal(part[10:20], plus[10:20])
    assert (np.delete(part, range(10, 20)) == 1.0).all()


def test_subsets_cover_every_parameter():
    ranges = {subset_range(key, 103, 0.25) for key in range(0, 16 * 200, 16)}
    assert sorted(ranges) == [(0, 26), (26, 52), (52, 78), (78, 103)]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_merged_moments_are_those_of_the_concatenation(lengths):
    rng = seeding.generator(0, "test", *lengths)
    parts = [rng.standard_normal((length, 3)) * 5 + 2 for length in lengths]
    start = moments_of(parts[0])
    merged = fold(start, [moments_of(part) for part in parts[1:]])
    whole = np.concatenate(parts)
    assert merged.count == len(whole)
    assert np.allclose(merged.mean, whole.mean(0), rtol=0, atol=1e-12)
    assert np.allclose(merged.squares / merged.count, whole.var(0), rtol=0, atol=1e-12)


def test_initial_moments_are_mean_0_and_variance_1():
    moments = initial_moments(2)
    assert (moments.squares / moments.count).tolist() == [1.0, 1.0]
    assert merge(moments, moments).count == 0.02


def test_adam_is_the_loop_of_its_paper():
    rng = seeding.generator(0, "test")
    theta = rng.standard_normal(5).astype(np.float32)
    expected, m, v = theta.astype(np.float64), np.zeros(5), np.zeros(5)
    first = second = np.zeros(5, np.float32)
    for t in range(1, 6):
        g = rng.standard_normal(5).astype(np.float32)
        step = adam_step(theta, g, first, second, t, learning_rate=0.1, weight_decay=0.01)
        theta, first, second = step
        d = 0.01 * expected - g
        m, v = 0.9 * m + 0.1 * d, 0.999 * v + 0.001 * d * d
        a = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        expected = expected - a * m / (np.sqrt(v) + 1e-8)
    assert np.abs(theta - expected).max() < 1e-5


def test_momentum_is_the_references_sgd():
    ones = np.ones(2, np.float32)
    step = momentum_step(ones, ones, 0 * ones, learning_rate=0.5, weight_decay=0.0)
    assert np.allclose(step.velocity, -0.1)
    assert np.allclose(step.parameters, 1.05)


def test_ars_weights_are_algorithm_2():
    plus, minus = np.array([1.0, 5.0, 2.0]), np.array([0.0, 1.0, 3.0])
    weights = top_direction_weights(plus, minus, 2)
    spread = np.std([5.0, 2.0, 1.0, 3.0])
    assert np.allclose(weights, [0.0, 4.0 / (2 * spread), -1.0 / (2 * spread)])
    assert not top_direction_weights(np.ones(3), np.ones(3), 3).any()
    with pytest.raises(ValueError, match="top_directions"):
        top_direction_weights(plus, minus, 4)
