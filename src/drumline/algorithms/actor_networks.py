"""TD3's actor: an MLP with its gradient written out, or a network of the user's own by autograd."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.func import functional_call

from drumline.algorithms.dense_stack import Precision
from drumline.policies.own_modules import move_constants
from drumline.policies.spec import PolicySpec
from drumline.policies.torch_module import build_module


@runtime_checkable  # the tests check signatures at run time
class NetworkVector(Protocol):
    """Flat float32 vectors `[K, P]`, and the form of them that a network computes with."""

    values: Tensor
    """[K, P], in place: call `refresh` after a change."""

    def refresh(self) -> None:
        """Set the other form from `values`."""
        ...

    def collect(self) -> None:
        """Set `values` from the other form."""
        ...


@runtime_checkable
class ActorNetwork(Protocol):
    """Forward and backward passes of one actor on batches of a fixed number of rows."""

    kind: torch.dtype

    def forward(self, inputs: Tensor, parameters: Any) -> Tensor:
        """Return outputs `[1, rows, O]`, valid until the next call; inputs are `[1, rows, D]`."""
        ...

    def backward(self, output_gradient: Tensor, parameters: Any, gradient: Any) -> None:
        """Fill `gradient` from that of the latest outputs."""
        ...


class OwnNetwork:
    """A user's module as an actor; it holds no parameters of its own in a call."""

    def __init__(
        self,
        spec: PolicySpec,
        precision: Precision,
        *,
        learns: bool,
        device: torch.device | None = None,
    ):
        self.kind = torch.float32 if precision == "fp32" else torch.bfloat16
        self._module = build_module(spec)
        if device is not None:
            move_constants(self._module, device)
        self._learns = learns
        self._leaves: dict[str, Tensor] = {}
        self._outputs: Tensor | None = None

    def forward(self, inputs: Tensor, parameters: "OwnVector") -> Tensor:
        """Return outputs `[1, rows, O]`; the graph behind them is kept for `backward`."""
        self._leaves = {
            name: part.detach().requires_grad_(self._learns and parameters.trained[name])
            for name, part in parameters.parts.items()
        }
        given = {name: leaf.to(self.kind) for name, leaf in self._leaves.items()}
        # A copy: the caller writes actions beside the observations before it goes back.
        rows = inputs[0].clone(memory_format=torch.contiguous_format)
        half = self.kind == torch.bfloat16  # casts the module's constants, which may be float32
        cast = torch.autocast("cpu", torch.bfloat16, enabled=half, cache_enabled=False)
        with torch.set_grad_enabled(self._learns), cast:
            outputs: Tensor = functional_call(self._module, given, (rows,))
        self._outputs = outputs
        return outputs.detach()[None]

    def backward(
        self, output_gradient: Tensor, parameters: "OwnVector", gradient: "OwnVector"
    ) -> None:
        """Fill `gradient`; parameters that the outputs do not depend on get 0."""
        assert self._outputs is not None, "there is a forward pass to go back through"
        trained = [name for name, leaf in self._leaves.items() if leaf.requires_grad]
        found = torch.autograd.grad(
            self._outputs,
            [self._leaves[name] for name in trained],
            output_gradient[0].to(self._outputs.dtype),
            allow_unused=True,
        )
        of_name = dict(zip(trained, found, strict=True))
        for name, part in gradient.parts.items():
            values = of_name.get(name)
            if values is None:
                part.zero_()
            else:
                part.copy_(values)
        self._outputs = None


class OwnVector:
    """A flat vector `[1, P]` as the parameters of a user's module by name, or their gradient."""

    def __init__(self, values: Tensor, spec: PolicySpec):
        self.values = values
        self.parts: dict[str, Tensor] = {}
        self.trained: dict[str, bool] = {}
        module, start = build_module(spec), 0
        count = sum(parameter.numel() for parameter in module.parameters())
        if values.shape != (1, count):
            raise ValueError(f"this network has {count} parameters, got {list(values.shape)}")
        for name, parameter in module.named_parameters():
            end = start + parameter.numel()
            self.parts[name] = values[0, start:end].view(parameter.shape)
            self.trained[name] = parameter.requires_grad
            start = end

    def refresh(self) -> None:
        """Do nothing: the parts are views of the values."""

    def collect(self) -> None:
        """Do nothing, likewise."""
