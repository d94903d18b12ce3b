"""AsyncES by ask and tell, without any runtime."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from algorithms.individuals_examples import same_state, search, sphere, told
from hypothesis import given
from hypothesis import strategies as st

from drumline.algorithms.async_es import AsyncES
from drumline.algorithms.distribution_rules import (
    OneFifthVariance,
    PartialMove,
    RankMove,
    RankVariance,
    SpreadMove,
    WelfordVariance,
)
from drumline.algorithms.individuals import live
from drumline.functional.mean_updates import fixed_linear, full_move, relative_baseline
from drumline.functional.trust_region import diagonal_kl
from drumline.functional.variance_updates import release_sample_count
from drumline.recipes.update_rules import (
    MEAN_RULES,
    RANGED_RULES,
    VARIANCE_RULES,
    RuleNumbers,
    make_update_rules,
)
from drumline.types import Candidate

NUMBERS = RuleNumbers(fitness_range=2.0, fitness_baseline=-30.0)
SPREAD = RuleNumbers(fitness_range=2.0, fitness_baseline=-30.0, range_spread=2.0)
PAIRS = [
    (mean, variance)
    for mean in MEAN_RULES
    for variance in VARIANCE_RULES
    if mean != "rank" or not variance.startswith("welford-")
]
ES_PAIRS = [
    ("relative", "one-fifth"),
    ("linear", "welford-adaptive"),
    ("linear", "welford-fixed"),
    ("linear", "one-fifth"),
    ("sigmoid", "one-fifth"),
    ("full-move", "welford-fixed"),
    ("full-move", "one-fifth"),
    ("full-move", "rank"),
    ("confirmed-move", "welford-fixed"),
    ("confirmed-move", "one-fifth"),
    ("confirmed-move", "rank"),
    ("rank", "one-fifth"),
]


def relative(**options: Any) -> AsyncES:
    """The published setting with r = 2."""
    return AsyncES(
        options.pop("mean", np.zeros(2)),
        PartialMove(partial(relative_baseline, fitness_range=2.0)),
        WelfordVariance(release_sample_count),
        **{"seed": 0, **options},
    )


def of_pair(pair: tuple[str, str], numbers: RuleNumbers = NUMBERS, **options: Any) -> AsyncES:
    """A strategy from two rule names."""
    rules = make_update_rules(*pair, numbers)
    return AsyncES(
        np.zeros(5),
        rules.mean,
        rules.variance,
        **{"seed": 3, "archive_size": rules.archive_size, "initial_variance": 0.05, **options},
    )


def test_one_tell_of_the_published_setting_by_hand():
    strategy = relative(mean=np.array([1.0, 0.0]), initial_variance=0.5)
    metrics = strategy.tell([told(4.0, 1.0, fitness=7.0, mean=6.0)])
    # d = 1, r = 2: p = (1 + 2) / (1 + 4) = 0.6; μ = (0.4 + 2.4, 0.6); n = max(1/0.6 - 1, 1) = 1:
    # v = (1 - 0.6) (z - μ)² = (0.4 * 9, 0.4 * 1); |Δμ| = 0.6 √10
    assert strategy.parameters == pytest.approx([2.8, 0.6])
    assert strategy.variance == pytest.approx([3.6, 0.4])
    assert metrics["step_size"] == pytest.approx(0.6)
    assert metrics["improvement_over_mean"] == 1.0
    assert metrics["update_norm"] == pytest.approx(0.6 * math.sqrt(10))
    assert metrics["accepted"] == 1.0
    assert (metrics["variance_min"], metrics["variance_max"]) == pytest.approx((0.4, 3.6))
    assert metrics["variance_mean"] == pytest.approx(2.0)
    assert metrics["sampling_std"] == pytest.approx(math.sqrt(2.0))
    assert metrics["condition_number"] == pytest.approx(9.0)


def test_a_small_step_moves_the_mean_and_leaves_the_variance():
    strategy = relative(initial_variance=0.5)
    # d = -1.999: p = 0.001 / 2.001 = 4.9975e-4
    strategy.tell([told(4.0, 1.0, fitness=-1.999)])
    assert strategy.parameters == pytest.approx([4 * 4.9975e-4, 4.9975e-4], rel=1e-3)
    assert strategy.variance.tolist() == [0.5, 0.5]


def test_an_individual_that_is_not_accepted_changes_nothing_but_the_count():
    strategy = relative(initial_variance=0.5)
    metrics = strategy.tell([told(4.0, 1.0, fitness=-5.0)])
    assert strategy.parameters.tolist() == [0.0, 0.0]
    assert strategy.variance.tolist() == [0.5, 0.5]
    assert (metrics["accepted"], metrics["step_size"], metrics["update_norm"]) == (0.0, 0.0, 0.0)


def test_a_whole_step_of_the_release_leaves_the_variance_at_its_floor():
    rules = PartialMove(full_move), WelfordVariance(release_sample_count)
    strategy = AsyncES(np.zeros(2), *rules, seed=0)
    strategy.tell([told(4.0, 1.0, fitness=1.0)])
    assert strategy.parameters.tolist() == [4.0, 1.0]
    assert strategy.variance == pytest.approx([1e-5, 1e-5])


def test_the_range_follows_the_spread_of_the_last_returns():
    rule = SpreadMove(relative_baseline, multiple=2.0, fallback=4.0, window=2)
    strategy = AsyncES(np.zeros(1), rule, WelfordVariance(release_sample_count), seed=0)

    def step(fitness: float) -> float:
        return strategy.tell([told(1.0, fitness=fitness)])["step_size"]

    assert step(4.0) == pytest.approx(8 / 12)  # one return has no spread: r = 4
    assert step(8.0) == pytest.approx(12 / 16)  # returns 4 and 8: std 2, r = 4
    assert step(8.0) == pytest.approx(12 / 16)  # 8 and 8: the fallback
    assert step(0.0) == pytest.approx(0.5)  # 0 and 8: r = 8
    assert step(-7.0) == pytest.approx(0.0)  # 0 and −7: r = 7, and d ≤ −r


@pytest.mark.parametrize("mean_rule", RANGED_RULES)
def test_returns_in_other_units_move_the_mean_alike_where_the_range_is_a_spread(mean_rule: str):
    rows: list[list[float]] = []
    for unit in (1.0, 1024.0):  # a power of two: all products are exact
        numbers = replace(SPREAD, fitness_range=2.0 * unit)  # r of the first tell
        strategy = of_pair((mean_rule, "one-fifth"), numbers)

        def fitness(vector: np.ndarray, unit: float = unit) -> float:
            return unit * sphere(vector)

        rows.append([row["step_size"] for row in search(strategy, fitness, 40)])
    assert rows[0] == rows[1]
    fixed = of_pair((mean_rule, "one-fifth"))
    assert rows[0] != [row["step_size"] for row in search(fixed, sphere, 40)]


@pytest.mark.parametrize("value", [0.1, 1 / 3, -7e-9, 1e200])
def test_equal_returns_have_no_spread_however_they_are_rounded(value: float):
    rule = SpreadMove(fixed_linear, multiple=2.0, fallback=4.0)
    strategy = AsyncES(np.zeros(1), rule, WelfordVariance(release_sample_count), seed=0)
    mean = value - 1.0
    for _ in range(25):
        row = strategy.tell([told(1.0, fitness=value, mean=mean)])
        assert row["step_size"] == (value - mean) / 4.0


@pytest.mark.parametrize("unit", [1e-200, 1e160])
def test_a_spread_may_have_squares_outside_float64(unit: float):
    steps = []
    for scale in (1.0, unit):
        rule = SpreadMove(fixed_linear, multiple=2.0, fallback=scale)
        strategy = AsyncES(np.zeros(1), rule, WelfordVariance(release_sample_count), seed=0)
        arrivals = [told(1.0, fitness=scale * each, mean=0.5 * scale) for each in (1.0, 2.0, 0.75)]
        steps.append([strategy.tell([arrival])["step_size"] for arrival in arrivals])
    assert steps[1] == pytest.approx(steps[0])


@pytest.mark.parametrize("mean_rule", RANGED_RULES)
@pytest.mark.parametrize("at", [3, 25])
def test_a_loaded_spread_goes_on_with_the_same_bits(mean_rule: str, at: int):
    running, loaded = (of_pair((mean_rule, "one-fifth"), SPREAD) for _ in range(2))
    search(running, sphere, at)
    loaded.load(running.state())
    rows = [search(s, sphere, 30, in_flight=3) for s in (running, loaded)]
    assert rows[0] == rows[1]
    assert same_state(running, loaded)


def test_refined_individuals_can_be_kept_from_the_variance():
    strategy = relative(variance_from_refined=False, initial_variance=0.5)
    individual = told(4.0, 1.0, fitness=7.0, mean=6.0)
    strategy.tell([individual._replace(refined=True)])
    assert strategy.parameters == pytest.approx([2.4, 0.6])  # p = 0.6
    assert strategy.variance.tolist() == [0.5, 0.5]
    strategy.tell([individual])
    assert strategy.variance.tolist() != [0.5, 0.5]


def test_an_old_ask_moves_the_mean_by_less():
    strategy, fresh = relative(staleness_discount=0.5), relative()
    unmoved = told(0.0, 0.0, fitness=-9.0)
    strategy.tell([unmoved, unmoved])  # d ≤ −r: neither moves anything
    late = strategy.tell([told(4.0, 1.0, fitness=1.0)])
    row = fresh.tell([told(4.0, 1.0, fitness=1.0)])
    assert late["staleness_tells"] == 2.0
    assert late["step_size"] == pytest.approx(row["step_size"] / 4)
    assert strategy.parameters == pytest.approx(fresh.parameters / 4)


def test_a_recentred_individual_keeps_what_was_learned_since_its_ask():
    strategy = relative(recentred=True)
    old, new = (*strategy.ask(1), *strategy.ask(1))
    strategy.tell([live(new, 2.0, 0.0)._replace(vector=np.array([4.0, 0.0], np.float32))])
    before = strategy.parameters.copy()
    assert before[0] > 1.0
    # Asked of [0, 0] and told at `before`: its own displacement, [0, 1], starts there.
    refined = live(old, 0.0, 0.0)._replace(vector=np.array([0.0, 1.0], np.float32))
    row = strategy.tell([refined])
    assert row["staleness_tells"] == 1.0
    assert strategy.parameters == pytest.approx(before + row["step_size"] * np.array([0.0, 1.0]))
    plain = relative()
    old, new = (*plain.ask(1), *plain.ask(1))
    plain.tell([live(new, 2.0, 0.0)._replace(vector=np.array([4.0, 0.0], np.float32))])
    plain.tell([refined])
    assert plain.parameters[0] < before[0]


def test_of_recentred_individuals_nothing_is_kept_once_they_are_told():
    strategy = relative(recentred=True)
    candidates = strategy.ask(3)
    assert strategy.state().tensor("asked_living").tolist() == [3]
    assert strategy.state().tensor("asked_means").shape == (1, 2)
    for candidate in candidates:
        strategy.tell([live(candidate, 1.0, 0.0)])
    assert strategy.state().tensor("asked_means").shape == (0, 2)
    with pytest.raises(ValueError, match="no candidate of that ask is left to be told"):
        strategy.tell([live(candidates[0], 1.0, 0.0)])


@pytest.mark.parametrize("at", [3, 25])
def test_loaded_recentred_individuals_go_on_with_the_same_bits(at: int):
    running, loaded = (relative(recentred=True) for _ in range(2))
    waiting = running.ask(2)
    search(running, sphere, at, in_flight=3)
    loaded.load(running.state())
    for strategy in (running, loaded):
        strategy.tell([live(candidate, 0.5, 0.0) for candidate in waiting])
        search(strategy, sphere, 30, in_flight=3)
    assert same_state(running, loaded)


def test_one_plus_one_waits_for_a_window_and_then_slides_it():
    strategy = AsyncES(
        np.zeros(1),
        PartialMove(full_move),
        OneFifthVariance(window=5),
        seed=0,
        initial_variance=1.0,
    )

    def tell(success: bool) -> float:
        strategy.tell([told(1.0, fitness=1.0 if success else -1.0)])
        return float(strategy.variance[0])

    assert [tell(s) for s in (True, True, False, False)] == [1.0, 1.0, 1.0, 1.0]
    assert tell(False) == pytest.approx(1 / 0.99)  # 2 of 5
    assert tell(False) == pytest.approx(1.0)  # the first success has left: 1 of 5 is no more
    assert tell(False) == pytest.approx(0.99)
    assert tell(True) == pytest.approx(0.99**2)
    assert tell(True) == pytest.approx(0.99)  # 2 of 5 again


def test_ranked_rules_by_hand():
    strategy = AsyncES(
        np.array([1.0]),
        RankMove(elites=1),
        RankVariance(elites=1, damp=0.1, damp_limit=0.02, damp_decay=0.5),
        seed=0,
        archive_size=2,
        initial_variance=1.0,
    )
    first = strategy.tell([told(5.0, fitness=1.0, index=0)])
    assert (strategy.parameters[0], strategy.variance[0], first["accepted"]) == (1.0, 1.0, 0.0)
    # Full: the elite is z = 5: μ = 1 + (5 - 1) / 2 = 3; v = (5 - 1)² + 0.06, ε after a decay
    second = strategy.tell([told(2.0, fitness=0.0, index=1)])
    assert strategy.parameters[0] == 3.0
    assert strategy.variance[0] == pytest.approx(16.06)
    assert second["step_size"] == 0.5
    # z = 7 pushes z = 5 out: μ = 3 + 4 / 2 = 5; v = (7 - 3)² + 0.04, since 0.03 + 0.01
    strategy.tell([told(7.0, fitness=4.0, index=2)])
    assert strategy.parameters[0] == 5.0
    assert strategy.variance[0] == pytest.approx(16.04)


def test_without_evaluations_the_average_of_the_returns_stands_for_the_mean():
    strategy = relative(mean_fitness_rate=0.4)
    rows = [
        strategy.tell([told(0.0, 0.0, fitness=fitness, mean=None)])
        for fitness in (10.0, 4.0, 7.0, 17.0)
    ]
    # 10 itself; 10; (10 + 4) / 2 = 7; from the third on 0.4: 7 + 0.4 * (7 - 7) = 7
    assert [row["mean_fitness"] for row in rows] == [10.0, 10.0, 7.0, 7.0]
    last = strategy.tell([told(0.0, 0.0, fitness=0.0, mean=None)])
    assert last["mean_fitness"] == pytest.approx(7.0 + 0.4 * 10.0)


def test_candidates_are_normal_with_the_mean_and_variance_of_the_distribution():
    strategy = relative(mean=np.array([3.0, -2.0]), initial_variance=0.25)
    vectors = np.array([candidate.vector for candidate in strategy.ask(4_000)])
    assert vectors.mean(axis=0) == pytest.approx([3.0, -2.0], abs=5 * 0.5 / math.sqrt(4_000))
    assert vectors.var(axis=0) == pytest.approx([0.25, 0.25], rel=5 * math.sqrt(2 / 4_000))
    assert abs(np.corrcoef(vectors.T)[0, 1]) < 5 / math.sqrt(4_000)


def test_the_noise_of_a_candidate_follows_from_its_index_alone():
    together, one_by_one, elsewhere = relative(), relative(), relative(seed=1)
    vectors = [candidate.vector for candidate in together.ask(4)]
    again = [one_by_one.ask(1)[0].vector for _ in range(4)]
    assert np.array_equal(vectors, again)
    assert len({vector.tobytes() for vector in vectors}) == 4
    assert elsewhere.ask(1)[0].vector.tobytes() != vectors[0].tobytes()


def test_staleness_counts_the_tells_since_the_ask():
    strategy = relative()
    first, second, third = strategy.ask(3)
    assert strategy.tell([live(second, 1.0, 0.0)])["staleness_tells"] == 0.0
    (fourth,) = strategy.ask(1)
    assert strategy.tell([live(third, 1.0, 0.0)])["staleness_tells"] == 1.0
    assert strategy.tell([live(first, 1.0, 0.0)])["staleness_tells"] == 2.0
    assert fourth.version == 1
    assert strategy.tell([live(fourth, 1.0, 0.0)])["staleness_tells"] == 2.0


def test_a_changed_candidate_is_learned_from_as_it_was_evaluated():
    strategy = relative()
    (candidate,) = strategy.ask(1)
    refined = candidate.vector + np.float32(9.0)
    strategy.tell([live(candidate._replace(vector=refined), 0.0, 0.0)])
    assert strategy.parameters == pytest.approx(0.5 * refined)  # p = 1/2 at equal fitness


def test_telling_several_is_telling_one_after_the_other():
    together, one_by_one = relative(), relative()
    individuals = [live(c, float(c.index), 1.0) for c in together.ask(3)]
    one_by_one.ask(3)
    metrics = together.tell(individuals)
    rows = [one_by_one.tell([individual]) for individual in individuals]
    assert same_state(together, one_by_one)
    assert metrics["step_size"] == pytest.approx(np.mean([row["step_size"] for row in rows]))


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("at", [3, 25])
def test_a_loaded_strategy_goes_on_with_the_same_bits(pair: tuple[str, str], at: int):
    running, loaded = of_pair(pair), of_pair(pair)
    search(running, sphere, at, measure_mean=False)
    loaded.load(running.state())
    assert same_state(running, loaded)
    rows = [search(s, sphere, 20, in_flight=3, measure_mean=False) for s in (running, loaded)]
    assert rows[0] == rows[1]
    assert same_state(running, loaded)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("pair", ES_PAIRS, ids="-".join)
def test_sampling_alone_climbs_a_sphere(pair: tuple[str, str]):
    """Not with every pair: one-sample variances collapse unless gradient steps re-inflate them."""
    strategy = of_pair(pair)
    search(strategy, sphere, 400, in_flight=5, rng=np.random.default_rng(0))
    assert sphere(strategy.parameters) > -1.5  # from -5


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_pair_climbs_where_every_other_candidate_is_refined(pair: tuple[str, str]):
    strategy = of_pair(pair)
    for _ in range(150):
        (candidate,) = strategy.ask(1)
        if candidate.index % 2:
            refined = candidate.vector + np.float32(0.1) * (1 - candidate.vector)
            candidate = candidate._replace(vector=refined)
        strategy.tell([live(candidate, sphere(candidate.vector), sphere(strategy.parameters))])
    assert sphere(strategy.parameters) > -1.5  # from -5


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_no_variance_falls_below_its_floor(pair: tuple[str, str]):
    rows = search(of_pair(pair), sphere, 60)
    assert min(row["variance_min"] for row in rows) >= np.float32(1e-5)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_no_step_leaves_the_trust_region(pair: tuple[str, str]):
    strategy, bound, shortened = of_pair(pair, kl_bound=0.2), 0.2, 0
    for _ in range(40):
        (candidate,) = strategy.ask(1)
        mean, variance = strategy.parameters.copy(), strategy.variance.copy()
        row = strategy.tell([live(candidate, sphere(candidate.vector), sphere(mean))])
        kl = diagonal_kl(strategy.parameters, strategy.variance, mean, variance)
        assert kl <= bound * (1 + 1e-3)
        shortened += row["trust_region_share"] < 1.0
    assert shortened > 0 or pair[1] == "one-fifth"


def test_a_shortened_step_reports_how_far_it_went():
    strategy = relative(kl_bound=0.5)
    row = strategy.tell([told(3.0, 4.0, fitness=0.0)])
    assert row["trust_region_share"] < 1.0
    assert row["update_norm"] == pytest.approx(row["step_size"] * 5.0)


def test_a_wide_trust_region_changes_no_bit():
    bounded, free = relative(kl_bound=1e9), relative()
    assert search(bounded, sphere, 30) == search(free, sphere, 30)
    assert same_state(bounded, free)


@given(st.permutations(range(6)))
def test_any_order_of_tells_is_accepted(order: list[int]):
    strategy = relative()
    candidates = strategy.ask(6)
    for place in order:
        strategy.tell([live(candidates[place], sphere(candidates[place].vector), 0.0)])
    assert strategy.state().counters["tells"] == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: live(c, math.nan), "fitness of individual 0 is nan"),
        (lambda c: live(c, 1.0, math.inf), "mean's fitness beside individual 0 is inf"),
        (lambda c: live(c._replace(vector=c.vector[:1]), 1.0), r"shape \[1\], expected \[2\]"),
        (
            lambda c: live(c._replace(vector=c.vector * np.float32("nan")), 1.0),
            "individual 0 has 2 parameters that are not finite",
        ),
        (lambda c: live(c._replace(version=4), 1.0), "asked after 4 tells; there have been 0"),
    ],
)
def test_what_cannot_be_learned_from_is_refused_and_changes_nothing(
    change: Callable[[Candidate], Any], message: str
):
    strategy, untouched = relative(), relative()
    (candidate,) = strategy.ask(1)
    untouched.ask(1)
    with pytest.raises(ValueError, match=message):
        strategy.tell([change(candidate)])
    assert same_state(strategy, untouched)


@pytest.mark.parametrize("p", [1.5, -1.5, math.nan])
def test_a_users_rule_with_an_impossible_step_is_refused(p: float):
    strategy = AsyncES(
        np.zeros(2), PartialMove(lambda f, m: p), WelfordVariance(release_sample_count), seed=0
    )
    with pytest.raises(ValueError, match=r"the mean rule returned p = .*; p must lie in \[-1, 1\]"):
        strategy.tell([told(1.0, 1.0, fitness=1.0)])


@pytest.mark.parametrize(
    "options",
    [
        {"initial_variance": 0.0},
        {"initial_variance": math.inf},
        {"kl_bound": 0.0},
        {"mean_fitness_rate": 0.0},
        {"mean_fitness_rate": 1.5},
        {"archive_size": -1},
        {"staleness_discount": -0.1},
        {"staleness_discount": 1.1},
    ],
)
def test_a_number_that_cannot_be_is_refused(options: dict[str, float]):
    with pytest.raises(ValueError, match="must be"):
        relative(**options)


def test_telling_nobody_is_refused():
    with pytest.raises(ValueError, match="at least one individual"):
        relative().tell([])


def test_every_part_of_the_state_is_needed():
    strategy = of_pair(("rank", "one-fifth"))
    state = strategy.state()
    for kind in (state.tensors, state.counters):
        for name in list(kind):
            kept = kind.pop(name)
            with pytest.raises(ValueError, match=name):
                strategy.load(state)
            kind[name] = kept
    strategy.load(state)
