"""An ask/tell optimiser from outside as a strategy.

Its state is a journal of its calls, or what the optimiser says of itself and a short journal.
"""

import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32

from drumline import seeding
from drumline.algorithms.individuals import norm, staleness, tell_each
from drumline.algorithms.optimizer_calls import (
    OptimizerCalls,
    OptimizerFactory,
    VectorOptimizer,
    offers_state,
)
from drumline.errors import StrategyFailed
from drumline.types import Candidate, Individual, Metrics, State

SNAPSHOT_TELLS = 1000
"""Tells between two calls of an optimiser's `state()`: a resume replays fewer than these."""

_REHEARSED = 2  # vectors
_REHEARSED_TELLS = 5
_OPTIMIZER = "strategy_state_"  # before the optimiser's own names in a state
_HIDDEN = "it has randomness that does not follow from the seed it is given"


class HiddenRandomness(StrategyFailed):
    """An optimiser asked other vectors than before, with the same seed and the same tells."""


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
        self._calls = OptimizerCalls(
            name, self._seed, self._start.size, lambda: (self._asked, self._tells)
        )
        self._begin()

    @property
    def replays_everything(self) -> bool:
        """Whether a resume repeats all asks and tells: the optimiser has no `state()`."""
        return not offers_state(self._optimizer)

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
            self._calls.tell(made, self._calls.ask(made), -float(tells))
            tells += 1
        return tells

    def _rehearse_state(self) -> None:
        """Compare an optimiser with one that has loaded its state."""
        one, other = (self._made() for _ in range(2))
        for fitness in range(_REHEARSED_TELLS):
            self._calls.tell(one, self._calls.ask(one), float(fitness))
        self._calls.load(other, self._calls.state(one))
        for _ in range(_REHEARSED):
            vectors = [self._calls.ask(made) for made in (one, other)]
            if vectors[0].tobytes() != vectors[1].tobytes():
                raise StrategyFailed(
                    f"{self._name} asks for other vectors once its state() is given to load() of a "
                    "new one: let them hold all that ask and tell use, or remove both"
                )
            for made, vector in zip((one, other), vectors, strict=True):
                self._calls.tell(made, vector, 0.5)

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
            vector = self._calls.ask(made)
            self._calls.tell(made, vector.copy(), -float(number))
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
        self._asked = self._tells = 0
        self._begin_journal()

    def _begin_journal(self) -> None:
        self._checksums = _Column(np.uint32)
        self._told = _Column(np.int64)
        self._changed = _Column(np.bool_)
        self._fitness = _Column(np.float64)
        self._changed_vectors = _Column(np.float32, self._start.size)

    def _ask_one(self) -> Candidate:
        index, self._asked = self._asked, self._asked + 1
        vector = self._calls.ask(self._optimizer)
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
            **self._calls.metrics(self._optimizer),
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
            self._calls.discard(self._optimizer, asked.copy())
        self._log(index, fitness, changed=changed)
        # An optimiser may recognise its own vectors, so it gets them in its own precision, and it
        # may write into them: the snapshot keeps its own.
        heard = vector.astype(asked.dtype) if changed else asked.copy()
        self._calls.tell(self._optimizer, heard, fitness)
        self._tells += 1
        recommended = self._calls.recommend(self._optimizer)
        if recommended is not None:
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
                self._calls.state(self._optimizer),
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
        self._calls.load(self._optimizer, optimizer)
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

    def _log(self, told: int, fitness: float, *, changed: bool) -> None:
        self._told.add(told)
        self._changed.add(changed)
        self._fitness.add(fitness)


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
