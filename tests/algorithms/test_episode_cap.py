"""Rules for the next generation's episode cap."""

import pytest

from drumline.algorithms.episode_cap import AdaptiveCap, MeanMultipleCap, NoCap, parse_episode_cap


def test_no_cap_stays_no_cap():
    assert NoCap().initial == NoCap().following(0, [1_000]) == 0


def test_twice_the_mean_follows_the_lengths_both_ways():
    rule = MeanMultipleCap(2.0)
    assert rule.following(0, [10, 20, 30]) == 42
    assert rule.following(42, [1, 1]) == 4


@pytest.mark.parametrize("factor", [1.0, 1.5, 2.0])
def test_episodes_that_are_all_cut_can_grow(factor: float):
    assert MeanMultipleCap(factor).following(1, [1, 1]) > 1


def test_the_adaptive_cap_grows_when_enough_episodes_hit_it():
    rule = AdaptiveCap(100, 0.5, 1.5)
    assert rule.initial == 100
    assert rule.following(100, [100, 100, 3, 4]) == 150
    assert rule.following(100, [100, 2, 3, 4]) == 100


def test_the_adaptive_cap_grows_even_from_one_step():
    assert AdaptiveCap(1, 0.5, 1.5).following(1, [1, 1]) == 2


def test_caps_are_parsed():
    assert parse_episode_cap("none") == NoCap()
    assert parse_episode_cap("mean:2") == MeanMultipleCap(2.0)
    assert parse_episode_cap("adaptive:100,0.5,1.5") == AdaptiveCap(100, 0.5, 1.5)


@pytest.mark.parametrize(
    "text",
    [
        *("", "mean", "mean:0.5", "mean:nan", "mean:inf", "mean:1e7", "none:1", "twice"),
        *("adaptive:9", "adaptive:9,2,2", "adaptive:10,0.5,inf", "adaptive:10,0.5,nan"),
        *("adaptive:3000000000,0.5,2", "adaptive:10,0.5,1e7"),
    ],
)
def test_what_is_no_cap_is_answered_with_what_is(text: str):
    with pytest.raises(ValueError, match="none of none, mean:F"):
        parse_episode_cap(text)
