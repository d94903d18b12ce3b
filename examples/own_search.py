"""PEPG with symmetric sampling: a search of one's own, with an update that Drumline lacks.

    cd examples && drumline train own_search:PEPG CartPole-v1

Sehnke, Osendorfer, Rückstieß, Graves, Peters & Schmidhuber, *Parameter-exploring policy gradients*,
Neural Networks 23 (2010), with symmetric sampling (§2.5): the mean μ [P] and the std σ [P] of a
Gaussian over policy parameters both follow the gradient of the expected return. Generation g draws
n deviations dᵢ = σ ∘ εᵢ and runs one episode of μ + dᵢ and one of μ − dᵢ, with returns rᵢ⁺ and rᵢ⁻:

    μ ← μ + α_μ (1/n) Σᵢ dᵢ (rᵢ⁺ − rᵢ⁻) / (2 s)
    σ ← σ + α_σ (1/n) Σᵢ ((dᵢ² − σ²) / σ) ((rᵢ⁺ + rᵢ⁻) / 2 − b) / s
    b ← (1 − β) b + β r̄

s is the std of the generation's returns, where the paper divides by the highest return seen less
the pair's. b is the baseline, the decaying mean of the returns; it is r̄ itself at first. A σ
changes by at most a fifth per generation. Equal returns say nothing and change nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from drumline import seeding
from drumline.algorithms.candidate_generations import POPULATION, return_summary
from drumline.algorithms.mirrored import in_order
from drumline.recipes.learned_actor import learned_actor
from drumline.recipes.refused_values import refuse_negative, refuse_nonpositive, refuse_outside_unit
from drumline.schedules.generational import GenerationPlan
from drumline.tasks import Evaluate, Evaluation
from drumline.training.generational_run import GenerationalRecipe
from drumline.training.layout import Layout
from drumline.types import Metrics, State
from drumline.workers.evaluator import EvaluatorSpec


@dataclass(frozen=True)
class PEPG:
    """Parameter-exploring policy gradients. Every field is an argument of the result."""

    env: str
    """Gymnasium id, EnvPool id, or module:factory."""
    seed: int = 0
    """Root of every random stream."""
    total_steps: int = 200_000
    """Train until this many env steps (agent decisions) have been made."""
    evaluate_every: int = 50
    """Updates between evaluations of the mean; 0: only at the end."""
    evaluate_episodes: int = 20
    """Episodes of each evaluation."""
    promise: bool = True
    """Run the first episode again and stop if its bits differ."""
    engine: Literal["auto", "gymnasium", "envpool"] = "auto"
    """auto: Gymnasium if it has the id, else EnvPool."""
    frame_skip: int = 1
    """Frames for which each action is repeated."""
    hidden: tuple[int, ...] = (16, 16)
    """Sizes of the policy's tanh layers."""
    population_size: int = 20
    """Episodes per generation: two for each deviation, so even."""
    initial_std: float = 0.3
    """σ of every parameter at the start."""
    mean_rate: float = 1.0
    """α_μ."""
    std_rate: float = 0.1
    """α_σ."""
    baseline_rate: float = 0.1
    """β."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "CartPole-v1": {"total_steps": 100_000, "evaluate_every": 10},
    }

    def __post_init__(self) -> None:
        if self.population_size < 2 or self.population_size % 2:
            raise ValueError(
                f"--population-size must be even and at least 2, got {self.population_size}"
            )
        refuse_nonpositive(self, "total_steps", "frame_skip", "evaluate_episodes", "initial_std")
        refuse_negative(self, "evaluate_every", "mean_rate", "std_rate")
        refuse_outside_unit(self, "baseline_rate")

    def build(self, layout: Layout) -> GenerationalRecipe:
        """Put the parts together; what the layout says must not change a bit."""
        actor = learned_actor(self)
        return GenerationalRecipe(
            config=self,
            strategy=SymmetricSearch(self, actor.first_parameters(self.seed)),
            plan=GenerationPlan(self.population_size, rehearse=self.promise),
            worker=EvaluatorSpec(actor.environment, actor.policy, noise_seed=self.seed),
            policy=actor.policy,
            not_policy=(POPULATION,),
        )


class SymmetricSearch:
    """The strategy: asks for episodes, is told their returns, and moves μ, σ and b."""

    def __init__(self, config: PEPG, mean: np.ndarray):
        self._config = config
        self._mean = mean.astype(np.float32)
        self._std = np.full_like(self._mean, config.initial_std)
        self._baseline = 0.0
        self._generation = 0

    def ask(self, count: int) -> Sequence[Evaluate]:
        """Return the tasks of this generation's members: a member is its row of the population."""
        seeds = seeding.seeds(self._config.seed, count, "episode", self._generation)
        return [
            Evaluate(
                version=self._generation,
                member=member,
                sign=0,  # the row is run as it is published: no noise is added by the worker
                noise_key=0,
                seed=seeds[member],
                std=0.0,
                episode_cap=0,
                contributes=False,
                training=True,
            )
            for member in range(count)
        ]

    def tell(self, results: Sequence[Evaluation]) -> Metrics:
        """Take one step from a whole generation, in whatever order its results are given."""
        ordered = in_order(results, self._generation)
        returns = np.array([result.fitness for result in ordered])
        scale, mean_return = float(returns.std()), float(returns.mean())
        deviations = self._deviations()
        if self._generation == 0:
            self._baseline = mean_return
        equal = bool(np.all(returns == returns[0]))  # their std need not be 0 then
        if not equal:
            plus, minus = returns[0::2], returns[1::2]
            std = self._std.astype(np.float64)
            slopes = deviations * ((plus - minus) / (2 * scale))[:, None]
            spreads = (deviations**2 - std**2) / std
            spreads *= (((plus + minus) / 2 - self._baseline) / scale)[:, None]
            self._mean = (self._mean + self._config.mean_rate * slopes.mean(axis=0)).astype("<f4")
            step = self._config.std_rate * spreads.mean(axis=0)
            self._std = (std + np.clip(step, -0.2 * std, 0.2 * std)).astype("<f4")
        self._baseline += self._config.baseline_rate * (mean_return - self._baseline)
        self._generation += 1
        return {
            **return_summary(ordered),
            "baseline": self._baseline,
            "std_mean": float(self._std.mean(dtype=np.float64)),
            "parameter_norm": float(np.sqrt(np.square(self._mean, dtype=np.float64).sum())),
            "update_skipped": float(equal),
        }

    def published(self) -> Mapping[str, np.ndarray]:
        """Return μ, σ and this generation's population [N, P]: rows 2i and 2i + 1 are μ ± dᵢ."""
        deviations = self._deviations()
        population = np.repeat(self._mean[None], 2 * len(deviations), axis=0)
        population[0::2] += deviations
        population[1::2] -= deviations
        return {"parameters": self._mean.copy(), "std": self._std.copy(), POPULATION: population}

    def state(self) -> State:
        """Return everything learned; deviations are not: they follow from σ and their name."""
        counters: dict[str, int | float] = {
            "generation": self._generation,
            "baseline": self._baseline,
        }
        return State({"mean": self._mean.copy(), "std": self._std.copy()}, counters)

    def load(self, state: State) -> None:
        """Take over a state."""
        self._mean = state.tensor("mean", like=self._mean)
        self._std = state.tensor("std", like=self._std)
        self._baseline = float(state.counter("baseline"))
        self._generation = int(state.counter("generation"))

    def _deviations(self) -> Any:
        """Return d = σ ∘ ε [n, P] of this generation; its stream is named, never continued."""
        rng = seeding.generator(self._config.seed, "pepg-deviations", self._generation)
        pairs = self._config.population_size // 2
        return self._std * rng.standard_normal((pairs, self._mean.size), dtype=np.float32)
