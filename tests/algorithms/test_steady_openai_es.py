"""OpenAI-ES in the steady-state loop."""

from functools import partial

import numpy as np
import pytest
from algorithms.individuals_examples import told

from drumline.algorithms.individuals import live
from drumline.algorithms.optimizers import SGD, Adam
from drumline.algorithms.steady_openai_es import SteadyOpenAIES
from drumline.functional.ranking import centered_ranks


def plain(size: int = 1, **options) -> SteadyOpenAIES:
    """Gradient ascent with a rate of 1 and no momentum."""
    sgd = SGD(size, learning_rate=1.0, momentum=0.0)
    given = {"seed": 0, "population_size": 4, "std": 0.5, **options}
    return SteadyOpenAIES(np.zeros(size), sgd, **given)


def test_a_step_by_hand():
    strategy = plain()
    # ranks of 1, 5, 2, 9: (-3, 1, -1, 3) / 6; Σ u z = (-3 * 1 + 1 * 2 + 1 * 1 + 3 * 4) / 6 = 2;
    # / (N σ) = 2 / (4 * 0.5)
    for index, (z, fitness) in enumerate([(1.0, 1.0), (2.0, 5.0), (-1.0, 2.0), (4.0, 9.0)]):
        strategy.tell([told(z, fitness=fitness, index=index)])
    assert strategy.parameters == pytest.approx([1.0])


def test_a_common_shift_of_all_individuals_changes_nothing():
    """So it does not matter from which θ they were asked."""
    steps = []
    for shift in (0.0, 10.0):
        strategy = plain()
        for index, z in enumerate([1.0, 2.0, -1.0, 4.0]):
            strategy.tell([told(z + shift, fitness=z * z, index=index)])
        steps.append(strategy.parameters[0])
    assert steps[0] == pytest.approx(steps[1], rel=1e-5)


def test_neighbouring_candidates_are_mirrored():
    vectors = np.array([candidate.vector for candidate in plain(5).ask(6)])
    assert vectors[0::2] == pytest.approx(-vectors[1::2])
    assert len(np.unique(np.abs(vectors).round(6))) == 15


def test_equal_returns_take_no_step():
    strategy = plain(3)
    for candidate in strategy.ask(8):
        strategy.tell([live(candidate, 4.0)])
    assert strategy.parameters.tolist() == [0.0, 0.0, 0.0]


def test_ties_take_no_step_either():
    """A step without a gradient would go on with Adam's momentum."""
    shaping = partial(centered_ranks, tie_tolerance=0.5)
    strategy = SteadyOpenAIES(
        np.ones(2),
        Adam(2, learning_rate=0.1, weight_decay=0.0),
        seed=0,
        population_size=2,
        shaping=shaping,
    )
    for fitnesses in ((1.0, 9.0), (9.0, 9.1)):
        before = strategy.parameters.copy()
        for candidate, fitness in zip(strategy.ask(2), fitnesses, strict=True):
            strategy.tell([live(candidate, fitness)])
        assert bool(np.any(strategy.parameters != before)) == (fitnesses[0] == 1.0)


@pytest.mark.parametrize("options", [{"std": 0.0}, {"population_size": 1}])
def test_a_number_that_cannot_be_is_refused(options: dict[str, float]):
    with pytest.raises(ValueError, match="must be"):
        plain(**options)
