"""OpenAI-ES by ask and tell, without any runtime."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from drumline.algorithms.mirrored import MirroredSampler, answer
from drumline.algorithms.observation_moments import ObservationMoments
from drumline.algorithms.openai_es import OpenAIES
from drumline.algorithms.optimizers import SGD, Adam
from drumline.algorithms.search_state import constant_std, decaying_std
from drumline.functional.moments import moments_of
from drumline.functional.perturbation import counter_noise, subset_range
from drumline.functional.ranking import unshaped
from drumline.types import Evaluate, Evaluation, State

SIZE = 7


def make(**options) -> OpenAIES:
    """θ = 0.5 everywhere, Adam, moments and noise from seed 3."""
    sampler = MirroredSampler(3, counter_noise(3), obs_stat_probability=0.5)
    adam = Adam(SIZE, learning_rate=0.05, weight_decay=0.01)
    options.setdefault("moments", ObservationMoments(2))
    start = np.full(SIZE, 0.5, np.float32)
    return OpenAIES(start, sampler, adam, decaying_std(0.1, 0.9, 0.05), **options)


def sphere(strategy: OpenAIES, tasks: Sequence[Evaluate]) -> list[Evaluation]:
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


def advance(strategy: OpenAIES, generations: int, shuffle_seed: int | None = None) -> None:
    for _ in range(generations):
        results = sphere(strategy, strategy.ask(12))
        if shuffle_seed is not None:
            np.random.default_rng(shuffle_seed).shuffle(results)
        strategy.tell(results)


@pytest.mark.parametrize("shuffle_seed", [0, 1, 2])
def test_results_in_any_order_give_the_same_bits(shuffle_seed: int):
    in_order, shuffled = make(), make()
    advance(in_order, 4)
    advance(shuffled, 4, shuffle_seed)
    assert content(shuffled.state()) == content(in_order.state())


def test_asking_in_pieces_gives_the_same_tasks():
    assert make().ask(12) == [*(pieces := make()).ask(4), *pieces.ask(8)]


def test_equal_returns_take_no_optimizer_step():
    strategy = make(moments=None)
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
        (lambda results: [*results, results[5]], 5),
        (lambda results: [*results[:-1], results[0]], 0),
    ],
)
def test_a_missing_or_repeated_member_is_named(spoil: Callable, member: int):
    strategy = make()
    results = sphere(strategy, strategy.ask(12))
    with pytest.raises(ValueError, match=f"member {member} is missing or told twice"):
        strategy.tell(spoil(results))


def test_a_result_of_another_generation_is_refused():
    strategy = make()
    results = sphere(strategy, strategy.ask(12))
    strategy.tell(results)
    with pytest.raises(ValueError, match="generation 0 in generation 1"):
        strategy.tell(results)


def test_a_refused_result_changes_nothing():
    strategy = make()
    results = sphere(strategy, strategy.ask(12))
    before = content(strategy.state())
    results[4] = results[4]._replace(fitness=float("nan"))
    with pytest.raises(ValueError, match="fitness of member 4 is nan"):
        strategy.tell(results)
    assert content(strategy.state()) == before


@pytest.mark.parametrize("count", [0, 1, 7, -2])
def test_an_odd_or_empty_population_is_refused(count: int):
    with pytest.raises(ValueError, match="even population_size"):
        make().ask(count)


def test_a_loaded_state_goes_on_with_the_same_bits():
    whole, first, second = make(), make(), make()
    advance(whole, 6)
    advance(first, 3)
    first.ask(4)  # work in flight is no learned state
    second.load(first.state())
    advance(second, 3)
    assert content(second.state()) == content(whole.state())


def test_a_state_is_a_copy():
    strategy = make()
    state = strategy.state()
    before = {name: tensor.copy() for name, tensor in state.tensors.items()}
    advance(strategy, 2)
    for name, tensor in state.tensors.items():
        assert tensor.tobytes() == before[name].tobytes(), name


def test_a_state_of_another_shape_or_without_a_tensor_is_refused_by_name():
    strategy = make()
    state = strategy.state()
    missing = {name: t for name, t in state.tensors.items() if name != "adam_second"}
    with pytest.raises(ValueError, match="no tensor 'adam_second'"):
        strategy.load(State(missing, state.counters))
    longer = {**state.tensors, "parameters": np.zeros(SIZE + 1, np.float32)}
    with pytest.raises(ValueError, match=r"'parameters' is float32\[8\], expected float32\[7\]"):
        strategy.load(State(longer, state.counters))


def test_candidates_of_a_pair_are_mirrored():
    strategy = make()
    plus, minus = (strategy.candidate(task).astype(np.float64) for task in strategy.ask(2))
    assert (plus + minus) / 2 == pytest.approx(np.full(SIZE, 0.5), abs=1e-6)
    assert np.abs(plus - minus).min() > 0


def test_the_step_follows_the_gradient_of_a_quadratic():
    """Unshaped returns estimate the gradient, here against central differences."""
    size = 10
    rng = np.random.default_rng(0)
    matrix, target = np.diag(rng.uniform(0.5, 2.0, size)), rng.standard_normal(size)

    def objective(theta: np.ndarray) -> float:
        difference = theta.astype(np.float64) - target
        return -float(difference @ matrix @ difference)

    start = np.zeros(size, np.float32)
    sgd = SGD(size, learning_rate=1.0, momentum=0.0)
    sampler = MirroredSampler(0, counter_noise(0))
    strategy = OpenAIES(start, sampler, sgd, constant_std(0.01), shaping=unshaped)
    strategy.tell([answer(t, objective(strategy.candidate(t))) for t in strategy.ask(4_000)])
    step = strategy.parameters.astype(np.float64)
    differences = [
        (objective(start + h) - objective(start - h)) / 2e-3 for h in np.eye(size) * 1e-3
    ]
    cosine = step @ differences / np.linalg.norm(step) / np.linalg.norm(differences)
    assert cosine > 0.99
    assert np.linalg.norm(step) == pytest.approx(0.01 * np.linalg.norm(differences), rel=0.1)


@pytest.mark.parametrize("variant", ["perturb_fraction", "use_fraction"])
def test_subsets_average_each_coordinate_over_the_pairs_that_use_it(variant: str):
    sgd = SGD(SIZE, learning_rate=1.0, momentum=0.0)
    noise = counter_noise(3)
    start = np.zeros(SIZE, np.float32)
    strategy = OpenAIES(
        start,
        MirroredSampler(3, noise),
        sgd,
        constant_std(0.1),
        shaping=unshaped,
        **{variant: 0.3},
    )
    tasks = strategy.ask(20)
    fitness = np.random.default_rng(0).standard_normal(20)
    for task in tasks[::2]:
        touched = np.flatnonzero(strategy.candidate(task)).tolist()
        block = list(range(*subset_range(task.noise_key, SIZE, 0.3)))
        assert touched == (block if variant == "perturb_fraction" else list(range(SIZE)))
    strategy.tell([answer(t, f) for t, f in zip(tasks, fitness.tolist(), strict=True)])
    total, counts = np.zeros(SIZE), np.zeros(SIZE)
    for i, task in enumerate(tasks[::2]):
        chosen = slice(*subset_range(task.noise_key, SIZE, 0.3))
        epsilon = noise.read(task.noise_key, 0, SIZE, np.empty(SIZE, np.float32))
        total[chosen] += (fitness[2 * i] - fitness[2 * i + 1]) * epsilon[chosen]
        counts[chosen] += 2
    assert strategy.parameters == pytest.approx(total / np.maximum(counts, 1), abs=1e-5)


def test_two_subset_variants_at_once_are_refused():
    with pytest.raises(ValueError, match="give one"):
        make(perturb_fraction=0.5, use_fraction=0.5)


def test_observations_fold_by_member_and_are_published():
    strategy = make()
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
