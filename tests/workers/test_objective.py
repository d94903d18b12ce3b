"""Calls of an objective: what it may return, and what one task gives."""

import hashlib
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drumline import seeding
from drumline.envs.episode import NonFinite
from drumline.errors import ObjectiveProblem
from drumline.functional.perturbation import counter_reader
from drumline.policies.searched_module import SearchedModule
from drumline.tasks import Evaluate, EvaluateMean, RehearseTwice
from drumline.training.cluster import proof_of
from drumline.training.layout import Layout
from drumline.workers.objective import Objective, ObjectiveFunction, load_function
from drumline.workers.objective_worker import ObjectiveSpec

VECTOR = np.linspace(0.0, 1.0, 6, dtype=np.float32)


class Context:
    """A pool's services to one worker in this process."""

    def __init__(self, **published: np.ndarray):
        self.shared: dict[str, np.ndarray] = {}
        self._published = published
        self.progressed: list[int] = []
        self.built = 0

    def published(self, version: int) -> dict[str, np.ndarray]:
        return self._published

    def progress(self, amount: int) -> None:
        self.progressed.append(amount)

    def probe(self, point: str) -> None:
        pass

    def building(self) -> Any:
        self.built += 1
        return nullcontext()


def objective(name: str, count: int = 1) -> Objective:
    return Objective(f"objectives:{name}", None, 6, 0, count)


def value(name: str) -> float:
    (number,) = ObjectiveFunction(objective(name))(VECTOR, 5)
    return number


def task(**changes: Any) -> Evaluate:
    plain = Evaluate(0, 3, -1, 64, 91, 0.5, 0, False, True)
    return plain._replace(**changes)


def test_a_call_may_overwrite_what_it_is_given():
    given = VECTOR.copy()
    first = ObjectiveFunction(objective("noisy_sphere"))(given, 5)
    assert given.tobytes() == VECTOR.tobytes()
    assert first == ObjectiveFunction(objective("noisy_sphere"))(given, 5)


def test_the_global_generators_are_seeded_for_each_call():
    call = ObjectiveFunction(objective("global_noise"))
    assert call(VECTOR, 5) == call(VECTOR, 5) != call(VECTOR, 6)


def test_numbers_without_a_shape_are_values():
    assert value("a_numpy_number") == 0.5
    call = ObjectiveFunction(objective("a_numpy_number"))
    for number in (True, 2, np.int64(3), np.array(4.0), torch.tensor(5.0)):
        call._call = lambda parameters, seed, number=number: number
        assert call(VECTOR, 0) == (float(number),)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("an_array", r"returned a ndarray of shape \(6,\) instead of one number: return a float"),
        ("a_text", "returned a str instead of one number"),
        ("nothing", "returned a NoneType instead of one number"),
    ],
)
def test_what_is_no_number_is_one_sentence(name: str, said: str):
    with pytest.raises(ObjectiveProblem, match=said):
        value(name)


@pytest.mark.parametrize(("name", "shown"), [("not_a_number", "nan"), ("endless", "inf")])
def test_a_value_that_is_not_finite_names_its_seed(name: str, shown: str):
    with pytest.raises(NonFinite, match=f"objectives:{name} returned {shown} for seed 5"):
        value(name)


def test_a_value_whose_mean_would_be_none_names_its_seed():
    with pytest.raises(NonFinite, match=r"lowest returned -1\.79.* for seed 5.*such as -1e9"):
        value("lowest")


def test_several_seeds_give_as_many_values_and_their_mean_is_the_fitness():
    context = Context(parameters=VECTOR)
    worker = ObjectiveSpec(objective("batch_of_seeds", 7), 0)(context)
    result = worker(task(sign=0))
    seeds = np.array(seeding.seeds(91, 7, "objective"))
    shifts = np.array([np.random.default_rng(seed).standard_normal(6) for seed in seeds])
    target = np.linspace(-1.0, 1.0, 6).astype(np.float32)
    expected = [-np.square(VECTOR - target - 0.1 * shift).sum() for shift in shifts]
    assert result.fitness == pytest.approx(np.mean(expected))
    assert result.episode_return == result.fitness
    assert result.length == 7
    assert context.progressed == [7]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("noisy_sphere", "returned a float instead of 4 numbers, one for each seed"),
        ("an_array", r"of shape \(6,\) instead of 4 numbers"),
        ("a_text", "returned a str instead of 4 numbers"),
    ],
)
def test_a_batch_of_seeds_needs_a_value_for_each(name: str, said: str):
    call = ObjectiveFunction(objective(name, 4))
    call._call = {"noisy_sphere": lambda p, s: 0.5}.get(name, call._call)
    with pytest.raises(ObjectiveProblem, match=said):
        call(VECTOR, 5)


@pytest.mark.parametrize("gradients", [False, True])
def test_tensors_of_any_precision_with_gradients_too_are_values(gradients: bool):
    one = torch.ones((), dtype=torch.bfloat16, requires_grad=gradients)
    call = ObjectiveFunction(objective("noisy_sphere"))
    call._call = lambda p, s: one * 0.5
    assert call(VECTOR, 5) == (0.5,)
    call = ObjectiveFunction(objective("noisy_sphere", 3))
    call._call = lambda p, s: torch.stack([one, one * 2, one * 3])
    assert call(VECTOR, 5) == (1.0, 2.0, 3.0)
    call._call = lambda p, s: [one, one * 2, one * 3]
    assert call(VECTOR, 5) == (1.0, 2.0, 3.0)
    call._call = lambda p, s: [one, one]
    with pytest.raises(ObjectiveProblem, match="returned a list of 2 values instead of 3 numbers"):
        call(VECTOR, 5)


