"""Optimisers of other packages for `External`: pycma, Nevergrad, and a user's own factory."""

import importlib
import math
from typing import Any

import numpy as np
from jaxtyping import Float32

from drumline import seeding
from drumline.algorithms.optimizer_calls import (
    OptimizerFactory,
    RefusesRefined,
    VectorOptimizer,
)
from drumline.errors import import_named, raised
from drumline.types import Metrics

LARGEST_FULL_COVARIANCE_BYTES = 2 << 30


def cma_factory(*, std: float, full_covariance: bool) -> OptimizerFactory:
    """CMA-ES of the package cma (Hansen & Ostermeier 2001), or sep-CMA-ES (Ros & Hansen 2008)."""
    cma = _package("cma", extra="cma")

    def make(start: Float32[np.ndarray, " P"], seed: int) -> VectorOptimizer:
        if start.size < 2:
            name = "cma" if full_covariance else "sep-cma"
            raise ValueError(
                f"--strategy {name} searches 2 parameters or more, got {start.size}: "
                "--strategy snes takes one"
            )
        needed = 8 * start.size**2
        if full_covariance and needed > LARGEST_FULL_COVARIANCE_BYTES:
            raise ValueError(
                f"cma keeps a full covariance matrix: {needed / 2**30:.1f} GiB for "
                f"{start.size} parameters (limit {LARGEST_FULL_COVARIANCE_BYTES / 2**30:.0f} GiB); "
                "use --strategy sep-cma, smaller layers with --hidden, or --policy linear"
            )
        return _CMA(cma, start, seed, std, full_covariance)

    return make


class _CMA:
    """pycma with one vector asked at a time and an update for every λ told."""

    def __init__(
        self, cma: Any, start: Float32[np.ndarray, " P"], seed: int, std: float, full: bool
    ):
        rng = seeding.generator(seed, "cma")

        def normals(*shape: int) -> np.ndarray:
            return rng.standard_normal(shape)

        self._full = full
        self._search = cma.CMAEvolutionStrategy(
            start.astype(np.float64),
            std,
            {
                "seed": math.nan,  # leaves NumPy's global generator alone
                "randn": normals,
                "CMA_diagonal": not full,
                # The two-point rule, pycma's default from 300 parameters on, needs two samples of
                # its own back in their places, which results in any order do not give.
                "AdaptSigma": cma.sigma_adaptation.CMAAdaptSigmaCSA,
                "verbose": -9,
            },
        )
        self._told: list[np.ndarray] = []
        self._costs: list[float] = []

    def ask(self) -> np.ndarray:
        """Return a sample of the newest distribution."""
        return self._search.ask(1)[0]

    def tell(self, vector: np.ndarray, fitness: float) -> None:
        """Update with a vector; pycma itself shortens one that it has not asked for."""
        self._told.append(vector)
        self._costs.append(-fitness)
        if len(self._told) == self._search.popsize:
            self._search.tell(self._told, self._costs)
            self._told, self._costs = [], []

    def recommend(self) -> np.ndarray:
        """Return the mean."""
        return self._search.mean

    def metrics(self) -> Metrics:
        """Return √ of the mean variance of the coordinates, and the covariance's condition."""
        stds = self._search.stds
        condition = (
            self._search.condition_number if self._full else float(stds.max() / stds.min()) ** 2
        )
        return {
            "sampling_std": math.sqrt(float(np.square(stds).mean())),
            "condition_number": float(condition),
        }


_DRAWN_AT_IMPORT = ("PolyLN",)
_OTHERS = "DE, PSO, OnePlusOne, CMA or TBPSA"


