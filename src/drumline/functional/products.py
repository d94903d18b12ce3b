"""Products of float32 matrices on the host by the quicker of torch's two libraries.

torch multiplies by MKL, whose kernels for processors other than Intel's have no AVX-512. oneDNN,
which torch has for convolutions, has them: there a product of 256 x 256 matrices takes half as
long. Its bits depend on shapes alone, neither on threads nor on where an array begins.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (torch's own annotations are incomplete)

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

_LEAST = 1 << 21
"""Multiplications from which oneDNN is the quicker one (measured); fewer take MKL."""
_NARROW = 16
"""Rows or columns below which MKL has kernels of its own."""


@cache
def takes_onednn() -> bool:
    """Return whether large products go to oneDNN, by the processor and torch's build alone."""
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    built = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    return wide and built and hasattr(_mkldnn, "_linear_pointwise") and _maker() != "GenuineIntel"


def onednn_pays(rows: int, inner: int, columns: int) -> bool:
    """Return whether oneDNN is quicker with a product `[rows, inner]` · `[inner, columns]`."""
    large = rows * inner * columns >= _LEAST and min(rows, inner, columns) >= _NARROW
    return large and takes_onednn()


def multiply_by_onednn(
    left: Tensor, right: Tensor, out: Tensor, biases: Tensor | None = None
) -> None:
    """Set `out` `[m, n]` to `left` `[m, k]` · `right` `[k, n]`, plus `biases` `[n]` if given."""
    out.copy_(_by_onednn(left, right.t(), biases))


def quicken(module: nn.Module) -> nn.Module:
    """Let the linear layers of a module in float32 multiply by the quicker library."""
    if takes_onednn():
        for part in module.modules():
            if type(part) is nn.Linear:
                part.__class__ = _Linear
    return module


class _Linear(nn.Linear):
    """A layer for batches `[N, inputs]` whose large products are oneDNN's."""

    def forward(self, input: Tensor) -> Tensor:
        """Return outputs `[N, outputs]`."""
        bias: Any = self.bias  # None without one, which torch's annotations leave out
        plain = input.dim() == 2 and input.dtype == torch.float32 and bias is not None
        if plain and onednn_pays(len(input), self.in_features, self.out_features):
            return _Layer.apply(input, self.weight, bias)  # pyright: ignore
        return super().forward(input)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        context.save_for_backward(inputs, weight)
        return _by_onednn(inputs, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:  # pyright: ignore
        inputs, weight = context.saved_tensors
        below = _by_onednn(gradient, weight.t()) if context.needs_input_grad[0] else None
        return below, _by_onednn(gradient.t(), inputs.t()), gradient.sum(0)


_mkldnn: Any = torch.ops.mkldnn


def _by_onednn(left: Tensor, transposed: Tensor, biases: Tensor | None = None) -> Tensor:
    """Return `[m, n]` of `[m, k]` and the transposed right factor `[n, k]`."""
    return _mkldnn._linear_pointwise(left, transposed, biases, "none", [], "")


def _maker() -> str:
    """Return the maker of the processor as the kernel names it; Intel where it names none."""
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("vendor_id"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return "GenuineIntel"
