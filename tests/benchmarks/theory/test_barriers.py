"""The recurrences against an event-by-event simulation, closed forms, and quoted figures."""

import heapq
from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from theory.barriers import (
    Timeline,
    hard_barrier,
    interval_seconds,
    sliding_barrier,
    slowdown,
    without_overlap,
)
from theory.step_times import bursts, constant, exponential, straggler
from theory.throughput import burst_barrier_slowdown, gamma_barrier_seconds

RULES = {"hard": hard_barrier, "sliding": sliding_barrier}


def event_by_event(
    seconds: np.ndarray, update_seconds: float, rule: str, handover_seconds: float
) -> np.ndarray:
    """Starts of one replication, by playing the protocol with a heap of events."""
    intervals, environments = seconds.shape
    starts = np.full(seconds.shape, np.nan)
    finished = [-1] * environments  # the last interval that each environment has filled
    entered = [-1] * environments
    version, learning, now = 1, False, 0.0
    seen_version, seen_slowest = 1, -1  # by those that wait, a hand-over later
    events: list[tuple[float, int, int]] = []
    while True:
        # The learner turns D_{version − 1} into the next version once all have filled it.
        if not learning and min(finished) >= version - 1 and version < intervals:
            heapq.heappush(events, (now + update_seconds, -1, version + 1))
            learning = True
        for i in range(environments):
            k = finished[i] + 1
            free = entered[i] == finished[i] and k < intervals and seen_version >= k
            if free and (rule == "sliding" or seen_slowest >= k - 1):
                entered[i] = k
                starts[k, i] = now
                heapq.heappush(events, (now + seconds[k, i], i, k))
        if not events:
            return starts
        now, who, what = heapq.heappop(events)
        if who >= 0:
            finished[who] = what
            heapq.heappush(events, (now + handover_seconds, -3, min(finished)))
        elif who == -1:
            version, learning = what, False
            heapq.heappush(events, (now + handover_seconds, -2, version))
        elif who == -2:
            seen_version = what
        else:
            seen_slowest = what


def exponential_intervals(alpha: int, environments: int, intervals: int, replications: int):
    shape = (intervals, environments, replications)
    return np.random.default_rng(0).gamma(alpha, 1.0, shape)


@pytest.mark.parametrize("rule", RULES)
@given(
    seed=st.integers(0, 999),
    intervals=st.integers(1, 8),
    environments=st.integers(1, 5),
    update=st.sampled_from([0.0, 0.3, 1.0, 5.0]),
    handover=st.sampled_from([0.0, 0.2, 2.0]),
)
def test_a_timeline_is_the_protocol_played_event_by_event(
    rule: str, seed: int, intervals: int, environments: int, update: float, handover: float
):
    seconds = np.random.default_rng(seed).exponential(1.0, (intervals, environments, 3))
    timeline = RULES[rule](seconds, update, handover)
    for r in range(3):
        expected = event_by_event(seconds[:, :, r], update, rule, handover)
        np.testing.assert_allclose(timeline.starts[:, :, r], expected, rtol=1e-12)
    np.testing.assert_array_equal(timeline.finishes, timeline.starts + seconds)


@given(st.integers(0, 999), st.sampled_from([0.0, 0.5, 3.0]))
def test_no_environment_starts_later_under_the_sliding_barrier(seed: int, update: float):
    seconds = np.random.default_rng(seed).exponential(1.0, (12, 4, 2))
    sliding, hard = sliding_barrier(seconds, update), hard_barrier(seconds, update)
    assert (sliding.starts <= hard.starts + 1e-9).all()


@given(st.integers(0, 999), st.sampled_from([0.0, 0.5, 3.0]))
def test_no_environment_is_more_than_one_storage_ahead_of_the_slowest(seed: int, update: float):
    sliding = sliding_barrier(np.random.default_rng(seed).exponential(1.0, (12, 4, 2)), update)
    assert (sliding.starts[2:] >= sliding.finishes[:-2].max(axis=1, keepdims=True)).all()


def long_run(rule, law, alpha: int, intervals: int = 150, replications: int = 16, update=0.0):
    steps = law(np.random.default_rng(0), (intervals * alpha, 16, replications))
    timeline: Timeline = rule(interval_seconds(steps, alpha), update * alpha * steps.mean())
    return slowdown(timeline, alpha * float(steps.mean()), skip=20).mean()


@pytest.mark.parametrize("alpha", [1, 16, 64])
def test_the_hard_barrier_is_as_slow_as_claim_1_says(alpha: int):
    exact = gamma_barrier_seconds(16, alpha) / alpha
    assert long_run(hard_barrier, exponential, alpha) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize(("alpha", "burst_steps"), [(16, 4.0), (64, 4.0), (64, 64.0)])