def nevergrad_factory(optimizer: str, *, std: float, budget: int) -> OptimizerFactory:
    """Any optimiser of Nevergrad's registry; `budget` is the expected number of individuals."""
    nevergrad = _package("nevergrad", extra="nevergrad")
    registry = nevergrad.optimizers.registry
    if optimizer not in registry:
        near = [name for name in sorted(registry) if optimizer.lower() in name.lower()][:8]
        raise ValueError(
            f"Nevergrad has no optimizer {optimizer!r}; "
            f"it has {', '.join(near or ['DE', 'PSO', 'OnePlusOne', 'CMA', 'TBPSA'])} and others"
        )
    if optimizer in _DRAWN_AT_IMPORT:
        raise ValueError(
            f"Nevergrad draws the settings of {optimizer} in every process anew: take another, "
            f"such as {_OTHERS}"
        )
    found = registry[optimizer]
    parts: list[Any] = getattr(found, "_config", {}).get("optimizers") or []
    for one in [found, *parts]:
        if getattr(one, "no_parallelization", False):
            its = "" if one is found else f" is a portfolio with {one.name}, which"
            raise ValueError(
                f"Nevergrad's {optimizer}{its} asks for one vector after the other was told, and "
                f"several are out at once here: take another, such as {_OTHERS}"
            )

    def make(start: Float32[np.ndarray, " P"], seed: int) -> VectorOptimizer:
        space = nevergrad.p.Array(init=start.astype(np.float64)).set_mutation(sigma=std)
        space.random_state.seed(seed)
        return _Nevergrad(nevergrad, registry[optimizer](space, budget=budget, num_workers=2))

    return make


class _Nevergrad:
    """A Nevergrad optimiser; a vector that it did not ask is told as one of the user's own."""

    def __init__(self, nevergrad: Any, optimizer: Any):
        self._unsupported = nevergrad.errors.TellNotAskedNotSupportedError
        self._optimizer = optimizer
        self._asked: dict[bytes, list[Any]] = {}

    def ask(self) -> np.ndarray:
        """Return the next vector."""
        search = self._optimizer
        if search.one_shot and search.num_ask >= search.budget:
            raise ValueError(
                f"{search.name} lays out all its vectors beforehand, and its {search.budget} are "
                "spent: give a larger --strategy-budget, for shorter episodes than 100 env steps"
            )
        candidate = search.ask()
        self._asked.setdefault(candidate.value.tobytes(), []).append(candidate)
        return candidate.value

    def discard(self, vector: np.ndarray) -> Any:
        """Return the candidate of an asked vector, which is no longer in flight."""
        candidates = self._asked[vector.tobytes()]
        candidate = candidates.pop()
        if not candidates:
            del self._asked[vector.tobytes()]
        return candidate

    def tell(self, vector: np.ndarray, fitness: float) -> None:
        """Update with a vector."""
        if vector.tobytes() in self._asked:
            candidate = self.discard(vector)
        else:
            candidate = self._optimizer.parametrization.spawn_child(new_value=vector)
        try:
            self._optimizer.tell(candidate, -fitness)
        except self._unsupported as error:
            raise RefusesRefined(
                f"Nevergrad's {self._optimizer.name} learns only from vectors that it asked for, "
                "not from refined ones: set --p-desired 0"
            ) from error

    def recommend(self) -> np.ndarray:
        """Return Nevergrad's recommendation."""
        return self._optimizer.provide_recommendation().value


def named_factory(path: str) -> OptimizerFactory:
    """Return a user's `module:factory`: called with (start vector, seed), returns an optimiser."""
    module_name, _, name = path.partition(":")
    module = import_named(f"--strategy {path!r}", module_name)
    factory = getattr(module, name, None)
    if not callable(factory):
        raise ValueError(f"--strategy {path!r}: {module_name!r} has no callable {name!r}")

    def make(start: Float32[np.ndarray, " P"], seed: int) -> VectorOptimizer:
        try:
            made = factory(start, seed)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            raise ValueError(
                f"--strategy {path!r} cannot be made: {raised(error, __file__)}"
            ) from error
        if not isinstance(made, VectorOptimizer):
            raise ValueError(
                f"--strategy {path!r} returned {type(made).__name__}, which has no ask() and "
                "tell(vector, fitness)"
            )
        return made

    return make


def _package(name: str, *, extra: str) -> Any:
    """Import an optional package when its strategy is used."""
    try:
        with seeding.kept_globals():  # Nevergrad draws numbers while it is imported
            return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"this strategy needs the package {name} ({error}): pip install 'drumline[{extra}]'"
        ) from error
