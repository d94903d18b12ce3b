"""OpenAI-ES and ARS as strategies: ask, tell, state."""

import numpy as np
import pytest

from drumline.algorithms.ars import ARS
from drumline.algorithms.episode_cap import parse_episode_cap
from drumline.algorithms.mirrored import MirroredSampler, answer
from drumline.algorithms.openai_es import OpenAIES
from drumline.algorithms.optimizers import SGD
from drumline.algorithms.search_state import constant_std
from drumline.functional.perturbation import counter_noise
from drumline.functional.ranking import unshaped
from drumline.types import State


def make(kind: str):
    start = np.zeros(4, np.float32)
    return OpenAIES.simple(start, std=0.1) if kind == "es" else ARS.simple(start)


def generation(strategy, count: int = 10):
    tasks = strategy.ask(count)
    return [answer(t, -np.square(strategy.candidate(t) - 1.0).sum()) for t in tasks]


@pytest.mark.parametrize("kind", ["es", "ars"])
def test_the_order_of_results_changes_no_bit(kind):
    left, right = make(kind), make(kind)
    for _ in range(3):
        left.tell(generation(left))
        right.tell(generation(right)[::-1])
    assert left.parameters.tobytes() == right.parameters.tobytes()


@pytest.mark.parametrize("kind", ["es", "ars"])
def test_a_loaded_state_goes_on_with_the_same_bits(kind):
    left, right = make(kind), make(kind)
    left.tell(generation(left))
    right.load(left.state())
    for strategy in (left, right):
        strategy.tell(generation(strategy))
    assert left.parameters.tobytes() == right.parameters.tobytes()
    assert left.state().counters == right.state().counters


@pytest.mark.parametrize("kind", ["es", "ars"])
def test_a_state_that_lacks_anything_is_refused_by_name(kind):
    state = make(kind).state()
    for name in state.tensors:
        rest = {k: v for k, v in state.tensors.items() if k != name}
        with pytest.raises(ValueError, match=name):
            make(kind).load(State(rest, state.counters))
    for name in state.counters:
        rest = {k: v for k, v in state.counters.items() if k != name}
        with pytest.raises(ValueError, match=name):
            make(kind).load(State(state.tensors, rest))


@pytest.mark.parametrize("kind", ["es", "ars"])
def test_constant_fitness_takes_no_step(kind):
    strategy = make(kind)
    strategy.tell(generation(strategy))
    before = strategy.state()
    metrics = strategy.tell([answer(task, 1.5) for task in strategy.ask(10)])
    after = strategy.state()
    assert metrics["update_skipped"] == 1.0
    assert all(np.array_equal(before.tensors[n], after.tensors[n]) for n in before.tensors)
    changed = {n for n in before.counters if before.counters[n] != after.counters[n]}
    assert changed == {"generation"}


@pytest.mark.parametrize("kind", ["es", "ars"])
def test_an_incomplete_generation_is_refused(kind):
    strategy = make(kind)
    results = generation(strategy)
    with pytest.raises(ValueError, match="missing or told twice"):
        strategy.tell(results[1:])
    with pytest.raises(ValueError, match="missing or told twice"):
        strategy.tell([*results, results[0]])
    with pytest.raises(ValueError, match="nan"):
        strategy.tell([results[0]._replace(fitness=float("nan")), *results[1:]])
    strategy.tell(results)
    with pytest.raises(ValueError, match="generation 0 in generation 1"):
        strategy.tell(results)


def test_an_odd_population_is_refused():
    with pytest.raises(ValueError, match="even population_size, got 5"):
        make("es").ask(5)


def test_blocks_asked_one_by_one_are_the_generation_asked_at_once():
    whole, blocks = make("es"), make("es")
    assert whole.ask(12) == [task for _ in range(3) for task in blocks.ask(4)]


@pytest.mark.parametrize("variant", [{}, {"perturb_fraction": 0.5}, {"use_fraction": 0.5}])
def test_the_estimate_points_along_the_gradient(variant):
    start = np.zeros(6, np.float32)
    target = np.array([1.0, -2.0, 3.0, 0.5, -1.0, 2.0])
    sgd = SGD(6, learning_rate=1.0, momentum=0.0)
    sampler = MirroredSampler(0, counter_noise(0))
    strategy = OpenAIES(start, sampler, sgd, constant_std(0.01), shaping=unshaped, **variant)
    tasks = strategy.ask(4000)
    strategy.tell([answer(t, -np.square(strategy.candidate(t) - target).sum()) for t in tasks])
    step, gradient = strategy.parameters, 2 * target
    cosine = step @ gradient / np.linalg.norm(step) / np.linalg.norm(gradient)
    assert cosine > 0.98


def test_ars_takes_the_step_of_algorithm_2():
    strategy = ARS.simple(np.zeros(3), std=0.1, learning_rate=0.5, top_directions=2)
    tasks = strategy.ask(6)
    deltas = [strategy.candidate(t) / 0.1 for t in tasks[::2]]
    returns = [1.0, 0.0, 5.0, 1.0, 2.0, 3.0]
    strategy.tell([answer(t, r) for t, r in zip(tasks, returns, strict=True)])
    spread = np.std([5.0, 1.0, 2.0, 3.0])
    expected = 0.5 / (2 * spread) * (4.0 * deltas[1] - 1.0 * deltas[2])
    assert np.allclose(strategy.parameters, expected, atol=1e-5)


def test_episode_caps_follow_their_rules():
    assert parse_episode_cap("none").following(5, [9]) == 0
    assert parse_episode_cap("mean:2").following(0, [10, 20]) == 32
    adaptive = parse_episode_cap("adaptive:100,0.5,1.5")
    assert adaptive.initial == 100
    assert adaptive.following(100, [100, 100, 7, 7]) == 150
    assert adaptive.following(100, [100, 7, 7, 7]) == 100
    for wrong in ("mean:0.5", "adaptive:1", "often"):
        with pytest.raises(ValueError, match="--episode-cap"):
            parse_episode_cap(wrong)
