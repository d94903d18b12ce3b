"""Behaviour shared by OpenAI-ES and ARS, by ask and tell: orders of results, refusals, state."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from drumline.algorithms.ars import ARS
from drumline.algorithms.mirrored import MirroredSampler, answer
from drumline.algorithms.observation_moments import ObservationMoments
from drumline.algorithms.openai_es import OpenAIES
from drumline.algorithms.optimizers import Adam
from drumline.algorithms.search_state import constant_std, decaying_std
from drumline.functional.moments import moments_of
from drumline.functional.perturbation import counter_noise
from drumline.tasks import Evaluate, Evaluation
from drumline.types import State

SIZE = 7
Searcher = OpenAIES | ARS


@pytest.fixture(params=["es", "ars"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each strategy that is built on the shared state."""
    return request.param


def make(kind: str, *, normalize: bool = True) -> Searcher:
    """θ = 0.5 everywhere, moments, and noise from seed 3."""
    start = np.full(SIZE, 0.5, np.float32)
    sampler = MirroredSampler(3, counter_noise(3), obs_stat_probability=0.5)
    std = decaying_std(0.1, 0.9, 0.05)
    moments = ObservationMoments(2) if normalize else None
    if kind == "ars":
        return ARS(start, sampler, std, learning_rate=0.05, moments=moments)
    return OpenAIES(
        start, sampler, Adam(SIZE, learning_rate=0.05, weight_decay=0.01), std, moments=moments
    )


def sphere(strategy: Searcher, tasks: Sequence[Evaluate]) -> list[Evaluation]:
    """Results for −‖θ − 1‖², with observations where the task contributes."""
    results = []
    for task in tasks:
        fitness = -float(np.square(strategy.candidate(task).astype(np.float64) - 1).sum())
        result = answer(task, fitness, length=1 + task.member)
        if task.contributes:
            rows = np.random.default_rng(task.seed).standard_normal((5, 2))
            result = result._replace(moments=moments_of(rows))
        results.append(result)
    return results


def content(state: State) -> object:
    tensors = {name: (t.dtype.str, t.tobytes()) for name, t in state.tensors.items()}
    return tensors, state.counters


def advance(strategy: Searcher, generations: int, shuffle_seed: int | None = None) -> None:
    for _ in range(generations):
        results = sphere(strategy, strategy.ask(12))
        if shuffle_seed is not None:
            np.random.default_rng(shuffle_seed).shuffle(results)
        strategy.tell(results)


@pytest.mark.parametrize("shuffle_seed", [0, 1, 2])
def test_results_in_any_order_give_the_same_bits(kind: str, shuffle_seed: int):
    in_order, shuffled = make(kind), make(kind)
    advance(in_order, 4)
    advance(shuffled, 4, shuffle_seed)
    assert content(shuffled.state()) == content(in_order.state())


def test_asking_in_pieces_gives_the_same_tasks(kind: str):
    assert make(kind).ask(12) == [*(pieces := make(kind)).ask(4), *pieces.ask(8)]


def test_equal_returns_take_no_step(kind: str):
    strategy = make(kind, normalize=False)
    advance(strategy, 2)
    before = strategy.state()
    metrics = strategy.tell([answer(task, 0.1) for task in strategy.ask(12)])
    after = strategy.state()
    assert metrics["update_skipped"] == 1.0
    assert after.counters.pop("generation") == before.counters.pop("generation") + 1
    assert content(after) == content(before)


@pytest.mark.parametrize(
    ("spoil", "member"),
    [
        (lambda results: results[:3] + results[4:], 3),
        (lambda results: results[1:], 0),
        (lambda results: [*results, results[5]], 5),
        (lambda results: [*results[:-1], results[0]], 0),
    ],
)
def test_a_missing_or_repeated_member_is_named(kind: str, spoil: Callable, member: int):
    strategy = make(kind)
    results = sphere(strategy, strategy.ask(12))
    with pytest.raises(ValueError, match=f"member {member} is missing or told twice"):
        strategy.tell(spoil(results))


