"""Members of one call: each as alone, whatever the module is made of."""

from typing import Any

import numpy as np
import pytest
import torch

from drumline import seeding
from drumline.errors import ObjectiveProblem
from drumline.functional.low_rank import LowRank, LowRankNoise
from drumline.functional.perturbation import perturb
from drumline.policies.module_members import Member, ModuleMembers
from drumline.policies.searched_module import SearchedModule

MEMBERS = [Member(p, sign * 0.2) for p in (3, 4, 1 << 32) for sign in (1, -1)] + [Member(0, 0.0)]


def made(path: str, rank: int = 1, precision: str = "fp32") -> tuple[ModuleMembers, LowRankNoise]:
    searched = SearchedModule(path, 0, precision=precision)
    layout = LowRank(rank, tuple(searched.shapes.values()))
    return ModuleMembers(searched, layout, LowRankNoise(5, layout)), LowRankNoise(5, layout)


def inputs_of(path: str) -> torch.Tensor:
    rng = np.random.default_rng(1)
    if path.endswith("Reader"):
        return torch.from_numpy(rng.integers(9, size=(len(MEMBERS), 4, 6)))
    return torch.from_numpy(rng.standard_normal((len(MEMBERS), 16, 3), np.float32))


@pytest.mark.parametrize("path", ["torch_objectives:Regressor", "torch_objectives:Reader"])
@pytest.mark.parametrize("rank", [1, 2])
def test_members_of_a_call_are_those_of_explicit_matrices(path: str, rank: int):
    members, noise = made(path, rank)
    alone = SearchedModule(path, 0)
    theta, inputs = alone.vector(), inputs_of(path)
    members.publish(0, theta)
    together = members.perturbed(MEMBERS)(inputs)
    for member, given, got in zip(MEMBERS, inputs, together, strict=True):
        vector = np.empty_like(theta)
        perturb(theta, noise.read, member.key, member.scale, vector)
        with torch.no_grad():
            expected = alone.with_parameters(vector)(given)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    assert not np.allclose(together[0], together[1], atol=1e-2)


def test_a_member_has_the_same_bits_beside_any_others_of_as_many():
    members, _ = made("torch_objectives:Reader")
    members.publish(0, SearchedModule("torch_objectives:Reader", 0).vector())
    inputs = inputs_of("Reader")
    together = members.perturbed(MEMBERS)(inputs)
    order = [3, 1, 0, 6, 5, 4, 2]
    shuffled = members.perturbed([MEMBERS[i] for i in order])(inputs[order])
    assert shuffled.numpy().tobytes() == together[order].numpy().tobytes()


def test_a_version_is_written_once_and_the_next_one_replaces_it():
    members, _ = made("torch_objectives:Regressor")
    theta = SearchedModule("torch_objectives:Regressor", 0).vector()
    inputs = inputs_of("Regressor")
    members.publish(0, theta)
    first = members.perturbed(MEMBERS)(inputs)
    members.publish(1, theta * 0.5)
    second = members.perturbed(MEMBERS)(inputs)
    assert not np.allclose(first, second, atol=1e-3)
    members.publish(2, theta)
    assert members.perturbed(MEMBERS)(inputs).numpy().tobytes() == first.numpy().tobytes()


def test_a_perturbation_below_the_digits_of_bf16_is_not_lost():
    """θ rounds to bf16 once, and what is added stays apart: nothing is added to 8 digits."""
    members, _ = made("torch_objectives:Regressor", precision="bf16")
    alone = SearchedModule("torch_objectives:Regressor", 0)
    members.publish(0, alone.vector())
    inputs = inputs_of("Regressor")[:2].to(torch.bfloat16)
    both = [Member(3, 1e-4), Member(3, -1e-4)]
    thin = [members.perturbed(both)._thin["inner.weight"].left[i] for i in (0, 1)]
    assert torch.equal(thin[0], -thin[1])
    assert thin[0].abs().max() > 1e-5
    assert members(inputs).dtype == torch.bfloat16


def test_numbers_go_to_every_member_and_keywords_too():
    members, _ = made("torch_objectives:Reader")
    members.publish(0, SearchedModule("torch_objectives:Reader", 0).vector())
    inputs = inputs_of("Reader")
    twice = members.perturbed(MEMBERS)(words=inputs, scale=2.0)
    assert torch.equal(twice, 2.0 * members(inputs))


@pytest.mark.parametrize("given", [torch.zeros(16, 3), torch.zeros(())])
def test_inputs_without_members_are_one_sentence(given: Any):
    members, _ = made("torch_objectives:Regressor")
    members.publish(0, SearchedModule("torch_objectives:Regressor", 0).vector())
    with pytest.raises(ObjectiveProblem, match=r"of 7 members takes inputs \[7, …\], one row for"):
        members.perturbed(MEMBERS)(given)


@pytest.mark.parametrize("name", ["Viewed", "Rewrapped", "Chosen"])
def test_a_module_whose_parameters_no_member_would_perturb_is_refused(name: str):
    members, _ = made(f"torch_objectives:{name}")
    members.publish(0, SearchedModule(f"torch_objectives:{name}", 0).vector())
    with pytest.raises(ObjectiveProblem, match="members of one call cannot share"):
        members.perturbed(MEMBERS)(inputs_of("Regressor"))


def test_whole_numbers_that_follow_the_members_are_taken():
    members, _ = made("torch_objectives:Picked")
    members.publish(0, SearchedModule("torch_objectives:Picked", 0).vector())
    assert members.perturbed(MEMBERS)(inputs_of("Regressor")).dtype == torch.int64
    assert members._checks_left == 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_comparison_leaves_numbers_buffers_and_generators_as_they_were(precision: str):
    members, _ = made("torch_objectives:Regressor", precision=precision)
    theta = SearchedModule("torch_objectives:Regressor", 0).vector()
    inputs = inputs_of("Regressor").to(members._dtype)
    members.publish(0, theta)
    seeding.seed_globals(4)
    first = members.perturbed(MEMBERS)(inputs)
    drawn = torch.rand(3)
    members.publish(1, theta)
    seeding.seed_globals(4)
    assert torch.equal(members.perturbed(MEMBERS)(inputs), first)  # without a comparison
    assert torch.equal(torch.rand(3), drawn)
