"""Records that travel between rooms and processes: tasks, results, states and metrics."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Metrics = dict[str, float]
"""Name → value; a name gives quantity, unit and sign (`policy_entropy_nats`, `env_steps`)."""


def maker(kind: type[tuple[Any, ...]]) -> Callable[[Iterable[Any]], Any]:
    """Return a constructor of a NamedTuple from its fields' values that runs no Python code."""
    return partial(vars(tuple)["__new__"], kind)


class Moments(NamedTuple):
    """Count, mean and centred sum of squares of vectors, in float64."""

    count: float  # pyright: ignore[reportIncompatibleMethodOverride]
    mean: np.ndarray
    squares: np.ndarray

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as bytes: pickling two small arrays costs four times as much as all the rest."""
        return _moments_from, (self.count, self.mean.tobytes(), self.squares.tobytes())

    @classmethod
    def together(cls, values: Sequence["Moments"]) -> tuple[list[float], bytes] | None:
        """Return counts and numbers of moments for a message; None if vectors differ in size."""
        parts = [array.tobytes() for value in values for array in value[1:]]
        if len(set(map(len, parts))) > 1:
            return None
        return [value.count for value in values], b"".join(parts)

    @classmethod
    def apart(cls, packed: tuple[list[float], bytes]) -> list["Moments"]:
        """Return the moments that were put together; their arrays are read-only, as unpickled."""
        counts, numbers = packed
        means, squares = np.frombuffer(numbers).reshape(len(counts), 2, -1).swapaxes(0, 1)
        return list(map(maker(cls), zip(counts, means, squares, strict=True)))


def _moments_from(count: float, mean: bytes, squares: bytes) -> Moments:
    return Moments(count, np.frombuffer(mean), np.frombuffer(squares))


@dataclass(frozen=True)
class State:
    """All learned state of a strategy or learner: tensors and plain counters, each by name."""

    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    counters: dict[str, int | float] = field(default_factory=dict)

    def tensor(self, name: str, *, like: np.ndarray | None = None) -> np.ndarray:
        """Return a copy of a tensor; raises `ValueError` if it is missing or not shaped `like`."""
        if name not in self.tensors:
            raise ValueError(f"the state has no tensor {name!r}")
        tensor = self.tensors[name]
        if like is not None and (tensor.shape != like.shape or tensor.dtype != like.dtype):
            raise ValueError(
                f"tensor {name!r} is {tensor.dtype}{list(tensor.shape)}, "
                f"expected {like.dtype}{list(like.shape)}"
            )
        return tensor.copy()

    def counter(self, name: str) -> int | float:
        """Return a counter; raises `ValueError` if it is missing."""
        if name not in self.counters:
            raise ValueError(f"the state has no counter {name!r}")
        return self.counters[name]

    def under(self, prefix: str) -> "State":
        """Return the tensors whose names begin with `prefix`, without it, and all counters."""
        length = len(prefix)
        tensors = {k[length:]: v for k, v in self.tensors.items() if k.startswith(prefix)}
        return State(tensors, dict(self.counters))

    @staticmethod
    def merged(*parts: "State") -> "State":
        """Return all tensors and counters of several parts; raises if two have the same name."""
        merged = State()
        for part in parts:
            twice = (merged.tensors.keys() & part.tensors.keys()) | (
                merged.counters.keys() & part.counters.keys()
            )
            if twice:
                raise ValueError(f"two parts of a state have {', '.join(sorted(twice))}")
            merged.tensors.update(part.tensors)
            merged.counters.update(part.counters)
        return merged


class ProcessActivity(NamedTuple):
    """Activity of one process of a layout."""

    role: str
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    pid: int
    tasks: int
    """Pieces of work: tasks, episodes, an actor's forward passes, an executor's steps of lanes."""
    progress: int
    busy_seconds: float
    restarts: int
    """Processes that died in this place before this one."""


class NodeTraffic(NamedTuple):
    """Bytes between the driver and one node in the course of one update."""

    update: int
    node: str
    tasks: int = 0
    """To the node: tasks."""
    results: int = 0
    """To the node: scalars of all members, of which its replica makes the update."""
    moments: int = 0
    """To the node: moments of observations beside them."""
    parameters: int = 0
    """To the node: published arrays, or the state with which a replica begins."""
    shared: int = 0
    """To the node: rows of shared arrays, such as a noise table."""
    answers: int = 0
    """From the node: results of its tasks."""


class Span(NamedTuple):
    """One stretch of work of one process, on the machine-wide monotonic clock (`perf_counter`)."""

    role: str
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    start: float
    end: float
    tasks: int


class EpisodeRow(NamedTuple):
    """One training episode in the order of its index."""

    update: int
    member: int
    sign: int
    episode_return: float
    length: int
    score: float | None = None
    """Sum of the engine's own rewards, where the return is of another reward."""


