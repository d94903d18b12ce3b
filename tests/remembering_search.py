"""An ask/tell optimiser of a user's with a state of its own."""

from typing import Any

import numpy as np


class Remembers:
    """A user's own optimiser that says and takes over its state; its draws are counted."""

    def __init__(self, start: np.ndarray, seed: int):
        self.best, self.fitness, self.asked, self.seed = start, -np.inf, 0, seed
        self.heard = 0

    def ask(self) -> np.ndarray:
        self.asked += 1
        noise = np.random.default_rng((self.seed, self.asked)).standard_normal(self.best.size)
        return self.best + 0.3 * noise

    def tell(self, vector: np.ndarray, fitness: float) -> None:
        self.heard += 1
        if fitness > self.fitness:
            self.best, self.fitness = vector, fitness

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "fitness": self.fitness, "asked": self.asked}

    def load(self, state: dict[str, Any]) -> None:
        self.best, self.fitness, self.asked = state["best"], state["fitness"], state["asked"]
