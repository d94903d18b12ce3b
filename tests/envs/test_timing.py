"""Step-time laws: the right times, reproducible, and the same however lanes are grouped."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from drumline.envs.timing import (
    BLOCK,
    BadStepTime,
    Bursts,
    Constant,
    Gamma,
    StepTimeLaw,
    StepTimes,
    Straggler,
    Trace,
    parse_step_time,
)

LAWS = [
    Constant(0.005),
    Gamma(0.005),
    Gamma(0.005, 4.0),
    Bursts(0.001, 0.01, 0.1, 64.0),
    Straggler(0.005, 10.0, 2),
    Trace((0.001, 0.002, 0.005)),
]


def drawn(law: StepTimeLaw, count: int, environment: int = 0) -> np.ndarray:
    times = StepTimes(law, 0, environment, 1)
    return np.concatenate([times.next() for _ in range(count)])


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_grouping_and_order_of_calls_do_not_change_an_environments_times(law: StepTimeLaw):
    steps = BLOCK + 100
    together = StepTimes(law, 3, 0, 4)
    expected = np.stack([together.next() for _ in range(steps)])
    parts = [StepTimes(law, 3, 0, 1), StepTimes(law, 3, 1, 3)]
    got: list[list[float]] = [[], [], [], []]
    rng = np.random.default_rng(0)
    while any(len(times) < steps for times in got):
        chosen = np.flatnonzero([len(times) < steps for times in got[1:]])
        chosen = chosen[rng.random(len(chosen)) < 0.5]
        for lane, seconds in zip(chosen, parts[1].next(chosen), strict=True):
            got[1 + lane].append(seconds)
        if len(got[0]) < steps:
            got[0].append(float(parts[0].next()[0]))
    assert (expected == np.array(got).T).all()


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_law_travels(law: StepTimeLaw):
    copy = pickle.loads(pickle.dumps(law))
    assert (drawn(copy, 20) == drawn(law, 20)).all()


def test_gamma_times_have_the_mean_and_the_variance_that_their_shape_says():
    times = drawn(Gamma(0.005, 4.0), 40_000)
    assert times.mean() == pytest.approx(0.005, rel=0.02)
    assert times.var() == pytest.approx(0.005**2 / 4, rel=0.05)


def test_exponential_times_are_gamma_times_of_shape_one():
    times = drawn(parse_step_time("exponential:5ms"), 40_000)
    assert times.mean() == pytest.approx(0.005, rel=0.02)
    assert times.var() == pytest.approx(0.005**2, rel=0.05)


def test_bursts_last_as_long_and_take_as_large_a_share_as_they_should():
    slow = drawn(Bursts(0.001, 0.01, 0.1, 16.0), 200_000) == 0.01
    assert slow.mean() == pytest.approx(0.1, rel=0.05)
    starts = (slow[1:] & ~slow[:-1]).sum()
    assert slow.sum() / starts == pytest.approx(16.0, rel=0.05)


def test_bursts_begin_in_the_stationary_law():
    law = Bursts(0.001, 0.01, 0.3, 100.0)
    first = StepTimes(law, 0, 0, 2000).next()
    assert (first == 0.01).mean() == pytest.approx(0.3, abs=0.04)


def test_environments_have_times_of_their_own():
    times = StepTimes(Gamma(1.0), 0, 0, 8).next()
    assert len(set(times.tolist())) == 8


def test_only_the_straggler_is_slow_wherever_it_runs():
    law = Straggler(0.5, 4.0, 2)
    assert StepTimes(law, 0, 0, 4).next().tolist() == [0.5, 0.5, 2.0, 0.5]
    assert StepTimes(law, 0, 2, 1).next().tolist() == [2.0]


def test_a_trace_is_read_in_order_and_round_and_round():
    seconds = tuple(float(i) for i in range(7))
    times = drawn(Trace(seconds), 2 * BLOCK)
    assert (np.diff(times) % 7 == 1).all()


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("constant:5ms", Constant(0.005)),
        ("exponential:250us", Gamma(0.00025)),
        ("exponential:250µs", Gamma(0.00025)),
        ("Gamma: 2s, 4", Gamma(2.0, 4.0)),
        ("bursts:1ms,10ms,0.1,64", Bursts(0.001, 0.01, 0.1, 64.0)),
        ("straggler:1s,10", Straggler(1.0, 10.0)),
        ("straggler:1s,10,3", Straggler(1.0, 10.0, 3)),
    ],
)
def test_a_law_is_read_from_text(text: str, law: StepTimeLaw):
    assert parse_step_time(text) == law


def test_a_trace_is_read_from_a_file(tmp_path: Path):
    path = tmp_path / "times.txt"
    path.write_text("0.001\n0.25\n")
    assert parse_step_time(f"trace:{path}") == Trace((0.001, 0.25))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("uniform:5ms", "unknown step-time law 'uniform'.*exponential:5ms"),
        ("", "unknown step-time law ''"),
        ("exponential", "has 0 values; write exponential:5ms"),
        ("exponential:5ms,3", "has 2 values"),
        ("exponential:5", "'5' needs a unit"),
        ("exponential:fastms", "time must be a number above 0, got 'fast'"),
        ("exponential:-5ms", "above 0, got '-5'"),
        ("exponential:infs", "above 0, got 'inf'"),
        ("gamma:5ms", "has 1 values; write gamma:5ms,4"),
        ("gamma:5ms,0", "shape must be a number above 0, got '0'"),
        ("bursts:1ms,10ms,1,64", "share of slow steps must be below 1, got 1"),
        ("bursts:1ms,10ms,0.9,2", "at least 9 steps, got 2"),
        ("bursts:1ms,10ms,0.1,0.5", "at least 1 steps, got 0.5"),
        ("straggler:5ms,10,last", "environment must be 0, 1, 2 …, got 'last'"),
        ("trace:/nowhere/times.txt", "'/nowhere/times.txt' cannot be read"),
    ],
)
def test_a_law_that_cannot_be_read_is_refused_with_the_value_and_the_form(text: str, said: str):
    with pytest.raises(BadStepTime, match=said):
        parse_step_time(text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it is empty"),
        ("0.1\nsoon", "'soon'"),
        ("0.1\n-1", "-1.0 is not a time"),
        ("nan", "nan"),
    ],
)
def test_a_trace_that_holds_no_times_is_refused(tmp_path: Path, content: str, said: str):
    path = tmp_path / "times.txt"
    path.write_text(content)
    with pytest.raises(BadStepTime, match=said):
        parse_step_time(f"trace:{path}")
