"""CEM by ask and tell."""

import numpy as np
import pytest
from algorithms.individuals_examples import same_state, told

from drumline.algorithms.cem import CEM
from drumline.algorithms.individuals import live


def small(**options) -> CEM:
    """Four members, two elites."""
    given = {"seed": 0, "population_size": 4, "elites": 2, "damp_decay": 0.5, **options}
    return CEM(np.array([1.0], np.float32), **given)


@pytest.mark.parametrize("divided", [True, False])
def test_a_generation_by_hand(divided: bool):
    """Weights ln 3 / ln 4.5 and ln 1.5 / ln 4.5 on z = 4 and z = -1, after which ε halves."""
    strategy = small(damp=0.2, damp_limit=0.02, divide_by_elites=divided)
    for index, (value, fitness) in enumerate([(4.0, 9.0), (8.0, 1.0), (-1.0, 5.0), (7.0, 0.0)]):
        assert strategy.parameters.tolist() == [1.0]
        strategy.tell([told(value, fitness=fitness, index=index)])
    first, second = np.log([3.0, 1.5]) / np.log(4.5)
    assert strategy.parameters == pytest.approx([4 * first - second])
    spread = (first * 3**2 + second * 2**2) / (2 if divided else 1)
    # ε decays before it is added: 0.5 * 0.2 + 0.5 * 0.02 = 0.11
    assert strategy.published()["variance"] == pytest.approx([spread + 0.11])


def test_the_order_of_tells_within_a_generation_changes_no_bit():
    forwards, backwards = small(), small()
    fitness = [3.0, 1.0, 3.0, 2.0]
    for strategy, order in ((forwards, [0, 1, 2, 3]), (backwards, [3, 2, 1, 0])):
        out = strategy.ask(4)
        for place in order:
            strategy.tell([live(out[place], fitness[place])])
    assert forwards.parameters.tobytes() == backwards.parameters.tobytes()
    assert forwards.published()["variance"].tobytes() == backwards.published()["variance"].tobytes()


def test_the_second_half_of_a_generation_mirrors_the_first():
    strategy = CEM(np.array([1.0, -2.0]), seed=0, population_size=6, elites=3)
    vectors = np.array([candidate.vector for candidate in strategy.ask(12)])
    deviations = (vectors - np.array([1.0, -2.0])).reshape(2, 2, 3, 2)
    assert deviations[:, 0] == pytest.approx(-deviations[:, 1], abs=1e-6)
    assert len(np.unique(np.abs(deviations[:, 0].round(6)), axis=None)) == 12


def test_without_mirroring_every_member_has_noise_of_its_own():
    strategy = small(population_size=5, antithetic=False)
    vectors = np.array([candidate.vector for candidate in strategy.ask(10)]) - 1.0
    assert len(np.unique(np.abs(vectors).round(6))) == 10


def test_a_whole_generation_says_how_far_it_moved_the_mean_and_what_the_variance_is_now():
    strategy = CEM(np.array([1.0, -2.0], np.float32), seed=0, population_size=6, elites=3)
    before = strategy.parameters.copy()
    told_all = strategy.tell([live(out, float(out.index)) for out in strategy.ask(6)])
    assert told_all["fitness"] == 2.5
    assert told_all["update_norm"] == pytest.approx(np.linalg.norm(strategy.parameters - before))
    variance = strategy.published()["variance"]
    assert told_all["variance_mean"] == pytest.approx(variance.mean())
    assert told_all["variance_max"] == pytest.approx(variance.max())


def test_telling_a_whole_generation_is_telling_its_members():
    together, apart = small(), small()
    out = together.ask(4)
    apart.ask(4)
    individuals = [live(candidate, float(candidate.index)) for candidate in out]
    together.tell(individuals)
    for individual in individuals:
        apart.tell([individual])
    assert same_state(together, apart)


def test_a_generation_in_flight_is_asked_again_alike_when_asked_is_set_back_to_tells():
    """Steps of a generational recipe, whose checkpoints hold no candidates."""
    running, loaded = small(), small()
    running.tell([live(candidate, 1.0) for candidate in running.ask(4)])
    out = running.ask(4)
    state = running.state()
    state.counters["asked"] = state.counters["tells"]
    loaded.load(state)
    again = loaded.ask(4)
    assert [c.vector.tobytes() for c in again] == [c.vector.tobytes() for c in out]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"elites": 5}, "elites must be 1 to population_size 4, got 5"),
        ({"population_size": 5}, "even population_size, got 5"),
        ({"damp_limit": 0.0}, "damp and damp_limit must be above 0"),
        ({"initial_variance": -1.0}, "initial_variance must be above 0"),
    ],
)
def test_a_number_that_cannot_be_is_refused(options: dict[str, float], message: str):
    with pytest.raises(ValueError, match=message):
        small(**options)
