"""Toy searches by ask and tell, for every steady-state strategy."""

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.algorithms.individuals import live
from drumline.types import Individual

Fitness = Callable[[np.ndarray], float]


def sphere(vector: np.ndarray) -> float:
    """The fittest vector is all ones, with fitness 0."""
    return -float(np.square(vector.astype(np.float64) - 1.0).sum())


def search(
    strategy: Any,
    fitness: Fitness,
    tells: int,
    *,
    in_flight: int = 1,
    measure_mean: bool = True,
    rng: np.random.Generator | None = None,
) -> list[dict[str, float]]:
    """A steady-state loop with `in_flight` candidates always out; the oldest is told unless `rng`.

    Returns the metrics of each tell.
    """
    waiting: deque[Any] = deque()
    rows: list[dict[str, float]] = []
    while len(rows) < tells:
        waiting.extend(strategy.ask(in_flight - len(waiting)))
        waiting.rotate(-int(rng.integers(len(waiting))) if rng is not None else 0)
        candidate = waiting.popleft()
        mean_fitness = fitness(strategy.parameters) if measure_mean else None
        rows.append(strategy.tell([live(candidate, fitness(candidate.vector), mean_fitness)]))
    return rows


def told(*values: float, fitness: float, mean: float | None = 0.0, index: int = 0) -> Individual:
    """An individual asked before anything was told."""
    return Individual(index, 0, np.array(values, np.float32), fitness, mean)


def same_state(one: Any, other: Any) -> bool:
    """Whether two strategies' states have the same bits."""
    left, right = one.state(), other.state()
    assert left.tensors.keys() == right.tensors.keys()
    return left.counters == right.counters and all(
        tensor.tobytes() == right.tensors[name].tobytes() for name, tensor in left.tensors.items()
    )
