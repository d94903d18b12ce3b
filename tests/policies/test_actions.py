"""Actions from outputs and given numbers: frequencies, log-probabilities and the same bits."""

import gymnasium
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from drumline.policies.actions import ActionHead, head_for, most_likely, sample

LARGEST = np.nextafter(np.float32(1), np.float32(0))
CATEGORICAL = ActionHead("categorical", (7,))
MULTI = ActionHead("multi-discrete", (3, 5, 2))
GAUSSIAN = ActionHead("gaussian", (5,))
HEADS = [CATEGORICAL, MULTI, GAUSSIAN]


def drawn(head: ActionHead, rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Outputs `[rows, O]` and the random numbers `[rows, …]` that the head takes."""
    rng = np.random.default_rng(seed)
    outputs = rng.normal(0, 1.5, (rows, head.output_size)).astype(np.float32)
    shape = (rows, head.noise_size)
    if head.noise_kind == "normal":
        return outputs, rng.standard_normal(shape, np.float32)
    return outputs, rng.random(shape, np.float32)


def uniform(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)[:, None]


def test_choices_are_as_frequent_as_their_probabilities():
    logits, count = np.array([0.0, -1.0, 1.5, -3.0, 0.3], np.float32), 40_000
    noise = np.random.default_rng(0).random((count, 1), np.float32)
    actions, _ = sample(ActionHead("categorical", (5,)), np.tile(logits, (count, 1)), noise)
    expected = count * np.exp(logits.astype(float)) / np.exp(logits.astype(float)).sum()
    assert scipy.stats.chisquare(np.bincount(actions, minlength=5), expected).pvalue > 0.01


def test_components_are_drawn_as_frequently_as_their_product_says():
    head, count = ActionHead("multi-discrete", (3, 2)), 40_000
    outputs = np.array([0.5, -0.5, 1.0, 0.7, 0.0], np.float32)
    noise = np.random.default_rng(1).random((count, 2), np.float32)
    actions, _ = sample(head, np.tile(outputs, (count, 1)), noise)
    first, second = np.exp(outputs[:3].astype(float)), np.exp(outputs[3:].astype(float))
    expected = count * np.outer(first / first.sum(), second / second.sum())
    counts = np.bincount(actions[:, 0] * 2 + actions[:, 1], minlength=6)
    assert scipy.stats.chisquare(counts, expected.ravel()).pvalue > 0.01


def test_gaussian_actions_follow_the_mean_and_std():
    mean, log_std, count = (2.0, -1.0), (-0.7, 0.4), 20_000
    outputs = np.tile(np.array([*mean, *log_std], np.float32), (count, 1))
    noise = np.random.default_rng(2).standard_normal((count, 2), np.float32)
    actions, _ = sample(ActionHead("gaussian", (2,)), outputs, noise)
    for component in range(2):
        law = scipy.stats.norm(mean[component], np.exp(log_std[component]))
        assert scipy.stats.kstest(actions[:, component], law.cdf).pvalue > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_log_probs_of_choices_are_the_log_softmax(seed: int):
    for head in (CATEGORICAL, MULTI):
        outputs, noise = drawn(head, 50, seed)
        actions, log_probs = sample(head, outputs, noise)
        chosen = actions.reshape(50, -1)
        expected, start = np.zeros(50), 0
        for component, size in enumerate(head.sizes):
            logits = outputs[:, start : start + size].astype(float)
            probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
            for row in range(50):
                law = scipy.stats.rv_discrete(values=(range(size), probabilities[row]))
                expected[row] += law.logpmf(chosen[row, component])
            start += size
        assert log_probs == pytest.approx(expected, abs=1e-5)


def test_log_probs_of_gaussian_actions_are_the_normal_density():
    outputs, noise = drawn(GAUSSIAN, 50)
    actions, log_probs = sample(GAUSSIAN, outputs, noise)
    law = scipy.stats.norm(outputs[:, :5].astype(float), np.exp(outputs[:, 5:].astype(float)))
    assert log_probs == pytest.approx(law.logpdf(actions.astype(float)).sum(1), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("head", HEADS)
def test_a_rows_bits_are_the_same_in_every_batch_and_with_every_stride(head: ActionHead):
    outputs, noise = drawn(head, 33)
    alone = [sample(head, outputs[row : row + 1], noise[row : row + 1]) for row in range(33)]
    whole = [np.concatenate(parts) for parts in zip(*alone, strict=True)]
    wide = np.zeros((66, 3 * head.output_size), np.float32)
    strided = wide[::2, 1 : 1 + 2 * head.output_size : 2]
    strided[:] = outputs
    for size in range(1, 34):
        for start in {0, 33 - size, (33 - size) // 2}:
            rows = slice(start, start + size)
            layouts = (outputs[rows], np.asfortranarray(outputs[rows]), strided[rows])
            for given_outputs in layouts:
                for given_noise in (noise[rows], np.asfortranarray(noise[rows])):
                    got = sample(head, given_outputs, given_noise)
                    for part, expected in zip(got, whole, strict=True):
                        assert part.tobytes() == expected[rows].tobytes()


@pytest.mark.parametrize("head", HEADS)
def test_what_is_returned_has_the_shapes_and_kinds_that_the_head_says(head: ActionHead):
    outputs, noise = drawn(head, 6)
    before = outputs.tobytes(), noise.tobytes()
    for actions in (sample(head, outputs, noise)[0], most_likely(head, outputs)):
        assert actions.shape == (6, *head.action_shape)
        assert actions.dtype == np.dtype(head.action_dtype)
    log_probs = sample(head, outputs, noise)[1]
    assert log_probs.shape == (6,)
    assert log_probs.dtype == np.float32
    assert (outputs.tobytes(), noise.tobytes()) == before


def test_the_smallest_choice_whose_cumulated_probability_exceeds_the_number_is_taken():
    logits = np.tile(np.log(np.array([1, 2, 1], np.float32)), (6, 1))
    numbers = uniform(0.0, 0.2499, 0.2501, 0.7499, 0.7501, LARGEST)
    actions, _ = sample(ActionHead("categorical", (3,)), logits, numbers)
    assert actions.tolist() == [0, 0, 1, 1, 2, 2]


def test_neither_0_nor_the_largest_number_takes_a_choice_without_probability():
    never = -1e4
    logits = np.array([[never, 0.0, 1.0, never], [never, never, 0.0, never]], np.float32)
    for number in (0.0, LARGEST, 1.0):
        actions, log_probs = sample(
            ActionHead("categorical", (4,)), logits, uniform(number, number)
        )
        assert actions.tolist() == [1 if number == 0.0 else 2, 2]
        assert np.isfinite(log_probs).all()
        assert (log_probs > -2.0).all()


@given(
    st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=40),
    st.sampled_from([0.0, float(LARGEST), 1.0]) | st.floats(0, 1, width=32),
)
def test_every_number_takes_a_choice_that_exists_and_is_possible(
    logits: list[float], number: float
):
    head = ActionHead("categorical", (len(logits),))
    outputs = np.array([logits], np.float32)
    actions, log_probs = sample(head, outputs, uniform(number))
    assert 0 <= actions[0] < len(logits)
    exact = outputs[0].astype(float)
    exact = exact - exact.max() - np.log(np.exp(exact - exact.max()).sum())
    assert log_probs[0] == pytest.approx(exact[actions[0]], abs=1e-4)


def test_a_single_choice_is_certain():
    actions, log_probs = sample(
        ActionHead("categorical", (1,)), np.full((3, 1), 9.0, np.float32), uniform(0, 0.5, LARGEST)
    )
    assert actions.tolist() == [0, 0, 0]
    assert log_probs.tolist() == [0.0, 0.0, 0.0]


def test_huge_logits_overflow_nothing():
    outputs = np.array([[3e38, -3e38, 0.0]], np.float32)
    actions, log_probs = sample(ActionHead("categorical", (3,)), outputs / 2, uniform(0.7))
    assert actions.tolist() == [0]
    assert log_probs.tolist() == [0.0]


def test_the_most_likely_action_is_the_largest_logit_of_each_component_or_the_mean():
    outputs = np.array([[0.0, 2.0, 1.0, 5.0, 4.0]], np.float32)
    assert most_likely(ActionHead("categorical", (5,)), outputs).tolist() == [3]
    assert most_likely(ActionHead("multi-discrete", (3, 2)), outputs).tolist() == [[1, 0]]
    means = most_likely(ActionHead("gaussian", (2,)), outputs[:, :4])
    assert means.tolist() == [[0.0, 2.0]]
    means[:] = 7.0
    assert outputs[0, 0] == 0.0


@pytest.mark.parametrize(
    ("space", "head"),
    [
        (gymnasium.spaces.Discrete(4), ActionHead("categorical", (4,))),
        (gymnasium.spaces.Discrete(4, start=1), ActionHead("categorical", (4,))),
        (gymnasium.spaces.MultiDiscrete([3, 5]), ActionHead("multi-discrete", (3, 5))),
        (gymnasium.spaces.Box(-1, 1, (6,)), ActionHead("gaussian", (6,))),
        (gymnasium.spaces.Box(-1, 1, (6,), np.float64), ActionHead("gaussian", (6,))),
    ],
)
def test_each_space_has_its_head(space: gymnasium.Space, head: ActionHead):
    assert head_for(space) == head


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.MultiDiscrete([[3, 5], [2, 2]]),
        gymnasium.spaces.Box(-1, 1, (2, 3)),
        gymnasium.spaces.Box(0, 9, (3,), np.int64),
        gymnasium.spaces.MultiBinary(3),
        gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2)]),
    ],
)
def test_a_space_without_a_head_is_a_clear_error(space: gymnasium.Space):
    with pytest.raises(ValueError, match=r"(?s)no action head serves .*Discrete.*Box of floats"):
        head_for(space)
