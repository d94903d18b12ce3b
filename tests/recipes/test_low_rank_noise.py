"""`--noise low-rank:R`: the matrices it is about, and what is refused."""

from typing import Any

import numpy as np
import pytest
from workers.test_objective import Context

from drumline import seeding
from drumline.policies.build import initial_parameters, tensor_shapes
from drumline.policies.heads import Head
from drumline.policies.spec import PolicySpec
from drumline.recipes.ars import ARS
from drumline.recipes.es import ES
from drumline.training.layout import SearchLayout
from drumline.workers.objective import ObjectiveFunction
from drumline.workers.objective_worker import ObjectiveSpec

FIT = {"objective": "torch_objectives:fit", "policy": "torch_objectives:Regressor"}
INLINE = SearchLayout(pool="inline")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"env": "CartPole-v1", "noise": "normal"}, "--noise 'normal' is none of auto, table, cou"),
        ({"env": "CartPole-v1", "noise": "low-rank"}, "and low-rank:R with a whole number R"),
        ({"env": "CartPole-v1", "noise": "low-rank:0"}, "a whole number R of 1 or more"),
        ({"env": "CartPole-v1", "noise": "low-rank:1.5"}, "a whole number R of 1 or more"),
        ({"env": "CartPole-v1", "noise": "low-rank:²"}, "a whole number R of 1 or more"),
        (
            {"env": "CartPole-v1", "noise": "low-rank:1", "subset": "use"},
            "--noise low-rank:1 and --subset use contradict each other",
        ),
        (
            {"env": "CartPole-v1", "noise": "low-rank:1", "subspace": 9},
            "--noise low-rank:1 and --subspace 9 contradict each other",
        ),
        (
            {"objective": "objectives:noisy_sphere", "dimensions": 6, "noise": "low-rank:1"},
            "--noise low-rank:1 is about matrices, and a vector has none: give --policy",
        ),
        (
            {**FIT, "members_per_call": 2},
            "--members-per-call 2 goes with --objective and --noise low-rank:R",
        ),
        (
            {**FIT, "noise": "low-rank:1", "members_per_call": 41},
            "--members-per-call must be 1 to --population-size 40, got 41",
        ),
        ({**FIT, "members_per_call": 0}, "must be 1 to --population-size 40, got 0"),
        (
            {"env": "CartPole-v1", "noise": "low-rank:1", "members_per_call": 2},
            "--members-per-call 2 goes with --objective",
        ),
    ],
)
def test_noise_that_makes_no_sense_is_one_sentence(fields: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said) as refusal:
        ES(**fields)
    assert "\n" not in str(refusal.value)


def test_a_rank_above_all_matrices_is_refused_before_there_is_a_run():
    with pytest.raises(ValueError, match="low-rank:3: no parameter is a matrix with more numbers"):
        ES(**FIT, noise="low-rank:3").build(INLINE)


def test_ars_refuses_it():
    with pytest.raises(ValueError, match="--noise low-rank:2 goes with es"):
        ARS("Swimmer-v5", noise="low-rank:2")


CNN = {"convolutions": "a3c-cnn", "image": (4, 84, 84), "normalize": False}
POLICIES: dict[str, dict[str, Any]] = {
    "mlp": {"hidden": (8, 6)},
    "linear": {"hidden": ()},
    "without biases": {"hidden": (8,), "bias": False},
    "convolutions": CNN,
    "convolutions, normalised": {**CNN, "virtual_batch": 4},
    "a module": {"module": "torch_policies:TanhNetwork"},
}


@pytest.mark.parametrize("name", POLICIES)
def test_the_shapes_of_a_policy_are_those_of_its_vector(name: str):
    spec = PolicySpec(5, Head("discrete", choices=3), **POLICIES[name])
    vector = initial_parameters(spec, seeding.generator(0, "initial-parameters"))
    shapes = tensor_shapes(spec)
    assert sum(int(np.prod(shape)) for shape in shapes) == vector.size
    if name == "mlp":
        assert shapes == ((5, 8), (8,), (8, 6), (6,), (6, 3), (3,))
    if name.startswith("convolutions"):
        sizes = [16, 32, 256] if name == "convolutions" else [32, 64, 512]
        assert [shape[0] for shape in shapes[1::2]] == [*sizes, 3]


def test_a_worker_evaluates_the_candidate_of_the_strategy():
    recipe = ES(**FIT, noise="low-rank:1", std=0.3, seed=4, population_size=6).build(INLINE)
    assert isinstance(recipe.worker, ObjectiveSpec)
    worker = recipe.worker(Context(**recipe.strategy.published()))
    alone = ObjectiveFunction(recipe.worker.objective)
    for task in recipe.strategy.ask(6):
        candidate = recipe.strategy.candidate(task)
        (expected,) = alone(candidate, task.seed)
        assert worker(task).fitness == expected
        change = (candidate - recipe.strategy.parameters) / np.float32(task.std)
        assert np.linalg.matrix_rank(change[:32].reshape(4, 8), tol=1e-4) == 1
        assert np.abs(change[32:]).min() > 0.0
