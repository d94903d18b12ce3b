"""What a learner's state consists of: live parameters, the optimiser, and what it carries along."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

import math

import numpy as np

from drumline.algorithms.torch_optimizers import TorchOptimizer
from drumline.policies.vector import FlatParameters
from drumline.types import State


class UnfiniteLoss(FloatingPointError):
    """A loss or gradient is NaN or infinite: nothing was changed by it."""


class LearningState:
    """The live parameters and their optimiser, as one state."""

    def __init__(self, live: FlatParameters, optimizer: TorchOptimizer):
        self._live = live
        self.optimizer = optimizer

    def published(self) -> dict[str, np.ndarray]:
        """Return the live parameters, in place: a crew copies them."""
        return {"parameters": self._live.values.numpy()}

    def state(self, more: State) -> State:
        """Return copies of parameters and optimiser beside `more`."""
        tensors = {"parameters": self._live.values.numpy().copy(), **self.optimizer.tensors()}
        counters: dict[str, int | float] = {"gradient_steps": self.optimizer.steps}
        return State.merged(State(tensors, counters), more)

    def load(self, state: State) -> None:
        """Take over parameters and optimiser."""
        parameters, steps = state.tensor("parameters"), int(state.counter("gradient_steps"))
        self._live.load(parameters)
        self.optimizer.load(state.tensors, steps)

    def saved(self) -> tuple[dict[str, np.ndarray], int]:
        """Return a copy of the optimiser's state, for `restore`."""
        return self.optimizer.tensors(), self.optimizer.steps

    def restore(self, saved: tuple[dict[str, np.ndarray], int]) -> None:
        """Put the optimiser back."""
        self.optimizer.load(*saved)

    @staticmethod
    def refuse_unfinite(norm: float, where: str) -> None:
        """Raise before a NaN reaches the parameters."""
        if not math.isfinite(norm):
            raise UnfiniteLoss(
                f"the gradient of {where} is not finite; the parameters are as they were before. "
                "Look at rewards and observations, or lower --learning-rate"
            )
