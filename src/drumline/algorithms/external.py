"""An ask/tell optimiser from outside as a strategy, whose state is a journal of its calls."""

import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32

from drumline import seeding
from drumline.algorithms.individuals import norm, staleness, tell_each
from drumline.errors import StrategyFailed
from drumline.types import Candidate, Individual, Metrics, State

_REHEARSED = 2  # vectors
_HIDDEN = "it has randomness that does not follow from the seed it is given"


@runtime_checkable
class VectorOptimizer(Protocol):
    """Interface of a user's own optimiser: it maximises, and must repeat itself bit for bit.

    Several vectors may be in flight at once, and they are told in any order. A vector that gradient
    steps have changed is told as it was evaluated. Three methods are optional. `discard(asked)` is
    called before such a tell. `recommend()` returns the vector to evaluate and publish; without it,
    that is the fittest vector told. `metrics()` returns the `sampling_std` and `condition_number`
    of its distribution.
    """

    def ask(self) -> Any:
        """Return the next vector to evaluate."""
        ...

    def tell(self, vector: Any, fitness: float) -> Any:
        """Update with a vector and its fitness."""
        ...


OptimizerFactory = Callable[[Float32[np.ndarray, " P"], int], VectorOptimizer]
"""(start vector, seed) → optimiser."""


class HiddenRandomness(StrategyFailed):
    """An optimiser asked other vectors than before, with the same seed and the same tells."""


class RefusesRefined(ValueError):
    """An optimiser learns only from vectors that it asked for."""


class External:
    """An optimiser as a strategy. Its state is a journal of asks and tells, which `load` replays.

    Any optimiser that repeats itself for a seed therefore resumes bit for bit, without being
    pickled. The journal keeps the vectors that were told changed, and checksums of those asked,
    which reveal an optimiser that does not repeat itself.
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
        """Return the optimiser's recommendation, or else the fittest vector told."""
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
        """Ask two newly made optimisers; raises `HiddenRandomness` if they differ."""
        first, second = (self._first_vectors() for _ in range(2))
        if not np.array_equal(first, second):
            raise HiddenRandomness(
                f"{self._name}, made twice with the same seed, asked for other vectors: {_HIDDEN}, "
                "so no result could be repeated. Draw them from that seed, or train without the "
                "promise with --no-promise"
            )

    def load(self, state: State) -> None:
        """Make the optimiser anew and replay a journal; raises if its vectors differ."""
        told, changed, fitness, vectors = (
            _journal(state, *form)
            for form in (
                ("journal_told", "i8", 1),
                ("journal_changed", "?", 1),
                ("journal_fitness", "f8", 1),
                ("journal_vectors", "f4", 2),
            )
        )
        tells = int(state.counter("tells"))
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
        # An optimiser may recognise its own vectors, so it gets them in its own precision.
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
        """Call the optimiser; its exception becomes a StrategyFailed with its name."""
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
        """Return the optimiser's vector, which must be P finite numbers."""
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
    """An array that only grows: `rows` is no copy, and later additions do not change it.

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


def _journal(state: State, name: str, dtype: str, dimensions: int) -> np.ndarray:
    tensor = state.tensor(name)
    if tensor.dtype != np.dtype(dtype) or tensor.ndim != dimensions:
        raise ValueError(
            f"tensor {name!r} is {tensor.dtype}{list(tensor.shape)}, expected "
            f"{np.dtype(dtype)} with {dimensions} dimensions"
        )
    return tensor
