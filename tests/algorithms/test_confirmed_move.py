"""Full moves that the new mean's evaluations confirm or take back."""

from typing import Any

import numpy as np
import pytest
from algorithms.individuals_examples import same_state
from hypothesis import given
from hypothesis import strategies as st

from drumline.algorithms.async_es import AsyncES
from drumline.algorithms.confirmed_move import ConfirmedMove
from drumline.algorithms.distribution_rules import OneFifthVariance
from drumline.types import Individual


def search() -> AsyncES:
    return AsyncES(np.zeros(1), ConfirmedMove(), OneFifthVariance(), seed=0)


def tell(
    strategy: AsyncES, place: float, fitness: float, mean: float, version: int | None = None
) -> dict[str, float]:
    """Tell an individual at a place beside an evaluation of the mean after `version` tells."""
    told = Individual(
        0, 0, np.array([place], np.float32), fitness, mean, False, mean_version=version
    )
    return strategy.tell([told])


def place(strategy: AsyncES) -> float:
    return float(strategy.parameters[0])


def test_a_lucky_move_is_taken_back_and_not_counted_as_accepted():
    strategy = search()
    metrics = tell(strategy, 3.0, fitness=9.0, mean=5.0)
    assert (place(strategy), metrics["accepted"], metrics["step_size"]) == (3.0, 1.0, 1.0)
    metrics = tell(strategy, 8.0, fitness=1.0, mean=2.0)  # the new mean returns 2, the old one 5
    assert place(strategy) == 0.0
    assert (metrics["accepted"], metrics["step_size"], metrics["update_norm"]) == (0.0, 0.0, 3.0)


def test_a_confirmed_move_stays():
    strategy = search()
    tell(strategy, 3.0, fitness=9.0, mean=5.0)
    tell(strategy, 8.0, fitness=1.0, mean=5.5)
    assert place(strategy) == 3.0


def test_an_individual_is_compared_with_the_average_of_all_evaluations():
    strategy = search()
    tell(strategy, 1.0, fitness=0.0, mean=6.0)
    tell(strategy, 1.0, fitness=3.0, mean=2.0)  # above the unlucky 2, below the average of 4
    assert place(strategy) == 0.0
    tell(strategy, 2.0, fitness=4.5, mean=4.0)
    assert place(strategy) == 2.0


def test_the_individual_that_takes_a_mean_s_place_is_compared_with_the_earlier_mean():
    strategy = search()
    tell(strategy, 3.0, fitness=9.0, mean=5.0)
    tell(strategy, 8.0, fitness=6.0, mean=2.0)  # 6 is above the 5 of the mean that returns
    assert place(strategy) == 8.0
    tell(strategy, 1.0, fitness=0.0, mean=4.0)  # 4 is below 5: back to it, not to 3.0
    assert place(strategy) == 0.0


def test_before_its_first_evaluation_a_mean_stands_for_the_return_that_made_it():
    strategy = search()
    tell(strategy, 3.0, fitness=9.0, mean=5.0)
    tell(strategy, 4.0, fitness=8.0, mean=5.0, version=0)  # an evaluation of the earlier mean
    assert place(strategy) == 3.0
    tell(strategy, 5.0, fitness=9.5, mean=5.0, version=0)
    assert place(strategy) == 5.0
    tell(strategy, 6.0, fitness=0.0, mean=1.0)  # 3.0 was never evaluated: back to 0.0
    assert place(strategy) == 0.0


def test_evaluations_count_for_the_mean_that_was_evaluated():
    strategy = search()
    tell(strategy, 3.0, fitness=9.0, mean=5.0)  # the mean is 3.0 after one tell
    tell(strategy, 4.0, fitness=0.0, mean=1.0, version=0)  # of 0.0, whose average is 3 now
    tell(strategy, 4.0, fitness=0.0, mean=4.0, version=1)
    assert place(strategy) == 3.0
    tell(strategy, 4.0, fitness=0.0, mean=1.0, version=2)  # 3.0 has 2.5, below 3
    assert place(strategy) == 0.0
    tell(strategy, 6.0, fitness=3.5, mean=99.0, version=2)  # of 3.0, which was left: not counted
    assert place(strategy) == 6.0


def test_an_evaluation_of_a_mean_between_two_counts_for_neither():
    strategy = search()
    tell(strategy, 3.0, fitness=6.0, mean=5.0)
    tell(strategy, 4.0, fitness=9.0, mean=5.0, version=0)  # 3.0 leaves unevaluated
    tell(strategy, 1.0, fitness=0.0, mean=0.0, version=1)  # of 3.0: 0.0 keeps its 5
    tell(strategy, 1.0, fitness=0.0, mean=4.0, version=2)
    assert place(strategy) == 0.0


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 2)), min_size=2, max_size=30
)


@pytest.mark.usefixtures("unchecked_shapes")
@given(arrivals=ARRIVALS, at=st.integers(1, 29))
def test_a_loaded_search_goes_on_with_the_same_bits(arrivals: list[Any], at: int):
    running, loaded = search(), search()
    for number, (fitness, mean, late) in enumerate(arrivals):
        if number == min(at, len(arrivals) - 1):
            loaded.load(running.state())
        for strategy in (running, loaded) if number >= at else (running,):
            tell(strategy, number + 1.0, fitness, mean, max(0, number - late))
    if at < len(arrivals):
        assert same_state(running, loaded)
