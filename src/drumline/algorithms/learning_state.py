"""State of a learner: live parameters, the optimiser, and its running statistics."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

import copy
import math

import numpy as np

from drumline.algorithms.torch_optimizers import TorchOptimizer
from drumline.functional.torch_devices import host_array
from drumline.policies.vector import FlatParameters
from drumline.types import State


class UnfiniteLoss(FloatingPointError):
    """A loss or gradient is NaN or infinite; the state was not changed."""


class LearningState:
    """The live parameters and their optimiser, saved and loaded together."""

    def __init__(self, live: FlatParameters, optimizer: TorchOptimizer):
        self._live = live
        self.optimizer = optimizer

    def published(self) -> dict[str, np.ndarray]:
        """Return the live parameters, in place where the host has them; a crew copies them."""
        return {"parameters": host_array(self._live.values)}

    def state(self, more: State) -> State:
        """Return copies of parameters and optimiser, with the entries of `more`."""
        tensors = {"parameters": host_array(self._live.values).copy(), **self.optimizer.tensors()}
        counters: dict[str, int | float] = {"gradient_steps": self.optimizer.steps}
        return State.merged(State(tensors, counters), more)

    def load(self, state: State) -> None:
        """Load parameters and optimiser."""
        parameters, steps = state.tensor("parameters"), int(state.counter("gradient_steps"))
        self._live.load(parameters)
        self.optimizer.load(state.tensors, steps)

    def saved(self) -> TorchOptimizer:
        """Return a copy of the optimiser where it is, for `restore`."""
        return copy.deepcopy(self.optimizer)

    def restore(self, saved: TorchOptimizer) -> None:
        """Go on with the optimiser that `saved` returned."""
        self.optimizer = saved

    @staticmethod
    def refuse_unfinite(norm: float, where: str) -> None:
        """Raise UnfiniteLoss before a NaN reaches the parameters."""
        if not math.isfinite(norm):
            raise UnfiniteLoss(
                f"the gradient of {where} is not finite; the parameters are as they were before. "
                "Look at rewards and observations, or lower --learning-rate"
            )
