"""OpenAI-ES in a random subspace, by ask and tell."""

import numpy as np
import pytest

from drumline.algorithms.mirrored import MirroredSampler, answer
from drumline.algorithms.openai_es import OpenAIES
from drumline.algorithms.optimizers import Adam
from drumline.algorithms.search_state import constant_std
from drumline.algorithms.subspace import SubspaceES
from drumline.functional.perturbation import counter_noise
from drumline.functional.subspace import SubspaceSpec

PARAMETERS, DIMENSIONS = 30, 4
NOISE = counter_noise(2)
SUBSPACE = SubspaceSpec(DIMENSIONS, PARAMETERS, 2).of(NOISE)
ORIGIN = np.random.default_rng(1).standard_normal(PARAMETERS).astype(np.float32)
BASIS = np.stack([SUBSPACE.moved(np.zeros(PARAMETERS, "f4"), row) for row in np.eye(4, dtype="f4")])


def search_over(size: int) -> OpenAIES:
    adam = Adam(size, learning_rate=0.1, weight_decay=0.01)
    return OpenAIES(np.zeros(size, "f4"), MirroredSampler(2, NOISE), adam, constant_std(0.1))


def in_subspace() -> SubspaceES:
    return SubspaceES(ORIGIN, SUBSPACE, search_over(DIMENSIONS))


def value(theta: np.ndarray) -> float:
    return -float(np.square(theta.astype(np.float64) - 1).sum())


def generation(search: SubspaceES) -> dict[str, float]:
    tasks = search.ask(40)
    return dict(search.tell([answer(t, value(search.candidate(t))) for t in tasks[::-1]]))


def test_the_search_stays_in_the_subspace_and_finds_its_best_point():
    search = in_subspace()
    for _ in range(200):
        generation(search)
    moved = (search.parameters - ORIGIN).astype(np.float64)
    nearest, *_ = np.linalg.lstsq(BASIS.T, moved, rcond=None)
    assert np.abs(BASIS.T @ nearest - moved).max() < 1e-5
    np.testing.assert_allclose(nearest, search.coordinates, atol=1e-4)
    best, *_ = np.linalg.lstsq(BASIS.T, 1 - ORIGIN, rcond=None)
    reached, possible = value(search.parameters), value(ORIGIN + BASIS.T @ best)
    assert possible - reached < 0.05 * (possible - value(ORIGIN))


def test_it_is_the_plain_search_over_the_coordinates():
    search, plain = in_subspace(), search_over(DIMENSIONS)
    for _ in range(5):
        tasks, same = search.ask(20), plain.ask(20)
        assert tasks == same
        values = [value(search.candidate(task)) for task in tasks]
        told = list(map(answer, tasks, values))
        search.tell(told)
        plain.tell(told)
        assert search.coordinates.tobytes() == plain.parameters.tobytes()
    assert search.parameters.tobytes() == SUBSPACE.moved(ORIGIN, plain.parameters).tobytes()
    assert search.published()["parameters"].tobytes() == search.parameters.tobytes()


def test_metrics_are_of_all_parameters():
    search = in_subspace()
    metrics = generation(search)
    step = np.linalg.norm(search.parameters - ORIGIN)
    assert metrics["parameter_norm"] == pytest.approx(np.linalg.norm(search.parameters))
    assert metrics["update_ratio"] == pytest.approx(step / np.linalg.norm(ORIGIN))


def test_a_loaded_search_goes_on_with_the_same_bits_wherever_it_began():
    search, other = in_subspace(), SubspaceES(0 * ORIGIN, SUBSPACE, search_over(DIMENSIONS))
    generation(search)
    other.load(search.state())
    for each in (search, other):
        generation(each)
    assert search.parameters.tobytes() == other.parameters.tobytes()
    assert set(search.state().tensors) == set(other.state().tensors)


def test_a_search_of_another_size_is_refused():
    with pytest.raises(ValueError, match="4 dimensions cannot be searched by 5"):
        SubspaceES(ORIGIN, SUBSPACE, search_over(5))
