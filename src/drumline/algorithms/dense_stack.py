"""K multilayer perceptrons of one shape side by side, with forward and backward written out.

All buffers are made once, because most of a gradient step on small networks is bookkeeping.
`tests/algorithms/test_dense_stack.py` compares it with autograd.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from drumline.functional.products import multiply_by_onednn, onednn_pays

Hidden = Literal["tanh", "relu", "leaky-relu"]
Precision = Literal["fp32", "bf16"]

LEAK = 0.01
"""Slope of the leaky ReLU below zero, torch's default."""

_aten: Any = torch.ops.aten
_mkldnn: Any = torch.ops.mkldnn


class Layer(NamedTuple):
    """One layer of all K networks: weights `[K, inputs, outputs]` and biases `[K, 1, outputs]`."""

    weights: Tensor
    biases: Tensor


def parameter_count(sizes: tuple[int, ...]) -> int:
    """Return P of one network with these layer sizes, inputs and outputs included."""
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))


class StackVector:
    """Flat float32 vectors `[K, P]` (parameters, or their gradient) as layers.

    The layout of each vector is that of `policies.mlp`: layer by layer, the bias row last, so that
    an actor's vector is the same here and in a worker without torch. In bf16 the layers but the
    last are copies in arrays of their own: batched products would copy views of one vector at every
    call.
    """

    def __init__(self, values: Tensor, sizes: tuple[int, ...], precision: Precision = "fp32"):
        if values.shape[-1] != parameter_count(sizes):
            raise ValueError(
                f"a network of sizes {sizes} has {parameter_count(sizes)} parameters, "
                f"got {list(values.shape)}"
            )
        self.values = values
        """[K, P], in place: call `refresh` after a change."""
        self._views: list[Layer] = []
        start = 0
        for inputs, outputs in pairwise(sizes):
            end = start + (inputs + 1) * outputs
            both = values[:, start:end].unflatten(1, (inputs + 1, outputs))
            self._views.append(Layer(both[:, :inputs], both[:, inputs:]))
            start = end
        self.layers = self._views
        if precision == "bf16":
            self.layers = [Layer(*map(_rounded, view)) for view in self._views[:-1]]
            self.layers.append(self._views[-1])

    def refresh(self) -> None:
        """Set the layers from `values`."""
        if self.layers is not self._views:
            _copy_layers(self._views[:-1], self.layers[:-1])

    def collect(self) -> None:
        """Set `values` from the layers."""
        if self.layers is not self._views:
            _copy_layers(self.layers[:-1], self._views[:-1])


