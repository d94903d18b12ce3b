"""Parameters of a torch module as one flat vector, in the order of their registration."""

import numpy as np
import torch
from torch import Tensor, nn


class FlatParameters:
    """A module whose parameters and gradients are views of two flat float32 vectors `[P]`.

    With `values` it shares the parameters of another; its gradient is its own.
    """

    def __init__(self, module: nn.Module, values: Tensor | None = None):
        self.module = module
        parameters = list(module.parameters())
        size = sum(parameter.numel() for parameter in parameters)
        self.values = torch.empty(size) if values is None else values
        self.gradient = torch.zeros(size)
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            view = self.values[start:end].view_as(parameter)
            if values is None:
                with torch.no_grad():
                    view.copy_(parameter)
            parameter.data = view
            parameter.grad = self.gradient[start:end].view_as(parameter)
            start = end

    def load(self, vector: np.ndarray) -> None:
        """Copy the parameters `[P]`."""
        if vector.shape != (self.values.numel(),):
            raise ValueError(
                f"this network has {self.values.numel()} parameters, got {list(vector.shape)}"
            )
        self.values.copy_(torch.from_numpy(np.array(vector, dtype=np.float32)))
