"""Calls of an ask/tell optimiser from outside: seeded, checked, and named where they fail."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

from drumline import seeding
from drumline.errors import StrategyFailed
from drumline.types import Metrics

_WIDEST = 8  # bytes of a number that checkpoints store


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


class RefusesRefined(ValueError):
    """An optimiser learns only from vectors that it asked for."""


def offers_state(optimizer: VectorOptimizer) -> bool:
    """Return whether an optimiser can say all that it asks and tells from."""
    return all(callable(getattr(optimizer, name, None)) for name in ("state", "load"))


class OptimizerCalls:
    """Calls an optimiser; its exceptions become `StrategyFailed` with its name.

    Some optimisers draw from Python's or NumPy's global generator, Nevergrad's log-normal ones
    among them: its numbers follow from the seed and from the asks and tells before the call, so a
    journal that is replayed repeats them.
    """

    def __init__(self, name: str, seed: int, size: int, counts: Callable[[], tuple[int, int]]):
        """`size` is that of its vectors; `counts` returns the asks and tells so far."""
        self._name = name
        self._seed = seed
        self._size = size
        self._counts = counts

    def ask(self, optimizer: VectorOptimizer) -> np.ndarray:
        """Return the optimiser's next vector `[P]`."""
        return self._usable(self._called("ask", optimizer.ask), "asked for")

    def tell(self, optimizer: VectorOptimizer, vector: np.ndarray, fitness: float) -> None:
        """Update the optimiser, which may write into `vector`."""
        self._called("tell", optimizer.tell, vector, fitness)

    def discard(self, optimizer: VectorOptimizer, asked: np.ndarray) -> None:
        """Say that a vector will be told changed, if the optimiser wants to know."""
        discard = getattr(optimizer, "discard", None)
        if discard is not None:
            self._called("discard", discard, asked)

    def recommend(self, optimizer: VectorOptimizer) -> np.ndarray | None:
        """Return the vector `[P]` that the optimiser recommends; None if it recommends none."""
        recommend = getattr(optimizer, "recommend", None)
        if recommend is None:
            return None
        return self._usable(self._called("recommend", recommend), "recommends")

    def metrics(self, optimizer: VectorOptimizer) -> Metrics:
        """Return the metrics of the optimiser's distribution; empty if it has none."""
        metrics = getattr(optimizer, "metrics", None)
        if metrics is None:
            return {}
        return self._called("metrics", lambda: {k: float(v) for k, v in metrics().items()})

    def state(self, optimizer: Any) -> dict[str, np.ndarray | int | float]:
        """Return copies of the optimiser's own state."""
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

    def load(self, optimizer: Any, state: Mapping[str, Any]) -> None:
        """Give the optimiser copies of its own state."""
        if not offers_state(optimizer):
            raise StrategyFailed(
                f"{self._name} has no state() and load(), but the checkpoint holds its state"
            )
        copies: dict[str, Any] = {
            k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items()
        }
        self._called("load", optimizer.load, copies)

    def _called(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        asked, tells = self._counts()
        (seed,) = seeding.seeds(self._seed, 1, what, asked, tells)
        try:
            with seeding.kept_globals():
                seeding.seed_globals(seed)
                return call(*arguments)
        except RefusesRefined:
            raise
        except (Exception, SystemExit) as error:
            raise StrategyFailed(
                f"{self._name} raised in {what} after {tells} tells: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _usable(self, vector: Any, verb: str) -> np.ndarray:
        """Return the optimiser's vector, which must be P finite numbers."""
        kind, tells = type(vector).__name__, f"after {self._counts()[1]} tells"
        try:
            array = np.array(vector, dtype=None if isinstance(vector, np.ndarray) else np.float64)
        except (TypeError, ValueError) as error:
            raise StrategyFailed(f"{self._name} {verb} a {kind} of no numbers, {tells}") from error
        if array.shape != (self._size,) or array.dtype.kind != "f":
            raise StrategyFailed(
                f"{self._name} {verb} {array.dtype} of shape {list(array.shape)} (a {kind}), "
                f"{tells}; the policy has {self._size} parameters"
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