def test_a_result_of_another_generation_is_refused(kind: str):
    strategy = make(kind)
    results = sphere(strategy, strategy.ask(12))
    strategy.tell(results)
    with pytest.raises(ValueError, match="generation 0 in generation 1"):
        strategy.tell(results)


@pytest.mark.parametrize("fitness", [float("nan"), float("inf")])
def test_a_return_that_is_not_finite_is_refused_and_changes_nothing(kind: str, fitness: float):
    strategy = make(kind)
    results = sphere(strategy, strategy.ask(12))
    before = content(strategy.state())
    results[4] = results[4]._replace(fitness=fitness)
    with pytest.raises(ValueError, match=f"fitness of member 4 is {fitness}"):
        strategy.tell(results)
    assert content(strategy.state()) == before


@pytest.mark.parametrize("count", [0, 1, 7, -2])
def test_an_odd_or_empty_population_is_refused(kind: str, count: int):
    with pytest.raises(ValueError, match=f"even population_size, got {count}"):
        make(kind).ask(count)


def test_a_loaded_state_goes_on_with_the_same_bits(kind: str):
    whole, first, second = make(kind), make(kind), make(kind)
    advance(whole, 6)
    advance(first, 3)
    first.ask(4)  # work in flight is no learned state
    second.load(first.state())
    advance(second, 3)
    assert content(second.state()) == content(whole.state())


def test_a_state_is_a_copy(kind: str):
    strategy = make(kind)
    state = strategy.state()
    before = {name: tensor.copy() for name, tensor in state.tensors.items()}
    advance(strategy, 2)
    for name, tensor in state.tensors.items():
        assert tensor.tobytes() == before[name].tobytes(), name


def test_a_state_that_lacks_anything_is_refused_by_name(kind: str):
    state = make(kind).state()
    for name in state.tensors:
        rest = {other: tensor for other, tensor in state.tensors.items() if other != name}
        with pytest.raises(ValueError, match=f"no tensor '{name}'"):
            make(kind).load(State(rest, state.counters))
    for name in state.counters:
        counters = {other: value for other, value in state.counters.items() if other != name}
        with pytest.raises(ValueError, match=name):
            make(kind).load(State(state.tensors, counters))


def test_a_state_of_another_shape_is_refused_with_both(kind: str):
    state = make(kind).state()
    longer = {**state.tensors, "parameters": np.zeros(SIZE + 1, np.float32)}
    with pytest.raises(ValueError, match=r"'parameters' is float32\[8\], expected float32\[7\]"):
        make(kind).load(State(longer, state.counters))


def test_candidates_of_a_pair_are_mirrored(kind: str):
    strategy = make(kind)
    plus, minus = (strategy.candidate(task).astype(np.float64) for task in strategy.ask(2))
    assert (plus + minus) / 2 == pytest.approx(np.full(SIZE, 0.5), abs=1e-6)
    assert np.abs(plus - minus).min() > 0


def test_observations_fold_by_member_and_are_published(kind: str):
    strategy = make(kind)
    tasks = strategy.ask(12)
    contributing = sum(task.contributes for task in tasks)
    assert 0 < contributing < 12
    metrics = strategy.tell(sphere(strategy, tasks)[::-1])
    assert metrics["observation_count"] == pytest.approx(0.01 + 5 * contributing)
    published = strategy.published()
    assert set(published) == {"parameters", "observation_mean", "observation_inverse_std"}
    assert published["parameters"] is not strategy.parameters


def test_std_decays_to_its_floor_and_must_be_positive():
    schedule = decaying_std(0.1, 0.5, 0.03)
    assert [schedule(g) for g in range(4)] == [0.1, 0.05, 0.03, 0.03]
    with pytest.raises(ValueError, match="above 0"):
        constant_std(0.0)
