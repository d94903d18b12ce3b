"""OpenAI-ES by ask and tell, without any runtime."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from drumline.algorithms.mirrored import IndependentSampler, MirroredSampler, answer
from drumline.algorithms.openai_es import OpenAIES
from drumline.algorithms.optimizers import SGD, Adam
from drumline.algorithms.search_state import constant_std
from drumline.functional.annealing import decaying
from drumline.functional.perturbation import counter_noise, subset_range
from drumline.functional.ranking import centered_ranks, unshaped

SIZE = 7


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("subset", [{}, {"perturb_fraction": 0.5}, {"use_fraction": 0.5}])
def test_the_step_follows_the_gradient_of_a_quadratic(subset: dict[str, float]):
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
    strategy = OpenAIES(start, sampler, sgd, constant_std(0.01), shaping=unshaped, **subset)
    strategy.tell([answer(t, objective(strategy.candidate(t))) for t in strategy.ask(4_000)])
    step = strategy.parameters.astype(np.float64)
    differences = [
        (objective(start + h) - objective(start - h)) / 2e-3 for h in np.eye(size) * 1e-3
    ]
    cosine = step @ differences / np.linalg.norm(step) / np.linalg.norm(differences)
    assert cosine > (0.98 if subset else 0.99)
    assert np.linalg.norm(step) == pytest.approx(0.01 * np.linalg.norm(differences), rel=0.1)


@pytest.mark.parametrize("penalty", [-1e30, -1e80])
def test_fitness_whose_gradient_float32_cannot_hold_changes_no_state(penalty: float):
    adam = Adam(3, learning_rate=0.1, weight_decay=0.0)
    sampler = MirroredSampler(0, counter_noise(0))
    start = np.zeros(3, np.float32)
    strategy = OpenAIES(start, sampler, adam, constant_std(0.1), shaping=unshaped)
    first, *others = strategy.ask(4)
    before = strategy.state()
    with pytest.raises(FloatingPointError, match=r"is -1e\+[38]0 to 1, whose .*centered-rank"):
        strategy.tell([answer(first, penalty), *(answer(task, 1.0) for task in others)])
    after = strategy.state()
    assert after.counters == before.counters
    for name, array in before.tensors.items():
        assert np.array_equal(after.tensors[name], array)


def test_returns_that_are_ties_to_the_shaping_take_no_step():
    sgd = SGD(SIZE, learning_rate=1.0, momentum=0.9)
    sampler = MirroredSampler(3, counter_noise(3))
    shaping = partial(centered_ranks, tie_tolerance=0.001)
    start = np.zeros(SIZE, np.float32)
    strategy = OpenAIES(start, sampler, sgd, constant_std(0.1), shaping=shaping)

    def told(returns: list[float]) -> float:
        tasks = strategy.ask(4)
        results = [answer(task, value) for task, value in zip(tasks, returns, strict=True)]
        return strategy.tell(results)["update_skipped"]

    assert told([9359.0, 9359.5, 80.0, 9359.2]) == 0.0
    before = strategy.parameters.tobytes()
    assert told([9359.0, 9359.5, 9352.0, 9359.2]) == 1.0
    assert strategy.parameters.tobytes() == before, "no momentum either"


@pytest.mark.usefixtures("unchecked_shapes")
def test_without_mirroring_every_member_adds_its_own_perturbation():
    noise, sgd = counter_noise(3), SGD(SIZE, learning_rate=1.0, momentum=0.0)
    sampler = IndependentSampler(3, noise)
    start = np.zeros(SIZE, np.float32)
    strategy = OpenAIES(start, sampler, sgd, constant_std(0.1), shaping=unshaped)
    first, rest = strategy.ask(2), strategy.ask(4)
    tasks = [*first, *rest]
    assert [task.member for task in tasks] == list(range(6))
    assert {task.sign for task in tasks} == {1}
    assert len({task.noise_key for task in tasks}) == len({task.seed for task in tasks}) == 6
    fitness = np.random.default_rng(0).standard_normal(6)
    scratch = np.empty(SIZE, np.float32)
    drawn = [noise.read(task.noise_key, 0, SIZE, scratch).copy() for task in tasks]
    strategy.tell([answer(t, f) for t, f in zip(tasks, fitness, strict=True)][::-1])
    expected = sum(f * e for f, e in zip(fitness, drawn, strict=True)) / 6
    np.testing.assert_allclose(strategy.parameters, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("size", [3, 7])
def test_an_odd_population_without_pairs_asks_and_tells_as_any_other(size: int):
    sampler = IndependentSampler(3, counter_noise(3), obs_stat_probability=0.5)
    tasks = sampler.tasks(2, 0, size, std=0.1, episode_cap=0)
    more = sampler.tasks(2, 0, size + 1, std=0.1, episode_cap=0)
    assert tasks == more[:size]
    assert tasks == [sampler.tasks(2, k, 1, std=0.1, episode_cap=0)[0] for k in range(size)]

    def told(order: slice) -> bytes:
        sgd = SGD(SIZE, learning_rate=1.0, momentum=0.0)
        strategy = OpenAIES(np.zeros(SIZE, np.float32), sampler, sgd, constant_std(0.1))
        for _ in range(3):
            results = [answer(t, float(strategy.candidate(t).sum())) for t in strategy.ask(size)]
            strategy.tell(results[order])
        assert strategy.parameters.sum() > 0.0
        return strategy.parameters.tobytes()

    assert told(slice(None)) == told(slice(None, None, -1))


def test_a_generation_without_pairs_that_is_too_small_is_refused():
    sampler, sgd = IndependentSampler(3, counter_noise(3)), SGD(SIZE, learning_rate=1.0)
    strategy = OpenAIES(np.zeros(SIZE, np.float32), sampler, sgd, constant_std(0.1))
    with pytest.raises(ValueError, match="a generation needs members, got 0"):
        strategy.ask(0)
    with pytest.raises(ValueError, match="needs 2 results or more, got 1"):
        strategy.tell([answer(task, 1.0) for task in strategy.ask(1)])


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
    sampler, sgd = MirroredSampler(3, counter_noise(3)), SGD(SIZE, learning_rate=1.0)
    both = {"perturb_fraction": 0.5, "use_fraction": 0.5}
    with pytest.raises(ValueError, match="give one"):
        OpenAIES(np.zeros(SIZE, np.float32), sampler, sgd, constant_std(0.1), **both)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("variant", ["perturb_fraction", "use_fraction"])
def test_every_parameter_is_learned_from_equally_often(variant: str):
    """One pair a generation moves one block of three: a count is binomial(300, 1/3)."""
    pairs = 300
    strategy = OpenAIES(
        np.zeros(SIZE, np.float32),
        MirroredSampler(3, counter_noise(3)),
        SGD(SIZE, learning_rate=1.0, momentum=0.0),
        constant_std(0.1),
        shaping=unshaped,
        **{variant: 1 / 3},
    )
    moved, perturbed = np.zeros(SIZE), np.zeros(SIZE)
    for _ in range(pairs):
        before = strategy.parameters.copy()
        plus, minus = strategy.ask(2)
        perturbed += strategy.candidate(plus) != before
        strategy.tell([answer(plus, 1.0), answer(minus, -1.0)])
        moved += strategy.parameters != before
    reach = 5 * np.sqrt(pairs * 2 / 9)
    assert np.abs(moved - pairs / 3).max() < reach
    expected = moved if variant == "perturb_fraction" else np.full(SIZE, pairs)
    assert perturbed.tolist() == expected.tolist()


def test_a_step_is_as_long_as_its_generations_scale():
    def steps(scale: Callable[[int], float]) -> list[float]:
        strategy = OpenAIES(
            np.zeros(SIZE, np.float32),
            MirroredSampler(3, counter_noise(3)),
            SGD(SIZE, learning_rate=1.0, momentum=0.0),
            constant_std(0.1),
            shaping=unshaped,
            step_scale=scale,
        )
        lengths: list[float] = []
        for _ in range(4):
            before = strategy.parameters.copy()
            plus, minus = strategy.ask(2)
            strategy.tell([answer(plus, 1.0), answer(minus, -1.0)])
            lengths.append(float(np.linalg.norm(strategy.parameters - before)))
        return lengths

    constant = steps(lambda generation: 1.0)
    scaled = steps(decaying(1.0, 0.5, 0.2))
    factors = [one / other for one, other in zip(scaled, constant, strict=True)]
    assert factors == pytest.approx([1.0, 0.5, 0.25, 0.2], rel=1e-5)