def test_the_hard_barrier_is_as_slow_as_bursts_make_it(alpha: int, burst_steps: float):
    law = partial(bursts, burst_steps=burst_steps)
    exact = burst_barrier_slowdown(16, alpha, burst_steps=burst_steps)
    assert long_run(hard_barrier, law, alpha, 120, 8) == pytest.approx(exact, rel=0.03)


def test_a_straggler_is_waited_for_under_both_barriers():
    for rule in RULES.values():
        law = partial(straggler, law=constant, factor=10.0)
        assert long_run(rule, law, 4, 40, 1) == pytest.approx(6.40)


@pytest.mark.parametrize(
    ("environments", "hard", "sliding", "with_learner"),
    [(16, 1.162, 1.016, 1.024), (32, 1.188, 1.015, 1.027), (128, 1.251, 1.020, 1.040)],
)
def test_sliding_takes_nine_tenths_of_the_barriers_cost_away(
    environments: int, hard: float, sliding: float, with_learner: float
):
    """Exponential steps, alpha 128; the learner takes no time, or half an ideal interval."""
    seconds = exponential_intervals(128, environments, 300, 12)

    def measured(rule, update_seconds: float) -> float:
        return float(slowdown(rule(seconds, update_seconds), 128.0, skip=20).mean())

    assert measured(hard_barrier, 0.0) == pytest.approx(hard, abs=0.008)
    assert measured(hard_barrier, 64.0) == pytest.approx(hard, abs=0.008)
    assert measured(sliding_barrier, 0.0) == pytest.approx(sliding, abs=0.004)
    assert measured(sliding_barrier, 64.0) == pytest.approx(with_learner, abs=0.005)


def test_sliding_takes_most_of_the_cost_of_short_bursts_away():
    law = partial(bursts, burst_steps=4.0)
    assert long_run(hard_barrier, law, 128, 60, 8) == pytest.approx(1.642, rel=0.03)
    assert long_run(sliding_barrier, law, 128, 60, 8) == pytest.approx(1.147, rel=0.02)


def test_a_learner_slower_than_an_interval_sets_the_pace_of_both():
    seconds = exponential_intervals(64, 4, 50, 2)
    for rule in RULES.values():
        published = rule(seconds, 640.0).published
        assert np.diff(published[2:], axis=0) == pytest.approx(np.full((47, 2), 640.0))


def test_every_round_of_a_hard_barrier_pays_its_hand_over():
    ends = hard_barrier(np.ones((9, 4, 1)), handover_seconds=0.25).finishes[:, 0, 0]
    assert np.diff(ends) == pytest.approx(np.full(8, 1.25))


def test_a_hand_over_costs_a_sliding_barrier_nothing_that_is_quicker_than_an_interval():
    """A version is wanted a whole interval after its data are complete."""
    ends = sliding_barrier(np.ones((9, 4, 1)), handover_seconds=0.9).finishes[:, 0, 0]
    assert np.diff(ends) == pytest.approx(np.ones(8))


def test_waiting_for_inference_makes_every_step_longer():
    steps = np.ones((6, 2, 1))
    assert interval_seconds(steps, 3, inference_seconds=0.5)[:, 0, 0].tolist() == [4.5, 4.5]
    with pytest.raises(ValueError, match="6 steps are not a whole number of intervals of 4"):
        interval_seconds(steps, 4)


def test_without_overlap_an_interval_is_the_slowest_environment_and_then_the_update():
    seconds = np.array([[[2.0], [5.0]], [[4.0], [1.0]], [[3.0], [3.0]]])
    timeline = without_overlap(seconds, update_seconds=10.0, handover_seconds=1.0)
    assert timeline.starts[:, :, 0].tolist() == [[0.0, 0.0], [16.0, 16.0], [31.0, 31.0]]
    assert timeline.finishes[:, :, 0].tolist() == [[2.0, 5.0], [20.0, 17.0], [34.0, 34.0]]
    assert timeline.published[:, 0].tolist() == [0.0, 15.0, 30.0]


def test_without_an_update_there_is_nothing_to_overlap():
    seconds = exponential_intervals(4, 8, 20, 5)
    alone, hard = without_overlap(seconds), hard_barrier(seconds)
    np.testing.assert_allclose(alone.starts, hard.starts, rtol=1e-12)


def test_overlap_hides_the_shorter_of_simulation_and_update():
    seconds = np.ones((50, 4, 1))
    for update in (0.5, 1.0, 3.0):
        apart = slowdown(without_overlap(seconds, update), 1.0, skip=10)
        together = slowdown(hard_barrier(seconds, update), 1.0, skip=10)
        np.testing.assert_allclose(apart, 1.0 + update)
        np.testing.assert_allclose(together, max(1.0, update))
