"""Other people's ask/tell optimisers as strategies: pycma, Nevergrad, and a user's own object."""

import importlib
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32

from drumline import seeding
from drumline.algorithms.individuals import norm, staleness, tell_each
from drumline.algorithms.optimizers import counter
from drumline.types import Candidate, Individual, Metrics, State

LARGEST_FULL_COVARIANCE_BYTES = 2 << 30

_REHEARSED = 2  # vectors
_HIDDEN = "it has randomness that does not follow from the seed it is given"


@runtime_checkable
class VectorOptimizer(Protocol):
    """What a user's own optimiser needs: it maximises, and must repeat itself bit for bit.

    Several vectors may be out at once; they are told in any order, and one that gradient steps
    have changed is told as it was evaluated: `discard(asked)`, where there is one, is called
    before. `recommend()`, where there is one, returns the vector to evaluate and publish; without
    it that is the fittest one told. `metrics()`, where there is one, returns the `sampling_std` and
    `condition_number` of its distribution.
    """

    def ask(self) -> Any:
        """Return the next vector to evaluate."""
        ...

    def tell(self, vector: Any, fitness: float) -> Any:
        """Take in a vector and its fitness."""
        ...


OptimizerFactory = Callable[[Float32[np.ndarray, " P"], int], VectorOptimizer]
"""(start vector, seed) → optimiser."""


class StrategyFailed(RuntimeError):
    """An optimiser raised, or put out what no policy can hold: nothing was changed by it."""


class HiddenRandomness(StrategyFailed):
    """An optimiser asked otherwise than it had with the same seed and the same tells."""


class RefusesRefined(ValueError):
    """An optimiser learns only from what it asked for."""


