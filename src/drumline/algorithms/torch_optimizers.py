"""Optimisers of learners: a step on one flat vector, with all their state in named tensors."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from drumline.functional.torch_devices import host_array
from drumline.functional.torch_steps import adam_step_, rmsprop_step_


@runtime_checkable  # the tests check signatures at run time
class TorchOptimizer(Protocol):
    """An optimiser that takes descending steps on one flat vector."""

    steps: int
    """Gradient steps so far."""

    def step(self, parameters: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Change the parameters in place."""
        ...

    def tensors(self) -> dict[str, np.ndarray]:
        """Return copies of the moment vectors by name."""
        ...

    def load(self, tensors: Mapping[str, np.ndarray], steps: int) -> None:
        """Load moment vectors; ValueError with the name of a missing one."""
        ...


class TorchAdam:
    """Adam (Kingma & Ba 2015) with the ε of PPO implementations."""

    def __init__(self, size: int, epsilon: float = 1e-5, *, device: torch.device | None = None):
        self.steps = 0
        self._epsilon = epsilon
        self._first = torch.zeros(size, device=device)
        self._second = torch.zeros(size, device=device)

    def step(self, parameters: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Change the parameters in place."""
        self.steps += 1
        adam_step_(
            parameters,
            gradient,
            self._first,
            self._second,
            self.steps,
            learning_rate=learning_rate,
            epsilon=self._epsilon,
        )

    def tensors(self) -> dict[str, np.ndarray]:
        """Return copies of both moments."""
        return {
            "adam_first": host_array(self._first).copy(),
            "adam_second": host_array(self._second).copy(),
        }

    def load(self, tensors: Mapping[str, np.ndarray], steps: int) -> None:
        """Load both moments."""
        _take(self._first, tensors, "adam_first")
        _take(self._second, tensors, "adam_second")
        self.steps = steps


class TorchRMSProp:
    """RMSProp without momentum (Tieleman & Hinton 2012), as in A2C's reference settings."""

    def __init__(
        self,
        size: int,
        alpha: float = 0.99,
        epsilon: float = 1e-5,
        *,
        device: torch.device | None = None,
    ):
        self.steps = 0
        self._alpha = alpha
        self._epsilon = epsilon
        self._second = torch.zeros(size, device=device)

    def step(self, parameters: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Change the parameters in place."""
        self.steps += 1
        rmsprop_step_(
            parameters,
            gradient,
            self._second,
            learning_rate=learning_rate,
            alpha=self._alpha,
            epsilon=self._epsilon,
        )

    def tensors(self) -> dict[str, np.ndarray]:
        """Return a copy of the second moment."""
        return {"rmsprop_second": host_array(self._second).copy()}

    def load(self, tensors: Mapping[str, np.ndarray], steps: int) -> None:
        """Load the second moment."""
        _take(self._second, tensors, "rmsprop_second")
        self.steps = steps


def _take(own: Tensor, tensors: Mapping[str, np.ndarray], name: str) -> None:
    if name not in tensors or tensors[name].shape != tuple(own.shape):
        raise ValueError(f"the state has no tensor {name!r} of shape {list(own.shape)}")
    own.copy_(torch.from_numpy(tensors[name].astype(np.float32)))
