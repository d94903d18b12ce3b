"""A module's parameters from one vector, and the modules that are refused."""

from typing import Any

import numpy as np
import pytest
import torch
from torch_objectives import Regressor

from drumline import seeding
from drumline.errors import ObjectiveProblem
from drumline.policies.searched_module import PRECISIONS, SearchedModule


def made(name: str, seed: int = 7) -> SearchedModule:
    return SearchedModule(f"torch_objectives:{name}", seed)


def test_parameters_that_require_gradients_are_taken_by_name_in_their_order():
    seeding.seed_globals(7)
    plain = Regressor()
    expected = [plain.inner.weight, plain.inner.bias, plain.outer.weight, plain.outer.bias]
    searched = made("Regressor")
    assert searched.parameter_count == 4 * 8 + 4 + 4 + 1
    expected = np.concatenate([p.detach().numpy().ravel() for p in expected])
    assert searched.vector().tobytes() == expected.tobytes()


def test_a_vector_is_written_into_the_modules_own_tensors():
    searched = made("Regressor")
    before = searched.with_parameters(searched.vector())
    tensors = dict(before.named_parameters())
    vector = np.arange(searched.parameter_count, dtype=np.float32)
    module = searched.with_parameters(vector)
    assert module is before
    assert all(tensors[name] is p for name, p in module.named_parameters())
    assert searched.vector().tobytes() == vector.tobytes()
    vector[:] = -1.0  # the caller's own array
    assert searched.vector()[5] == 5.0


def test_written_numbers_have_no_rounding_of_a_sum():
    """θ + σε − σε is not θ in float32; a vector that is written is."""
    searched = made("Regressor")
    first, far = searched.vector(), np.full(searched.parameter_count, 3e7, np.float32)
    for vector in (far, first):
        searched.with_parameters(vector)
    assert searched.vector().tobytes() == first.tobytes()


def test_buffers_are_put_back_and_frozen_parameters_stay():
    searched = made("Regressor")
    module = searched.with_parameters(searched.vector())
    features, scale = module.features.clone(), module.scale.clone()
    module.features.zero_()
    module.train()
    module = searched.with_parameters(np.zeros(searched.parameter_count, np.float32))
    assert torch.equal(module.features, features)
    assert torch.equal(module.scale, scale)
    assert not module.training


def test_the_same_seed_makes_the_same_module_and_leaves_the_generators_alone():
    seeding.seed_globals(1)
    one, other, third = made("Regressor"), made("Regressor"), made("Regressor", 8)
    assert one.vector().tobytes() == other.vector().tobytes() != third.vector().tobytes()
    zeros = np.zeros(one.parameter_count, np.float32)
    buffers = [s.with_parameters(zeros).features for s in (one, other, third)]
    assert torch.equal(buffers[0], buffers[1])
    assert not torch.equal(buffers[0], buffers[2])
    drawn = torch.rand(3), np.random.rand(3)
    seeding.seed_globals(1)
    assert torch.equal(drawn[0], torch.rand(3))
    assert drawn[1].tolist() == np.random.rand(3).tolist()


def test_parameters_beside_each_other_in_one_storage_are_taken():
    assert made("SideBySide").vector().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_vector_of_another_length_is_refused():
    with pytest.raises(ObjectiveProblem, match=r"has 6 parameters to search, .* of \(5,\)"):
        made("SideBySide").with_parameters(np.zeros(5, np.float32))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Tied", r"share storage \('one.weight' and 'other.weight'\)"),
        ("Overlapping", r"share storage \('one' and 'other'\)"),
        ("Repeating", "'one' whose elements share storage"),
        ("WholeNumbers", "'one' of int64, to which no noise can be added"),
        ("Doubles", "'one' of float64: searched parameters are float32"),
        ("Lazy", r"'one.weight' without a shape"),
        ("Frozen", "no parameters that require gradients"),
        ("Empty", "has no parameters, so there is nothing to search"),
        ("NeedsArguments", "cannot be made without arguments.*TypeError"),
        ("no_module", "made a dict, not a torch.nn.Module"),
        ("nowhere", "cannot be imported"),
    ],
)
def test_a_module_that_no_search_can_set_is_one_sentence(name: str, said: str):
    with pytest.raises(ObjectiveProblem, match=said) as refusal:
        made(name)
    assert str(refusal.value).startswith(f"--policy 'torch_objectives:{name}' ")
    assert "\n" not in str(refusal.value)


def test_pieces_of_any_size_give_what_the_whole_vector_gives():
    whole, pieces = made("Wide"), made("Wide")
    vector = np.random.default_rng(0).standard_normal(whole.parameter_count, np.float32)
    whole.with_parameters(vector)
    for size in (1 << 16, 977, whole.parameter_count):
        pieces.with_parameters(np.zeros_like(vector))
        pieces.with_pieces((s, vector[s : s + size]) for s in range(0, vector.size, size))
        assert pieces.vector().tobytes() == whole.vector().tobytes() == vector.tobytes()