class DenseStack:
    """The buffers of K networks on batches of a fixed number of rows.

    The last layer is in float32 with any precision: in the 8 bits of bf16, values of some hundreds
    would be apart by as much as a step's reward.
    """

    def __init__(
        self,
        count: int,
        rows: int,
        sizes: tuple[int, ...],
        hidden: Hidden,
        precision: Precision = "fp32",
        device: torch.device | None = None,
    ):
        kind = torch.float32 if precision == "fp32" else torch.bfloat16
        self.sizes = sizes
        self.kind = kind
        self._hidden: Hidden = hidden
        shapes = [(count, rows, size) for size in sizes[1:]]
        kinds = [*[kind] * (len(shapes) - 1), torch.float32]
        self._outputs = [
            torch.empty(shape, dtype=own, device=device)
            for shape, own in zip(shapes, kinds, strict=True)
        ]
        self._gradients = [torch.empty(shape, dtype=kind, device=device) for shape in shapes[:-1]]
        self._inputs: Tensor | None = None
        self._minus_one = -torch.ones((), dtype=kind, device=device)
        self._plain = precision == "fp32" and device is None
        self._widened = precision == "bf16" and not multiplies_bf16()

    def forward(self, inputs: Tensor, parameters: StackVector) -> Tensor:
        """Return outputs `[K, rows, O]` float32, valid until the next call, of `[K, rows, I]`."""
        self._inputs = values = inputs
        last = len(self._outputs) - 1
        for number, (layer, out) in enumerate(zip(parameters.layers, self._outputs, strict=True)):
            self._multiply(values, layer.weights, out, layer.biases)
            if number < last:
                self._activate(out)
            values = out
        return values

    def backward(
        self,
        output_gradient: Tensor,
        parameters: StackVector,
        gradient: StackVector | None,
        into_inputs: tuple[int, Tensor] | None = None,
    ) -> None:
        """Propagate `[K, rows, O]` float32 back through the latest `forward`.

        Fills `gradient` (None: the parameters are frozen) and, for (first, array), the gradient of
        the inputs from column `first` on.
        """
        assert self._inputs is not None, "there is a forward pass to go back through"
        current = output_gradient
        for number in reversed(range(len(self._outputs))):
            layer = parameters.layers[number]
            below = self._outputs[number - 1] if number else self._inputs
            if gradient is not None:
                into = gradient.layers[number]
                self._multiply(below.transpose(1, 2), current, into.weights)
                torch.sum(current, 1, keepdim=True, out=into.biases)
            if number:
                following = self._gradients[number - 1]
                self._multiply(current, layer.weights.transpose(1, 2), following)
                self._through_activation(following, below)
                current = following
            elif into_inputs is not None:
                first, array = into_inputs
                self._multiply(current, layer.weights[:, first:].transpose(1, 2), array)

    def _multiply(
        self, left: Tensor, right: Tensor, out: Tensor, biases: Tensor | None = None
    ) -> None:
        if self._widened or not left.dtype == right.dtype == out.dtype:
            left, right = left.float(), right.float()
            if biases is None:
                out.copy_(torch.bmm(left, right))
            else:
                out.copy_(torch.baddbmm(biases.float(), left, right))
        elif self._plain and onednn_pays(left.shape[1], left.shape[2], right.shape[2]):
            for number, result in enumerate(out):
                added = None if biases is None else biases[number, 0]
                multiply_by_onednn(left[number], right[number], result, added)
        elif biases is None:
            torch.bmm(left, right, out=out)
        else:
            torch.baddbmm(biases, left, right, out=out)

    def _activate(self, values: Tensor) -> None:
        if self._hidden == "relu":
            values.clamp_min_(0.0)
        elif self._hidden == "leaky-relu":
            _aten.leaky_relu_(values, LEAK)
        else:
            tanh_(values, self._minus_one)

    def _through_activation(self, gradient: Tensor, outputs: Tensor) -> None:
        if self._hidden == "relu":
            _aten.threshold_backward.grad_input(gradient, outputs, 0.0, grad_input=gradient)
        elif self._hidden == "leaky-relu":
            # A leaky ReLU keeps the sign, so its output replaces its input here.
            _aten.leaky_relu_backward.grad_input(gradient, outputs, LEAK, True, grad_input=gradient)
        else:
            _aten.tanh_backward.grad_input(gradient, outputs, grad_input=gradient)


def _rounded(values: Tensor) -> Tensor:
    return values.to(torch.bfloat16, memory_format=torch.contiguous_format)


def _copy_layers(source: list[Layer], into: list[Layer]) -> None:
    for layer, other in zip(source, into, strict=True):
        other.weights.copy_(layer.weights)
        other.biases.copy_(layer.biases)


def multiplies_bf16() -> bool:
    """Return whether torch multiplies bf16 matrices with instructions made for it.

    Without them, torch's own loops take 8 times as long as widening both factors to float32,
    multiplying them and rounding the product: the same rounding, sums in another order.
    """
    return bool(_mkldnn._is_mkldnn_bf16_supported())


def tanh_(values: Tensor, minus_one: Tensor) -> Tensor:
    """tanh(x) = 2σ(2x) − 1 in place, to 2e-7, in a third of the time of torch's own (AVX2).

    In bf16 the difference would have steps of 1/128 around 0, so that is torch's own.
    """
    if values.dtype != torch.float32:
        return values.tanh_()
    values.mul_(2.0).sigmoid_()
    return torch.add(minus_one, values, alpha=2.0, out=values)
