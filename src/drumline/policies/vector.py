"""Parameters of a torch module as one flat vector, in the order of their registration."""

import numpy as np
import torch
from torch import Tensor, nn

from drumline.policies.own_modules import move_constants


class FlatParameters:
    """A module whose parameters and gradients are views of two flat float32 vectors `[P]`.

    With `values` it shares the parameters of another; its gradient is its own. On a `device` the
    module gets new parameters there, and its constants are moved.
    """

    def __init__(
        self,
        module: nn.Module,
        values: Tensor | None = None,
        *,
        device: torch.device | None = None,
    ):
        self.module = module
        if device is not None:
            move_constants(module, device)
        named = list(module.named_parameters())
        size = sum(parameter.numel() for _, parameter in named)
        self.values = torch.empty(size, device=device) if values is None else values
        self.gradient = torch.zeros(size, device=self.values.device)
        start = 0
        for name, parameter in named:
            end = start + parameter.numel()
            view = self.values[start:end].view_as(parameter)
            if values is None:
                with torch.no_grad():
                    view.copy_(parameter)
            if device is None:
                parameter.data = view
            else:
                parameter = _replaced(module, name, view)
            parameter.grad = self.gradient[start:end].view_as(parameter)
            start = end

    def load(self, vector: np.ndarray) -> None:
        """Copy the parameters `[P]`."""
        if vector.shape != (self.values.numel(),):
            raise ValueError(
                f"this network has {self.values.numel()} parameters, got {list(vector.shape)}"
            )
        self.values.copy_(torch.from_numpy(np.array(vector, dtype=np.float32)))


def _replaced(module: nn.Module, name: str, view: Tensor) -> nn.Parameter:
    """Give the module another parameter of this name, and of its other names where it has some.

    Data of another device cannot be set.
    """
    before = module.get_parameter(name)
    made = nn.Parameter(view, requires_grad=before.requires_grad)
    for owner in module.modules():
        for own, parameter in list(owner.named_parameters(recurse=False, remove_duplicate=False)):
            if parameter is before:
                setattr(owner, own, made)
    return made