def test_only_parameters_whose_names_match_are_searched():
    searched = SearchedModule("torch_objectives:Regressor", 7, trainable=r"^inner\.w|outer")
    shapes = {"inner.weight": (4, 8), "outer.weight": (1, 4), "outer.bias": (1,)}
    assert searched.shapes == shapes
    module = searched.with_parameters(np.zeros(searched.parameter_count, np.float32))
    assert module.inner.bias.abs().sum() > 0
    assert not module.outer.bias.any()
    with pytest.raises(
        ObjectiveProblem,
        match=r"matches --trainable 'lost': scale, inner\.weight, [\w., ]*outer\.bias$",
    ):
        SearchedModule("torch_objectives:Regressor", 7, trainable="lost")


def test_a_module_in_bf16_holds_the_rounded_vector():
    searched = SearchedModule("torch_objectives:Wide", 7, precision="bf16")
    vector = np.random.default_rng(0).standard_normal(searched.parameter_count, np.float32)
    module = searched.with_parameters(vector)
    assert {p.dtype for p in module.parameters()} == {torch.bfloat16}
    rounded = torch.from_numpy(vector).bfloat16().float().numpy()
    assert searched.vector().tobytes() == rounded.tobytes()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_is_frozen_keeps_its_type_and_may_be_of_any(precision: str):
    made = SearchedModule("torch_objectives:Adapted", 0, precision=precision, trainable="adapter")
    assert set(made.parameters) == {"adapter.weight", "adapter.bias"}
    module: Any = made.with_parameters(made.vector())
    assert (module.base.dtype, module.codes.dtype) == (torch.bfloat16, torch.int8)
    assert module.adapter.weight.dtype == PRECISIONS[precision]
    assert module.one.data_ptr() == module.same.data_ptr()


def test_buffers_that_are_assigned_anew_get_their_first_values_back():
    made = SearchedModule("torch_objectives:Adapted", 0, trainable="adapter")
    inputs = torch.ones(2, 3)
    first = made.with_parameters(made.vector())(inputs).clone()
    assert torch.equal(made.with_parameters(made.vector())(inputs), first)


def test_frozen_parameters_that_share_with_a_searched_one_are_refused():
    with pytest.raises(ObjectiveProblem, match="share storage"):
        SearchedModule("torch_objectives:Tied", 0, trainable="one")


def test_parameters_that_a_call_replaced_or_converted_are_put_back():
    made = SearchedModule("torch_objectives:Regressor", 0)
    first, inputs = made.vector(), torch.ones(2, 3)
    expected = made.with_parameters(first)(inputs).clone()
    module: Any = made.module
    module.inner.weight = torch.nn.Parameter(torch.zeros(4, 8))
    assert torch.equal(made.with_parameters(first)(inputs), expected)
    module.double()
    module.outer.requires_grad_(True)
    assert torch.equal(made.with_parameters(first)(inputs), expected)
    assert not any(p.requires_grad for p in module.parameters())


def test_a_call_that_changes_a_frozen_parameter_is_refused():
    made = SearchedModule("torch_objectives:Regressor", 0)
    module: Any = made.with_parameters(made.vector())
    module.scale.data.fill_(1.0)
    with pytest.raises(ObjectiveProblem, match="changes the module's parameter 'scale'"):
        made.with_parameters(made.vector())


def test_a_frozen_parameter_may_hold_what_is_no_number():
    made = SearchedModule("torch_objectives:Adapted", 0, trainable="adapter")
    assert torch.isnan(made.with_parameters(made.vector()).get_parameter("unset")).all()
    made.with_parameters(made.vector())


def test_a_buffer_that_was_none_is_none_in_the_next_call_and_a_new_one_is_gone():
    made = SearchedModule("torch_objectives:Caching", 0)
    inputs, first = torch.ones(2, 3), made.vector()
    expected = made.with_parameters(first)(inputs).clone()
    assert set(dict(made.module.named_buffers())) == {"scale", "later"}
    made.with_parameters(first * 3)(inputs)
    module: Any = made.with_parameters(first)
    assert module.scale is None
    assert not hasattr(module, "later")
    assert torch.equal(module(inputs), expected)


def test_the_memory_order_and_gradients_of_a_call_are_gone_in_the_next_one():
    made = SearchedModule("torch_objectives:Regressor", 0)
    first, inputs = made.vector(), torch.ones(2, 3)
    expected = made.with_parameters(first)(inputs).clone()
    module: Any = made.module
    module.requires_grad_(True)
    module(inputs).sum().backward()
    assert module.scale.grad is not None
    module.inner.weight.data = module.inner.weight.data.t().contiguous().t()
    module.half()
    assert torch.equal(made.with_parameters(first)(inputs), expected)
    assert all(p.grad is None and not p.requires_grad for p in module.parameters())
    assert module.inner.weight.is_contiguous()