def test_a_number_above_all_floats_is_refused():
    call = ObjectiveFunction(objective("noisy_sphere"))
    call._call = lambda p, s: 10**400
    with pytest.raises(ObjectiveProblem, match="returned a int instead of one number"):
        call(VECTOR, 5)


def test_what_is_not_finite_names_the_seed_that_the_function_was_given():
    call = ObjectiveFunction(objective("noisy_sphere", 3))
    call._call = lambda p, s: [0.0, float("nan"), 0.0]
    with pytest.raises(NonFinite, match=f"seed {seeding.seeds(5, 3, 'objective')[1]}:"):
        call(VECTOR, 5)


def test_a_task_is_a_call_at_the_perturbed_parameters():
    worker = ObjectiveSpec(objective("noisy_sphere"), noise_seed=17)(Context(parameters=VECTOR))
    result = worker(task())
    noise = counter_reader(17)(64, 0, 6, np.empty(6, np.float32))
    moved = (np.float32(-0.5) * noise + VECTOR).astype(np.float32)
    assert (result.fitness,) == ObjectiveFunction(objective("noisy_sphere"))(moved, 91)
    assert (result.version, result.member, result.sign, result.noise_key) == (0, 3, -1, 64)
    assert result.length == 1
    assert result.moments is None


def test_a_published_member_is_called_as_it_is():
    population = np.stack([VECTOR * k for k in range(5)])
    context = Context(parameters=VECTOR, population=population)
    worker = ObjectiveSpec(objective("noisy_sphere"), 0)(context)
    call = ObjectiveFunction(objective("noisy_sphere"))
    assert (worker(task(sign=0)).fitness,) == call(population[3], 91)
    assert (worker(task(sign=0, training=False)).fitness,) == call(VECTOR, 91)


def test_a_rehearsal_runs_a_task_twice_with_another_between():
    worker = ObjectiveSpec(objective("remembers"), 0)(Context(parameters=VECTOR))
    twice = worker(RehearseTwice(task(), task(seed=92)))
    assert twice.second.fitness == twice.first.fitness + 2
    assert twice.first.digest != twice.second.digest
    assert twice.first.digest == hashlib.sha256(np.array([twice.first.fitness]).tobytes()).digest()


def test_the_mean_is_called_once_for_each_episode():
    context = Context(parameters=VECTOR)
    worker = ObjectiveSpec(objective("noisy_sphere"), 0)(context)
    result = worker(EvaluateMean(0, 1, 5, 3))
    call = ObjectiveFunction(objective("noisy_sphere"))
    seeds = seeding.seeds(5, 3, "mean-evaluation")
    assert result.returns == tuple(call(VECTOR, seed)[0] for seed in seeds)
    assert result.env_steps == 3


def test_only_the_first_call_has_the_time_of_a_start():
    context = Context(parameters=VECTOR)
    worker = ObjectiveSpec(objective("noisy_sphere"), 0)(context)
    worker(task())
    worker(task())
    assert context.built == 1


def test_the_answer_for_other_machines_covers_noise_and_a_call():
    proofs = [ObjectiveSpec(objective(n), 0).proof() for n in ("noisy_sphere", "global_noise")]
    answers = [proof(Context())(None) for proof in (*proofs, proofs[0])]
    assert answers[0] == answers[2] != answers[1]
    found = proof_of(ObjectiveSpec(objective("noisy_sphere"), 0), Layout(pool="inline"))
    assert found is not None
    assert found.answer == answers[0]


def test_an_answer_that_cannot_be_computed_is_said(caplog: pytest.LogCaptureFixture):
    assert proof_of(ObjectiveSpec(objective("not_a_number"), 0), Layout(pool="inline")) is None
    (line,) = caplog.messages
    assert "nodes are taken by their packages alone" in line
    assert "returned nan" in line


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("objectives", "is no place of a function: write module:function"),
        ("objectives:lost", "cannot be imported .*the current directory is importable"),
        ("no_such_objectives:one", "cannot be imported"),
        ("objectives:NOT_A_FUNCTION", "is a float, not a function"),
        ("objectives:without_seed", r"cannot be called with \(parameters, seed\) .* \(parameters:"),
    ],
)
def test_what_is_no_objective_is_one_sentence(place: str, said: str):
    with pytest.raises(ObjectiveProblem, match=said):
        load_function(place)


FIRST_TORCH = """
import sys
from drumline.workers.objective import Objective, ObjectiveFunction
import numpy as np

function = ObjectiveFunction(Objective("brings_torch:fitness", None, 6, 0))
assert "torch" not in sys.modules
values = [function(np.zeros(6, np.float32), 5) for _ in range(2)]
import torch
print(values[0] == values[1], torch.get_num_threads())
"""


def test_a_call_that_brings_torch_in_has_the_value_of_later_ones(tmp_path: Path):
    (tmp_path / "brings_torch.py").write_text(
        "def fitness(parameters, seed):\n"
        "    import torch\n"
        "    parameters += 1\n"
        "    return float(torch.rand(())) + float(parameters.sum())\n"
    )
    words = [sys.executable, "-c", FIRST_TORCH]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "True 1\n", done.stderr


def test_a_module_with_other_parameters_than_were_searched_is_refused():
    module = SearchedModule("torch_objectives:Regressor", 0)
    searched = tuple(module.shapes.items())
    of = {"dimensions": module.parameter_count, "tensors": searched}
    there = Objective("torch_objectives:fit", "torch_objectives:Regressor", **of)
    assert ObjectiveFunction(there)(module.vector(), 3)
    changed = replace(there, module="torch_objectives:Exchanged")
    with pytest.raises(ObjectiveProblem, match=r"outer.weight \[1, 4\] as its number 1, in the pl"):
        ObjectiveFunction(changed)
