"""ES or RL: drawn by candidate, held to a share."""

from functools import partial

import pytest

from drumline.algorithms.actor_choice import ActorChoice
from drumline.functional.population_control import controlled_probability, fixed_probability


def choices(probability, count: int, seed: int = 0) -> list[bool]:
    choice = ActorChoice(probability, seed=seed)
    return [choice.refines(index) for index in range(count)]


@pytest.mark.parametrize("rule", [controlled_probability, fixed_probability])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_of_zero_is_never_and_of_one_always(rule, share: float):
    assert choices(partial(rule, desired_share=share), 2_000) == [bool(share)] * 2_000


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_control_pins_the_share(share: float):
    drawn = choices(partial(controlled_probability, desired_share=share), 2_000)
    for count in (500, 1_000, 2_000):
        assert abs(sum(drawn[:count]) / count - share) < 0.02


def test_a_fixed_probability_only_tends_to_the_share():
    drawn = choices(partial(fixed_probability, desired_share=0.5), 2_000)
    # binomial: std of the count is √(2000 / 4) = 22
    assert 22 / 10 < abs(sum(drawn) - 1_000) < 5 * 22


def test_a_choice_follows_from_seed_index_and_counts():
    half = partial(fixed_probability, desired_share=0.5)
    assert choices(half, 50) == choices(half, 50)
    assert choices(half, 50) != choices(half, 50, seed=1)
    backwards = ActorChoice(half, seed=0)
    assert [backwards.refines(i) for i in range(49, -1, -1)][::-1] == choices(half, 50)


def test_a_loaded_choice_goes_on_alike():
    rule = partial(controlled_probability, desired_share=0.3)
    running, loaded = ActorChoice(rule, seed=0), ActorChoice(rule, seed=0)
    for index in range(20):
        running.refines(index)
    loaded.load(running.state())
    assert loaded.rl_share == running.rl_share
    after = [[choice.refines(i) for i in range(20, 60)] for choice in (running, loaded)]
    assert after[0] == after[1]
    assert running.state() == loaded.state()
