"""Optimisers with state, for one ascending step per generation."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

from drumline.functional.gradient_steps import adam_step, momentum_step
from drumline.types import State


@runtime_checkable
class Optimizer(Protocol):
    """An optimiser from ascent directions to parameters; its state is part of the checkpoint."""

    def step(
        self,
        parameters: Float32[np.ndarray, " P"],
        ascent: Float32[np.ndarray, " P"],
        scale: float = 1.0,
    ) -> Float32[np.ndarray, " P"]:
        """Return the new parameters, with the step size times `scale`."""
        ...

    def state(self) -> State:
        """Return copies of all state."""
        ...

    def load(self, state: State) -> None:
        """Load a state."""
        ...


class Adam:
    """Adam with coupled L2, as in OpenAI-ES's reference code."""

    def __init__(self, parameter_count: int, *, learning_rate: float, weight_decay: float):
        self._first = np.zeros(parameter_count, dtype=np.float32)
        self._second = np.zeros(parameter_count, dtype=np.float32)
        self._count = 0
        self._learning_rate = learning_rate
        self._weight_decay = weight_decay

    def step(
        self,
        parameters: Float32[np.ndarray, " P"],
        ascent: Float32[np.ndarray, " P"],
        scale: float = 1.0,
    ) -> Float32[np.ndarray, " P"]:
        """Return θ after one Adam step on −g + λθ."""
        self._count += 1
        parameters, self._first, self._second = adam_step(
            parameters,
            ascent,
            self._first,
            self._second,
            self._count,
            learning_rate=self._learning_rate * scale,
            weight_decay=self._weight_decay,
        )
        return parameters

    def state(self) -> State:
        """Return both moment estimates and the step count."""
        return State(
            {"adam_first": self._first.copy(), "adam_second": self._second.copy()},
            {"adam_count": self._count},
        )

    def load(self, state: State) -> None:
        """Load both moment estimates and the step count."""
        self._first = state.tensor("adam_first", like=self._first)
        self._second = state.tensor("adam_second", like=self._second)
        self._count = int(state.counter("adam_count"))


class SGD:
    """Gradient ascent with momentum, as in OpenAI-ES's reference code."""

    def __init__(
        self,
        parameter_count: int,
        *,
        learning_rate: float,
        weight_decay: float = 0.0,
        momentum: float = 0.9,
    ):
        self._velocity = np.zeros(parameter_count, dtype=np.float32)
        self._learning_rate = learning_rate
        self._weight_decay = weight_decay
        self._momentum = momentum

    def step(
        self,
        parameters: Float32[np.ndarray, " P"],
        ascent: Float32[np.ndarray, " P"],
        scale: float = 1.0,
    ) -> Float32[np.ndarray, " P"]:
        """Return θ after one step with momentum on −g + λθ."""
        parameters, self._velocity = momentum_step(
            parameters,
            ascent,
            self._velocity,
            learning_rate=self._learning_rate * scale,
            weight_decay=self._weight_decay,
            momentum=self._momentum,
        )
        return parameters

    def state(self) -> State:
        """Return the velocity."""
        return State({"velocity": self._velocity.copy()})

    def load(self, state: State) -> None:
        """Load the velocity."""
        self._velocity = state.tensor("velocity", like=self._velocity)