@dataclass(frozen=True)
class EvaluationRow:
    """One scheduled evaluation of the published version of `update`."""

    update: int
    env_steps: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    info: tuple[tuple[str, float], ...] = ()
    """Means of the numbers in the environment's last `info` of each episode, by name."""

    @property
    def mean(self) -> float:
        """Return the mean return."""
        return float(np.mean(self.returns))


@dataclass(frozen=True)
class UpdateRecord:
    """Record of one update."""

    update: int
    metrics: Metrics
    published: dict[str, np.ndarray]
    """Copies, because the recorder hashes them later, on its own thread."""
    episodes: tuple[EpisodeRow, ...] = ()


class StackedFrames(NamedTuple):
    """Observations `[..., depth · C, ...]` whose frames are stored once each."""

    frames: np.ndarray
    """`[F, C, …]`: every frame once."""
    indices: np.ndarray
    """`[..., depth]`: indices of each observation's frames, oldest first."""


class Rollout(NamedTuple):
    """One interval of every environment, as views of the storage: T = alpha steps, B environments.

    Observations and rewards are raw. Row T of `observations` follows the last step.
    """

    interval: int
    observations: np.ndarray | StackedFrames
    """[T + 1, B, …] in the environment's own dtype."""
    actions: np.ndarray
    """[T, B, …]"""
    rewards: np.ndarray
    """[T, B] float32"""
    terminated: np.ndarray
    """[T, B] bool"""
    truncated: np.ndarray
    """[T, B] bool; never where terminated."""
    log_probs: np.ndarray
    """[T, B] float32, of the behaviour policy."""
    values: np.ndarray
    """[T, B] float32, by the behaviour parameters."""
    final_steps: np.ndarray
    """[J] step t of each truncated episode, ordered by (environment, t)."""
    final_environments: np.ndarray
    """[J] environment of each truncated episode."""
    final_observations: np.ndarray | StackedFrames
    """[J, …]: the last observation of each truncated episode, which no next row holds."""
    scores: np.ndarray | None = None
    """[T, B] float32: the engine's own rewards, where `rewards` are others."""


class Minibatch(NamedTuple):
    """Transitions drawn from a replay, valid until the next draw."""

    observations: "Tensor"
    """[1, B, D]"""
    actions: "Tensor"
    """[1, B, A]"""
    rewards: "Tensor"
    """[B]"""
    terminated: "Tensor"
    """[B] bool"""
    next_observations: "Tensor"
    """[1, B, D]"""
    noise: "Tensor"
    """[1, B, A] standard normal numbers; empty if none were asked for."""


class Candidate(NamedTuple):
    """A point of a steady-state strategy's newest distribution, to be evaluated."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """Number of candidates asked before this one; it names the noise and all random streams."""
    version: int
    """Number of individuals that the strategy had been told when it was asked."""
    vector: np.ndarray
    """Parameters `[P]`, float32."""


class Individual(NamedTuple):
    """A candidate that has lived: told in any order, perhaps changed by gradient steps."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    version: int
    vector: np.ndarray
    """Parameters `[P]` as they were evaluated, which may differ from those asked."""
    fitness: float
    mean_fitness: float | None = None
    """Mean return of the distribution's mean, evaluated beside it; None where it was not."""
    refined: bool = False
    """Whether gradient steps changed the vector."""
    mean_version: int | None = None
    """Individuals that had been told when that evaluation of the mean was asked for; None: all."""
