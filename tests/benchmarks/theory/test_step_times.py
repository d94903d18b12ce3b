from functools import partial

import numpy as np
import pytest
from theory.step_times import (
    bursts,
    constant,
    exponential,
    gamma,
    recorded,
    straggler,
)


def sample(law, shape: tuple[int, int, int] = (2_000, 5, 20)) -> np.ndarray:
    times = law(np.random.default_rng(0), shape)
    assert times.shape == shape
    return times


@pytest.mark.parametrize(
    ("law", "mean", "variance"),
    [
        (partial(constant, seconds=2.5), 2.5, 0.0),
        (partial(exponential, mean=2.0), 2.0, 4.0),
        (partial(gamma, order=4.0, mean=2.0), 2.0, 1.0),
        (partial(bursts, burst_steps=4.0), 1.9, 81 * 0.1 * 0.9),
    ],
)
def test_laws_have_their_mean_and_variance(law, mean: float, variance: float):
    times = sample(law)
    assert times.mean() == pytest.approx(mean, rel=0.02)
    assert times.var() == pytest.approx(variance, rel=0.04, abs=1e-12)


def test_bursts_last_as_long_and_come_as_often_as_said():
    is_slow = sample(partial(bursts, burst_steps=8.0, slow_share=0.2)) == 10.0
    starts = np.sum(is_slow[1:] & ~is_slow[:-1])
    assert is_slow[1:].sum() / starts == pytest.approx(8.0, rel=0.05)
    assert is_slow[0].mean() == pytest.approx(0.2, abs=0.1)
    assert is_slow.mean() == pytest.approx(0.2, rel=0.05)


def test_only_the_straggler_is_slow():
    times = sample(partial(straggler, law=exponential, factor=10.0))
    plain = sample(exponential)
    np.testing.assert_array_equal(times[:, 0], 10 * plain[:, 0])
    np.testing.assert_array_equal(times[:, 1:], plain[:, 1:])


def test_a_recorded_trace_keeps_its_order_from_any_start():
    trace = np.arange(7.0)
    times = sample(partial(recorded, trace=trace), (20, 6, 3))
    assert set(np.unique(np.diff(times, axis=0))) == {1.0, -6.0}
    assert len(np.unique(times[0])) > 3


def test_chains_that_cannot_be_are_refused():
    for share, length in ((0.0, 4.0), (1.0, 4.0), (0.9, 2.0), (0.1, 0.5)):
        with pytest.raises(ValueError, match=f"slow {share} of the time for {length} steps"):
            sample(partial(bursts, burst_steps=length, slow_share=share))
