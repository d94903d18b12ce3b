"""An ask/tell optimiser from outside as a strategy.

Its state is a journal of its calls, or what the optimiser says of itself and a short journal.
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32

from drumline import seeding
from drumline.algorithms.individuals import norm, staleness, tell_each
from drumline.errors import StrategyFailed
from drumline.types import Candidate, Individual, Metrics, State

SNAPSHOT_TELLS = 1000
"""Tells between two calls of an optimiser's `state()`: a resume replays fewer than these."""

_REHEARSED = 2  # vectors
_REHEARSED_TELLS = 5
_WIDEST = 8  # bytes of a number that checkpoints store
_OPTIMIZER = "strategy_state_"  # before the optimiser's own names in a state
_HIDDEN = "it has randomness that does not follow from the seed it is given"


@runtime_checkable
class VectorOptimizer(Protocol):
    """Interface of a user's own optimiser: it maximises, and must repeat itself bit for bit.

    Several vectors may be in flight at once, and they are told in any order. A vector that gradient
    steps have changed is told as it was evaluated. Some methods are optional. `discard(asked)` is
    called before such a tell. `recommend()` returns the vector to evaluate and publish; without it,
    that is the fittest vector told. `metrics()` returns the `sampling_std` and `condition_number`
    of its distribution.

    `state()` returns names with NumPy arrays, integers and floats; a newly made optimiser after
    `load(state)` asks and answers bit for bit as this one. With these two methods, checkpoints keep
    that state. Without them, they keep all asks and tells, and a resume repeats every one.
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


class _Snapshot(NamedTuple):
    """An optimiser's own state after a tell, and the strategy's beside it."""

    optimizer: dict[str, np.ndarray | int | float]
    parameters: np.ndarray
    best_fitness: float
    out: dict[int, np.ndarray]
    asked: int
    tells: int


class External:
    """An optimiser as a strategy. Its state is a journal of asks and tells, which `load` replays.

    Any optimiser that repeats itself for a seed therefore resumes bit for bit, without being
    pickled. The journal keeps the vectors that were told changed, and checksums of those asked,
    which reveal an optimiser that does not repeat itself. An optimiser with `state()` and `load()`
    is asked for its state every `SNAPSHOT_TELLS` tells, and the journal begins anew there.
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
        self.replaying: Callable[[int, int], None] = lambda done, events: None
        """Called while `load` replays a journal, with the events done and all of them."""
        self._begin()

    @property
    def replays_everything(self) -> bool:
        """Whether a resume repeats all asks and tells: the optimiser has no `state()`."""
        return not self._offers_state(self._optimizer)

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
        """Return the journal: per event the index told (−1: an ask), whether it was changed.

        It begins at the optimiser's own state, if there is one.
        """
        journal = State(
            {
                "journal_asked": self._checksums.rows(),
                "journal_told": self._told.rows(),
                "journal_changed": self._changed.rows(),
                "journal_fitness": self._fitness.rows(),
                "journal_vectors": self._changed_vectors.rows(),
            },
            {"tells": self._tells},
        )
        return journal if self._snapshot is None else State.merged(journal, self._snapshot_state())

    def rehearse(self) -> None:
        """Ask and tell two newly made optimisers; raises `HiddenRandomness` if they differ."""
        first, second = (self._first_vectors() for _ in range(2))
        if not np.array_equal(first, second):
            raise HiddenRandomness(
                f"{self._name}, made twice with the same seed, asked for other vectors: {_HIDDEN}, "
                "so no result could be repeated. Draw them from that seed, or train without the "
                "promise with --no-promise"
            )
        if not self.replays_everything:
            self._rehearse_state()

    def sample(self, keeps_on: Callable[[], bool]) -> int:
        """Ask and tell a new optimiser while `keeps_on`; returns the number of tells."""
        made, tells = self._made(), 0
        while keeps_on():
            vector = self._usable(self._called("ask", made.ask), "asked for")
            self._called("tell", made.tell, vector, -float(tells))
            tells += 1
        return tells

    def _rehearse_state(self) -> None:
        """Compare an optimiser with one that has loaded its state."""
        one, other = (self._made() for _ in range(2))
        for fitness in range(_REHEARSED_TELLS):
            vector = self._usable(self._called("ask", one.ask), "asked for")
            self._called("tell", one.tell, vector, float(fitness))
        self._load_optimizer(other, self._state_of(one))
        for _ in range(_REHEARSED):
            vectors = [
                self._usable(self._called("ask", made.ask), "asked for") for made in (one, other)
            ]
            if vectors[0].tobytes() != vectors[1].tobytes():
                raise StrategyFailed(
                    f"{self._name} asks for other vectors once its state() is given to load() of a "
                    "new one: let them hold all that ask and tell use, or remove both"
                )
            for made, vector in zip((one, other), vectors, strict=True):
                self._called("tell", made.tell, vector, 0.5)

    def load(self, state: State) -> None:
        """Make the optimiser anew, load its own state and replay the journal since.

        Raises if its vectors differ from those of the journal.
        """
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
        if "snapshot_tells" in state.counters:
            self._load_snapshot(state)
        rest = iter(vectors)
        events = len(told)
        for done, (index, was_changed, value) in enumerate(
            zip(told.tolist(), changed.tolist(), fitness.tolist(), strict=True)
        ):
            self.replaying(done, events)
            if index < 0:
                self._ask_one()
            else:
                vector = next(rest) if was_changed else self._out[index].astype(np.float32)
                self._take(index, vector, value, snapshots=False)
        self.replaying(events, events)
        if checksums not in ([], self._checksums.rows().tolist()):
            raise HiddenRandomness(
                f"{self._name}, told again what the run has told it, asks for other vectors: "
                f"{_HIDDEN}, or its code has changed, and the run cannot go on"
            )
        if self._tells != tells:
            raise ValueError(f"the journal holds {self._tells} tells, the state counts {tells}")

    def _first_vectors(self) -> list[np.ndarray]:
        made, vectors = self._made(), list[np.ndarray]()
        for number in range(_REHEARSED_TELLS):
            vector = self._usable(self._called("ask", made.ask), "asked for")
            self._called("tell", made.tell, vector.copy(), -float(number))
            vectors.append(vector)
        return vectors

    def _made(self) -> VectorOptimizer:
        """Return a new optimiser."""
        with seeding.kept_globals():
            seeding.seed_globals(self._seed)
            return self._make(self._start.copy(), self._seed)

    def _begin(self) -> None:
        self._optimizer = self._made()
        self._parameters = self._start.copy()
        self._best_fitness = -math.inf
        self._out: dict[int, np.ndarray] = {}
        self._snapshot: _Snapshot | None = None
        self._asked = 0
        self._tells = 0
        self._begin_journal()

    def _begin_journal(self) -> None:
        self._checksums = _Column(np.uint32)
        self._told = _Column(np.int64)
        self._changed = _Column(np.bool_)
        self._fitness = _Column(np.float64)
        self._changed_vectors = _Column(np.float32, self._start.size)

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

    def _take(
        self,
        index: int,
        vector: Float32[np.ndarray, " P"],
        fitness: float,
        *,
        snapshots: bool = True,
    ) -> None:
        asked = self._out.pop(index)
        changed = not np.array_equal(asked.astype(np.float32), vector)
        if changed:
            self._changed_vectors.add(vector)
            discard = getattr(self._optimizer, "discard", None)
            if discard is not None:
                self._called("discard", discard, asked.copy())
        self._log(index, fitness, changed=changed)
        # An optimiser may recognise its own vectors, so it gets them in its own precision, and it
        # may write into them: the snapshot keeps its own.
        heard = vector.astype(asked.dtype) if changed else asked.copy()
        self._called("tell", self._optimizer.tell, heard, fitness)
        self._tells += 1
        recommend = getattr(self._optimizer, "recommend", None)
        if recommend is not None:
            recommended = self._usable(self._called("recommend", recommend), "recommends")
            self._parameters = recommended.astype(np.float32)
        elif fitness > self._best_fitness:
            self._parameters = vector.copy()
        self._best_fitness = max(self._best_fitness, fitness)
        if snapshots and self._tells % SNAPSHOT_TELLS == 0:
            self._begin_at_state()

    def _begin_at_state(self) -> None:
        """Begin the journal anew at the optimiser's own state, if it has one."""
        alike = len({vector.dtype for vector in self._out.values()}) <= 1  # or wait for the next
        if alike and not self.replays_everything:
            self._snapshot = _Snapshot(
                self._state_of(self._optimizer),
                self._parameters.copy(),
                self._best_fitness,
                dict(self._out),
                self._asked,
                self._tells,
            )
            self._begin_journal()

    def _snapshot_state(self) -> State:
        own = self._snapshot
        assert own is not None, "there is no snapshot before the first thousand tells"
        named = {f"{_OPTIMIZER}{name}": value for name, value in own.optimizer.items()}
        vectors = list(own.out.values())
        return State(
            {
                "snapshot_parameters": own.parameters,
                "snapshot_out": np.array(list(own.out), np.int64),
                "snapshot_vectors": np.array(vectors).reshape(len(vectors), self._start.size),
                **{name: value for name, value in named.items() if isinstance(value, np.ndarray)},
            },
            {
                "snapshot_best_fitness": own.best_fitness,
                "snapshot_asked": own.asked,
                "snapshot_tells": own.tells,
                **{
                    name: value
                    for name, value in named.items()
                    if not isinstance(value, np.ndarray)
                },
            },
        )

    def _load_snapshot(self, state: State) -> None:
        out, vectors = _journal(state, "snapshot_out", "i8", 1), state.tensor("snapshot_vectors")
        parameters = _journal(state, "snapshot_parameters", "f4", 1)
        shapes = ((len(out), self._start.size), self._start.shape)
        if (vectors.shape, parameters.shape) != shapes or vectors.dtype.kind != "f":
            raise ValueError(
                f"the state holds {list(vectors.shape)} vectors that are out and "
                f"{list(parameters.shape)} parameters, expected {list(shapes)}"
            )
        named = {**state.tensors, **state.counters}
        optimizer = {
            name.removeprefix(_OPTIMIZER): value
            for name, value in named.items()
            if name.startswith(_OPTIMIZER)
        }
        self._load_optimizer(self._optimizer, optimizer)
        self._parameters = parameters.copy()
        self._best_fitness = float(state.counter("snapshot_best_fitness"))
        self._out = dict(zip(out.tolist(), vectors.copy(), strict=True))
        self._asked, self._tells = (
            int(state.counter(name)) for name in ("snapshot_asked", "snapshot_tells")
        )
        self._snapshot = _Snapshot(
            optimizer,
            self._parameters.copy(),
            self._best_fitness,
            dict(self._out),
            self._asked,
            self._tells,
        )

    @staticmethod
    def _offers_state(optimizer: VectorOptimizer) -> bool:
        return all(callable(getattr(optimizer, name, None)) for name in ("state", "load"))

    def _state_of(self, optimizer: Any) -> dict[str, np.ndarray | int | float]:
        """Return copies of an optimiser's own state."""
        found = self._called("state", optimizer.state)
        if not hasattr(found, "items"):
            raise StrategyFailed(f"{self._name} has a state() of {type(found).__name__}, no dict")
        kept: dict[str, np.ndarray | int | float] = {}
        for name, value in found.items():
            if not isinstance(name, str) or not _storable(value):
                raise StrategyFailed(
                    f"{self._name} has {name!r} in its state(), {_described(value)}: it may "
                    "hold NumPy arrays of numbers of at most 8 bytes, int and float"
                )
            kept[name] = value.copy() if isinstance(value, np.ndarray) else value
        return kept

    def _load_optimizer(self, optimizer: Any, state: Mapping[str, Any]) -> None:
        if not self._offers_state(optimizer):
            raise StrategyFailed(
                f"{self._name} has no state() and load(), but the checkpoint holds its state"
            )
        copies: dict[str, Any] = {
            k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items()
        }
        self._called("load", optimizer.load, copies)

    def _log(self, told: int, fitness: float, *, changed: bool) -> None:
        self._told.add(told)
        self._changed.add(changed)
        self._fitness.add(fitness)

    def _metrics(self) -> Metrics:
        metrics = getattr(self._optimizer, "metrics", None)
        return {} if metrics is None else {k: float(v) for k, v in metrics().items()}

    def _called(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call the optimiser; its exception becomes a StrategyFailed with its name.

        Some optimisers draw from Python's or NumPy's global generator, Nevergrad's log-normal ones
        among them: its numbers follow from the seed and from the asks and tells before the call,
        so a journal that is replayed repeats them.
        """
        (seed,) = seeding.seeds(self._seed, 1, what, self._asked, self._tells)
        try:
            with seeding.kept_globals():
                seeding.seed_globals(seed)
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
        if array.dtype.itemsize > _WIDEST:
            raise StrategyFailed(
                f"{self._name} {verb} {array.dtype}, {tells}, which no checkpoint can hold: "
                "return float64"
            )
        with np.errstate(over="ignore"):
            bad = int(np.count_nonzero(~np.isfinite(array.astype(np.float32))))
        if bad:
            raise StrategyFailed(
                f"{self._name} {verb} a vector of which {bad} of {array.size} numbers are not "
                f"finite in float32, {tells}"
            )
        return array


def _storable(value: Any) -> bool:
    """Return whether a checkpoint can hold a value: an array of numbers, an int or a float."""
    if type(value) in (int, float):
        return True
    if not isinstance(value, np.ndarray):
        return False
    array: np.ndarray = value  # pyright: ignore[reportUnknownVariableType]
    return array.dtype.kind in "biuf" and array.dtype.itemsize <= _WIDEST


def _described(value: Any) -> str:
    kind = f"a {type(value).__name__}"
    return f"{kind} of {value.dtype}" if isinstance(value, np.ndarray) else kind  # pyright: ignore[reportUnknownMemberType]


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
