"""Hand-written passes against autograd, and slices of a stack against the same network alone."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from drumline.algorithms import dense_stack
from drumline.algorithms.dense_stack import (
    LEAK,
    DenseStack,
    Hidden,
    StackVector,
    parameter_count,
    tanh_,
)
from drumline.functional import products
from drumline.policies.heads import Head
from drumline.policies.mlp import MLPPolicy
from drumline.policies.spec import PolicySpec

SIZES = (7, 16, 12, 3)
ROWS = 32


def drawn(*shape: int) -> torch.Tensor:
    rng = np.random.default_rng(sum(shape))
    return torch.from_numpy(0.3 * rng.standard_normal(shape).astype(np.float32))


def by_autograd(values: torch.Tensor, inputs: torch.Tensor, hidden: Hidden) -> torch.Tensor:
    out, start = inputs, 0
    for number in range(len(SIZES) - 1):
        rows, columns = SIZES[number], SIZES[number + 1]
        end = start + (rows + 1) * columns
        both = values[start:end].reshape(rows + 1, columns)
        out = out @ both[:rows] + both[rows]
        if number < len(SIZES) - 2:
            out = {
                "tanh": torch.tanh,
                "relu": F.relu,
                "leaky-relu": lambda x: F.leaky_relu(x, LEAK),
            }[hidden](out)
        start = end
    return out


@pytest.mark.parametrize("hidden", ["tanh", "relu", "leaky-relu"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_passes_by_hand_agree_with_autograd(hidden: Hidden, count: int):
    values = drawn(count, parameter_count(SIZES))
    inputs, output_gradient = drawn(count, ROWS, 7), drawn(count, ROWS, 3)
    stack, gradient = DenseStack(count, ROWS, SIZES, hidden), torch.empty_like(values)
    parameters = StackVector(values, SIZES)
    columns = torch.empty(count, ROWS, 5)
    outputs = stack.forward(inputs, parameters).clone()
    stack.backward(output_gradient, parameters, StackVector(gradient, SIZES), (2, columns))
    for k in range(count):
        leaf, into = values[k].clone().requires_grad_(), inputs[k].clone().requires_grad_()
        expected = by_autograd(leaf, into, hidden)
        expected.backward(output_gradient[k])
        assert leaf.grad is not None
        assert into.grad is not None
        torch.testing.assert_close(outputs[k], expected.detach(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(gradient[k], leaf.grad, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(columns[k], into.grad[:, 2:], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2])
def test_large_layers_by_onednn_agree_with_torchs_own(count: int, monkeypatch: pytest.MonkeyPatch):
    sizes, rows = (17, 160, 144, 6), 128
    values, inputs = drawn(count, parameter_count(sizes)), drawn(count, rows, 17)
    above = drawn(count, rows, 6)
    found: list[list[torch.Tensor]] = []
    for taken in (False, True):
        monkeypatch.setattr(products, "takes_onednn", lambda taken=taken: taken)
        stack, gradient = DenseStack(count, rows, sizes, "relu"), torch.empty_like(values)
        outputs = stack.forward(inputs, StackVector(values, sizes)).clone()
        stack.backward(above, StackVector(values, sizes), StackVector(gradient, sizes))
        found.append([outputs, gradient])
    assert products.onednn_pays(rows, 160, 144)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


def test_frozen_parameters_give_the_same_gradient_of_the_inputs():
    values, inputs, output_gradient = drawn(1, parameter_count(SIZES)), drawn(1, 32, 7), drawn(1, 3)
    stack, parameters = DenseStack(1, ROWS, SIZES, "tanh"), StackVector(values, SIZES)
    arrays = [torch.empty(1, ROWS, 7) for _ in range(2)]
    rows = output_gradient.expand(1, ROWS, 3).contiguous()
    stack.forward(inputs, parameters)
    stack.backward(rows, parameters, StackVector(torch.empty_like(values), SIZES), (0, arrays[0]))
    stack.backward(rows, parameters, None, (0, arrays[1]))
    assert torch.equal(*arrays)


def test_bf16_follows_the_float32_vectors_within_its_precision():
    values, inputs = drawn(2, parameter_count(SIZES)), drawn(2, ROWS, 7)
    output_gradient = drawn(2, ROWS, 3)
    stack = DenseStack(2, ROWS, SIZES, "tanh", "bf16")
    parameters = StackVector(values, SIZES, "bf16")
    gradient = StackVector(torch.zeros_like(values), SIZES, "bf16")
    values.mul_(2.0)
    parameters.refresh()
    stack.forward(inputs.to(torch.bfloat16), parameters)
    stack.backward(output_gradient, parameters, gradient)
    gradient.collect()
    exact = DenseStack(2, ROWS, SIZES, "tanh")
    expected = torch.zeros_like(values)
    exact.forward(inputs, StackVector(values, SIZES))
    exact.backward(output_gradient, StackVector(values, SIZES), StackVector(expected, SIZES))
    assert float((gradient.values - expected).norm() / expected.norm()) < 0.02
    assert gradient.values.dtype == torch.float32
    # oneDNN takes matrices as they lie only where the batch is one array.
    assert all(
        layer.weights.is_contiguous() for layer in (*parameters.layers[:-1], *gradient.layers[:-1])
    )


def test_large_values_are_told_apart_in_bf16():
    """Q-values around 800 lie apart by less than the 4 that bf16 would round them to."""
    values, inputs = drawn(1, parameter_count(SIZES)), drawn(1, ROWS, 7)
    found: list[torch.Tensor] = []
    for precision in ("fp32", "bf16"):
        parameters = StackVector(values.clone(), SIZES, precision)
        parameters.values[:, -SIZES[-1] :] += 800.0
        parameters.refresh()
        stack = DenseStack(1, ROWS, SIZES, "tanh", precision)
        found.append(stack.forward(inputs.to(stack.kind), parameters).clone())
    exact, half = found
    assert half.dtype == torch.float32
    assert float((half - exact).abs().max()) < 0.1 * float(exact.std())


def test_small_numbers_pass_tanh_in_bf16():
    numbers = torch.tensor([0.005, -0.005, 0.01, 0.3]).to(torch.bfloat16)
    found = dense_stack.tanh_(numbers.clone(), -torch.ones((), dtype=torch.bfloat16))
    torch.testing.assert_close(found.float(), numbers.float().tanh(), rtol=2**-7, atol=0)


def test_bf16_is_the_same_arithmetic_with_and_without_instructions_for_it(
    monkeypatch: pytest.MonkeyPatch,
):
    values, inputs = drawn(2, parameter_count(SIZES)), drawn(2, ROWS, 7).to(torch.bfloat16)
    output_gradient = drawn(2, ROWS, 3)
    found: list[list[torch.Tensor]] = []
    for there in (True, False):
        monkeypatch.setattr(dense_stack, "multiplies_bf16", lambda there=there: there)
        stack = DenseStack(2, ROWS, SIZES, "leaky-relu", "bf16")
        parameters = StackVector(values, SIZES, "bf16")
        gradient = StackVector(torch.zeros_like(values), SIZES, "bf16")
        outputs = stack.forward(inputs, parameters).clone()
        stack.backward(output_gradient, parameters, gradient)
        gradient.collect()
        found.append([outputs, gradient.values])
    for with_them, without in zip(*found, strict=True):
        assert with_them.dtype == without.dtype
        # An order of sums apart, which a rounding to 8 bits seldom lets through.
        torch.testing.assert_close(with_them, without, rtol=2**-7, atol=2e-3)


@pytest.mark.parametrize("hidden", ["tanh", "relu"])
def test_a_worker_without_torch_computes_the_same_network(hidden: Hidden):
    assert hidden != "leaky-relu"
    head = Head("continuous", (-np.inf,) * 3, (np.inf,) * 3, (3,))
    spec = PolicySpec(7, head, SIZES[1:-1], normalize=False, activation=hidden)
    policy, values = MLPPolicy(spec), drawn(1, parameter_count(SIZES))
    policy.load_vector(values[0].numpy())
    inputs = drawn(1, ROWS, 7)
    stack = DenseStack(1, ROWS, SIZES, hidden)
    outputs = stack.forward(inputs, StackVector(values, SIZES))[0].numpy()
    expected = np.stack([policy.output(row).copy() for row in inputs[0].numpy()])
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)


def test_tanh_is_exact_to_two_units_of_float32_at_one():
    values = torch.linspace(-20.0, 20.0, 100_001)
    expected = torch.tanh(values.double())
    got = tanh_(values.clone(), -torch.ones(()))
    assert float((got.double() - expected).abs().max()) < 2.0**-22
    assert float(got.abs().max()) <= 1.0


def test_a_vector_of_another_size_is_refused():
    with pytest.raises(ValueError, match="has 371 parameters"):
        StackVector(torch.zeros(1, 370), SIZES)