class External:
    """An optimiser as a strategy. Its state is a journal of asks and tells, which `load` replays.

    So any optimiser that repeats itself for a seed resumes bit for bit, without pickling it; the
    journal keeps the vectors that were told otherwise than they were asked, and of those asked
    checksums, by which it is noticed where one does not.
    """

    def __init__(
        self,
        start: Float[np.ndarray, " P"],
        make: OptimizerFactory,
        *,
        seed: int,
        name: str = "the optimizer",
    ):
        self._start = np.array(start, dtype=np.float32)
        self._make = make
        self._seed = seeding.seeds(seed, 1, "external-optimizer")[0]
        self._name = name
        self._begin()

    @property
    def parameters(self) -> Float32[np.ndarray, " P"]:
        """Return what the optimiser recommends, or else the fittest vector told."""
        return self._parameters

    def ask(self, count: int) -> list[Candidate]:
        """Return the optimiser's next vectors."""
        return [self._ask_one() for _ in range(count)]

    def tell(self, individuals: Sequence[Individual]) -> Metrics:
        """Tell the optimiser one individual after the other."""
        return tell_each(self._tell_one, individuals, self._start.size)

    def published(self) -> dict[str, np.ndarray]:
        """Return a copy of the recommended vector."""
        return {"parameters": self._parameters.copy()}

    def state(self) -> State:
        """Return the journal: per event the index told (−1: an ask), whether it was changed."""
        return State(
            {
                "journal_asked": self._checksums.rows(),
                "journal_told": self._told.rows(),
                "journal_changed": self._changed.rows(),
                "journal_fitness": self._fitness.rows(),
                "journal_vectors": self._changed_vectors.rows(),
            },
            {"tells": self._tells},
        )

    def rehearse(self) -> None:
        """Ask two optimisers made anew; raises `HiddenRandomness` where they differ."""
        first, second = (self._first_vectors() for _ in range(2))
        if not np.array_equal(first, second):
            raise HiddenRandomness(
                f"{self._name}, made twice with the same seed, asked for other vectors: {_HIDDEN}, "
                "so no result could be repeated. Draw them from that seed, or train without the "
                "promise with --no-promise"
            )

    def load(self, state: State) -> None:
        """Make the optimiser anew and replay a journal; raises where it asks otherwise."""
        told, changed, fitness, vectors = (
            _journal(state, *form)
            for form in (
                ("journal_told", "i8", 1),
                ("journal_changed", "?", 1),
                ("journal_fitness", "f8", 1),
                ("journal_vectors", "f4", 2),
            )
        )
        tells = int(counter(state, "tells"))
        if not (len(told) == len(changed) == len(fitness)) or changed.sum() != len(vectors):
            raise ValueError(
                f"the journal has {len(told)} events, {len(fitness)} fitnesses and "
                f"{len(vectors)} of {changed.sum()} changed vectors"
            )
        checksums: list[int] = []  # journals of earlier versions have none
        if "journal_asked" in state.tensors:
            checksums = _journal(state, "journal_asked", "u4", 1).tolist()
        self._begin()
        rest = iter(vectors)
        for index, was_changed, value in zip(
            told.tolist(), changed.tolist(), fitness.tolist(), strict=True
        ):
            if index < 0:
                self._ask_one()
            else:
                vector = next(rest) if was_changed else self._out[index].astype(np.float32)
                self._take(index, vector, value)
        if checksums not in ([], self._checksums.rows().tolist()):
            raise HiddenRandomness(
                f"{self._name}, told again what the run has told it, asks for other vectors: "
                f"{_HIDDEN}, or its code has changed, and the run cannot go on"
            )
        if self._tells != tells:
            raise ValueError(f"the journal holds {self._tells} tells, the state counts {tells}")

    def _first_vectors(self) -> list[np.ndarray]:
        ask = self._make(self._start.copy(), self._seed).ask
        return [self._usable(self._called("ask", ask), "asked for") for _ in range(_REHEARSED)]

    def _begin(self) -> None:
        self._optimizer = self._make(self._start.copy(), self._seed)
        self._parameters = self._start.copy()
        self._best_fitness = -math.inf
        self._out: dict[int, np.ndarray] = {}
        self._checksums = _Column(np.uint32)
        self._told = _Column(np.int64)
        self._changed = _Column(np.bool_)
        self._fitness = _Column(np.float64)
        self._changed_vectors = _Column(np.float32, self._start.size)
        self._asked = 0
        self._tells = 0

    def _ask_one(self) -> Candidate:
        index, self._asked = self._asked, self._asked + 1
        vector = self._usable(self._called("ask", self._optimizer.ask), "asked for")
        self._out[index] = vector
        self._checksums.add(zlib.crc32(vector.tobytes()))
        self._log(-1, 0.0, changed=False)
        return Candidate(index, self._tells, vector.astype(np.float32))

    def _tell_one(self, individual: Individual) -> Metrics:
        late = staleness(individual, self._tells)
        if individual.index not in self._out:
            raise ValueError(
                f"candidate {individual.index} is not out: it was never asked, or is told twice"
            )
        before = self._parameters
        self._take(individual.index, individual.vector, individual.fitness)
        return {
            **self._called("metrics", self._metrics),
            "fitness": individual.fitness,
            "update_norm": norm(self._parameters - before),
            "staleness_tells": float(late),
        }

    def _take(self, index: int, vector: Float32[np.ndarray, " P"], fitness: float) -> None:
        asked = self._out.pop(index)
        changed = not np.array_equal(asked.astype(np.float32), vector)
        if changed:
            self._changed_vectors.add(vector)
            discard = getattr(self._optimizer, "discard", None)
            if discard is not None:
                self._called("discard", discard, asked)
        self._log(index, fitness, changed=changed)
        # An optimiser may know its own vectors again, so it gets them in its own precision.
        heard = vector.astype(asked.dtype) if changed else asked
        self._called("tell", self._optimizer.tell, heard, fitness)
        self._tells += 1
        recommend = getattr(self._optimizer, "recommend", None)
        if recommend is not None:
            recommended = self._usable(self._called("recommend", recommend), "recommends")
            self._parameters = recommended.astype(np.float32)
        elif fitness > self._best_fitness:
            self._parameters = vector.copy()
        self._best_fitness = max(self._best_fitness, fitness)

    def _log(self, told: int, fitness: float, *, changed: bool) -> None:
        self._told.add(told)
        self._changed.add(changed)
        self._fitness.add(fitness)

    def _metrics(self) -> Metrics:
        metrics = getattr(self._optimizer, "metrics", None)
        return {} if metrics is None else {k: float(v) for k, v in metrics().items()}

    def _called(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call the optimiser; whatever it raises is known by its name."""
        try:
            return call(*arguments)
        except RefusesRefined:
            raise
        except (Exception, SystemExit) as error:
            raise StrategyFailed(
                f"{self._name} raised in {what} after {self._tells} tells: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _usable(self, vector: Any, verb: str) -> np.ndarray:
        """Return an array of the optimiser's, which must be P finite numbers."""
        kind, tells = type(vector).__name__, f"after {self._tells} tells"
        try:
            array = np.array(vector, dtype=None if isinstance(vector, np.ndarray) else np.float64)
        except (TypeError, ValueError) as error:
            raise StrategyFailed(f"{self._name} {verb} a {kind} of no numbers, {tells}") from error
        if array.shape != self._start.shape or array.dtype.kind != "f":
            raise StrategyFailed(
                f"{self._name} {verb} {array.dtype} of shape {list(array.shape)} (a {kind}), "
                f"{tells}; the policy has {self._start.size} parameters"
            )
        with np.errstate(over="ignore"):
            bad = int(np.count_nonzero(~np.isfinite(array.astype(np.float32))))
        if bad:
            raise StrategyFailed(
                f"{self._name} {verb} a vector of which {bad} of {array.size} numbers are not "
                f"finite in float32, {tells}"
            )
        return array


class _Column:
    """An array that only grows: `rows` is no copy, and what is added later does not change it.

    A state is taken after every event, and a copy of a journal would make a run's cost quadratic.
    """

    def __init__(self, dtype: Any, *width: int):
        self._array = np.empty((64, *width), dtype)
        self._count = 0

    def add(self, row: Any) -> None:
        """Append a row."""
        if self._count == len(self._array):
            longer = np.empty((2 * self._count, *self._array.shape[1:]), self._array.dtype)
            longer[: self._count] = self._array
            self._array = longer
        self._array[self._count] = row
        self._count += 1

    def rows(self) -> np.ndarray:
        """Return the rows so far."""
        return self._array[: self._count]


def cma_factory(*, std: float, full_covariance: bool) -> OptimizerFactory:
    """CMA-ES of the package cma (Hansen & Ostermeier 2001), or sep-CMA-ES (Ros & Hansen 2008)."""
    cma = _package("cma", extra="cma")

    def make(start: Float32[np.ndarray, " P"], seed: int) -> VectorOptimizer:
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
    """pycma with one vector asked at a time; an update for every λ told."""

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
                # its own back in their places: no use where results come in any order.
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
        """Take a vector in; pycma itself shortens what it has not asked for."""
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


def nevergrad_factory(optimizer: str, *, std: float, budget: int) -> OptimizerFactory:
    """Any optimiser of Nevergrad's registry; `budget` is how many individuals it should expect."""
    nevergrad = _package("nevergrad", extra="nevergrad")
    registry = nevergrad.optimizers.registry
    if optimizer not in registry:
        near = [name for name in sorted(registry) if optimizer.lower() in name.lower()][:8]
        raise ValueError(
            f"Nevergrad has no optimizer {optimizer!r}; "
            f"it has {', '.join(near or ['DE', 'PSO', 'OnePlusOne', 'CMA', 'TBPSA'])} and others"
        )
    if registry[optimizer].no_parallelization:
        raise ValueError(
            f"Nevergrad's {optimizer} asks for one vector after the other was told, and several "
            "are out at once here: take another, such as DE, PSO, OnePlusOne, CMA or TBPSA"
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
        """Return the candidate of an asked vector, which is out no longer."""
        candidates = self._asked[vector.tobytes()]
        candidate = candidates.pop()
        if not candidates:
            del self._asked[vector.tobytes()]
        return candidate

    def tell(self, vector: np.ndarray, fitness: float) -> None:
        """Take a vector in."""
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
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(
            f"--strategy {path!r}: module {module_name!r} cannot be imported ({error}); "
            "the current directory is importable"
        ) from error
    factory = getattr(module, name, None)
    if not callable(factory):
        raise ValueError(f"--strategy {path!r}: {module_name!r} has no callable {name!r}")

    def make(start: Float32[np.ndarray, " P"], seed: int) -> VectorOptimizer:
        try:
            made = factory(start, seed)
        except (Exception, SystemExit) as error:
            raise ValueError(
                f"--strategy {path!r} cannot be made: {type(error).__name__}: {error}"
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
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"this strategy needs the package {name} ({error}): pip install 'drumline[{extra}]'"
        ) from error


def _journal(state: State, name: str, dtype: str, dimensions: int) -> np.ndarray:
    if name not in state.tensors:
        raise ValueError(f"the state has no tensor {name!r}")
    tensor = state.tensors[name]
    if tensor.dtype != np.dtype(dtype) or tensor.ndim != dimensions:
        raise ValueError(
            f"tensor {name!r} is {tensor.dtype}{list(tensor.shape)}, expected "
            f"{np.dtype(dtype)} with {dimensions} dimensions"
        )
    return tensor
