"""Names of searches other than AsyncES, turned into strategies of the steady-state loop."""

from dataclasses import dataclass

import numpy as np

from drumline.algorithms.candidate_generations import CandidateStrategy
from drumline.algorithms.external import External
from drumline.algorithms.optimizer_calls import OptimizerFactory
from drumline.algorithms.optimizer_packages import cma_factory, named_factory, nevergrad_factory
from drumline.algorithms.optimizers import Adam
from drumline.algorithms.snes import SNES
from drumline.algorithms.steady_openai_es import SteadyOpenAIES

ASYNC_ES = "async-es"
"""Name of the default strategy, which `make_strategy` does not make: it has its own rules."""
STRATEGIES = (ASYNC_ES, "snes", "openai-es", "cma", "sep-cma", "nevergrad:NAME", "module:factory")


@dataclass(frozen=True)
class StrategyNumbers:
    """Numbers of the strategies; each strategy reads those that it uses."""

    std: float
    """σ of the first candidates."""
    budget: int
    """Individuals that the run will tell, roughly; some of Nevergrad's optimisers plan by it."""
    population_size: int = 40
    """openai-es: individuals per step."""
    learning_rate: float = 0.01
    """openai-es: step size of Adam."""
    weight_decay: float = 0.005
    """openai-es: coupled L2."""


def make_strategy(
    name: str, start: np.ndarray, numbers: StrategyNumbers, *, seed: int, promise: bool = True
) -> CandidateStrategy:
    """Return the strategy of a name, starting at the vector `start`.

    With `promise`, a user's own strategy must ask for the same vectors when it is made again.
    """
    if name == "snes":
        return SNES(start, seed=seed, initial_std=numbers.std)
    if name == "openai-es":
        adam = Adam(
            start.size, learning_rate=numbers.learning_rate, weight_decay=numbers.weight_decay
        )
        return SteadyOpenAIES(
            start, adam, seed=seed, population_size=numbers.population_size, std=numbers.std
        )
    make = _factory(name, numbers)
    strategy = External(start, make, seed=seed, name=f"--strategy {name!r}")
    if promise and name not in ("cma", "sep-cma") and not name.startswith("nevergrad:"):
        strategy.rehearse()
    return strategy


def _factory(name: str, numbers: StrategyNumbers) -> OptimizerFactory:
    if name in ("cma", "sep-cma"):
        return cma_factory(std=numbers.std, full_covariance=name == "cma")
    library, _, optimizer = name.partition(":")
    if not (library and optimizer):
        raise ValueError(f"--strategy must be one of {', '.join(STRATEGIES)}; got {name!r}")
    if library == "nevergrad":
        return nevergrad_factory(optimizer, std=numbers.std, budget=numbers.budget)
    return named_factory(name)
