"""Records that travel between rooms and processes: tasks, results, states and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Metrics = dict[str, float]
"""Name → value; a name says what, unit and sign (`policy_entropy_nats`, `env_steps`)."""


class Moments(NamedTuple):
    """Count, mean and centred sum of squares of vectors, in float64."""

    count: float  # pyright: ignore[reportIncompatibleMethodOverride]
    mean: np.ndarray
    squares: np.ndarray

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as bytes: pickling two small arrays costs four times as much as all the rest."""
        return _moments_from, (self.count, self.mean.tobytes(), self.squares.tobytes())


def _moments_from(count: float, mean: bytes, squares: bytes) -> Moments:
    return Moments(count, np.frombuffer(mean), np.frombuffer(squares))


class Evaluate(NamedTuple):
    """Task: one episode of θ + sign · std · noise(noise_key), or of θ itself when `sign` is 0.

    `version` names the published parameters, `member` the place in the generation; `seed` is
    the environment's and everything else's in this episode.
    """

    version: int
    member: int
    sign: int
    noise_key: int
    seed: int
    std: float
    episode_cap: int
    """Env steps after which the episode is cut; 0 for none."""
    contributes: bool
    """Whether the observations enter the running moments."""
    training: bool
    """Training rollouts get action noise and the reward shift; evaluations do not."""


class RehearseTwice(NamedTuple):
    """Task: run `task`, then `between`, then `task` again in one worker; results must be equal."""

    task: Evaluate
    between: Evaluate


class Evaluation(NamedTuple):
    """Result: what one episode returned."""

    version: int
    member: int
    sign: int
    noise_key: int
    std: float
    fitness: float
    """What the update sees: the return, less the reward shift in training; or the sign return."""
    episode_return: float
    length: int
    """Agent decisions."""
    moments: Moments | None
    digest: bytes
    """SHA-256 over observations and rewards, empty unless the task is a rehearsal."""


class Rehearsal(NamedTuple):
    """Result of `RehearseTwice`: both runs of the same task."""

    first: Evaluation
    second: Evaluation


class Job(NamedTuple):
    """What a logical worker does next in virtual time: gradient steps, all known, then env steps.

    The far side reports every step as progress of 1. `version` names what `published()` returned
    when the job was made.
    """

    task: Any
    version: int
    gradient_steps: int = 0
    least_env_steps: int = 0
    """Fewer are impossible; the more is known, the sooner others' results may be handled."""
    transitions: int = 0
    """The task may be sent once the replay has taken this many in all."""
    watermark: int | None = None
    """Where the replay window ends that must stay whole until the task has finished."""


class Started(NamedTuple):
    """A job that a logical worker has started and whose end is not handled yet."""

    worker: int
    start: int
    """In virtual nanoseconds, like every virtual time."""
    job: Job


class Event(NamedTuple):
    """The handled end of one job, in the order of handling."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """0, 1, … over the whole run."""
    worker: int
    """The logical worker; the critic's number is the concurrency."""
    start: int
    end: int
    env_steps: int
    task: Any
    result: Any
    metrics: Metrics
    waited_seconds: float
    """Between the end of its work and its handling: what the virtual order has cost."""


@dataclass(frozen=True)
class Snapshot:
    """The virtual queue between two events: all that a schedule must know to go on from there.

    Jobs in flight start again from their beginning; `versions` holds the published arrays that
    they name.
    """

    events: int = 0
    now: int = 0
    started: tuple[Started, ...] = ()
    """In the order of their starts."""
    versions: Mapping[int, Mapping[str, np.ndarray]] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """All learned state of a strategy: tensors and plain counters, each by name."""

    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    counters: dict[str, int | float] = field(default_factory=dict)


class ProcessActivity(NamedTuple):
    """What one process of a layout has done."""

    role: str
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    pid: int
    tasks: int
    progress: int
    busy_seconds: float
    restarts: int
    """How many processes in this place died before this one."""


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
    """What the engine itself paid, where the return is of another reward."""


@dataclass(frozen=True)
class EvaluationRow:
    """One scheduled evaluation of the published version of `update`."""

    update: int
    env_steps: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Return the mean return."""
        return float(np.mean(self.returns))


@dataclass(frozen=True)
class UpdateRecord:
    """Everything that is written down about one update."""

    update: int
    metrics: Metrics
    published: dict[str, np.ndarray]
    """Copies: the recorder hashes them later, on its own thread."""
    episodes: tuple[EpisodeRow, ...] = ()


class StackedFrames(NamedTuple):
    """Observations `[..., depth · C, ...]` whose frames are stored once each."""

    frames: np.ndarray
    """[F, C, …]"""
    indices: np.ndarray
    """[..., depth]: which frames each observation stacks, oldest first."""


class Rollout(NamedTuple):
    """One interval of every environment, as views of the storage: T = alpha steps, B environments.

    Observations and rewards are raw. Row T of `observations` is what follows the last step.
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
    """[J] t of each truncated episode, ordered by (environment, t)."""
    final_environments: np.ndarray
    """[J]"""
    final_observations: np.ndarray | StackedFrames
    """[J, …]: the last observation of each truncated episode, which no next row holds."""
    scores: np.ndarray | None = None
    """[T, B] float32: the engine's own rewards, where `rewards` are others."""


class GradientJob(NamedTuple):
    """Task: gradient steps on minibatches of one replay window."""

    steps: int
    watermark: int
    """Of the replay, for every minibatch of the job."""
    seed: int
    """Root of the job's streams: which rows are drawn, and the noise on target actions."""


class Live(NamedTuple):
    """Task: gradient steps on the published actor, if any, and one episode for the replay."""

    version: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """Of the individual."""
    seed: int
    """Of the episode."""
    refine: GradientJob | None
    random: bool
    """Act at random, whatever the actor: a warm-up."""


class Explore(NamedTuple):
    """Task: one episode of the published actor for the replay, with noise that has a memory.

    x ← x − θ x + σ N(0, 1) from 0 at each step; the noise is `scale` · x half action ranges.
    """

    version: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    seed: int
    """Of the episode and of the noise."""
    theta: float
    sigma: float
    scale: float


class EvaluateMean(NamedTuple):
    """Task: episodes of the published actor that nothing learns from."""

    version: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """Of the individual that it is evaluated beside."""
    seed: int
    episodes: int


class TrainCritics(NamedTuple):
    """Task: gradient steps on the published critics; the published actor is the target policy."""

    version: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    job: GradientJob


class TrainLearner(NamedTuple):
    """Task: gradient steps on the published learner, actor and critics together."""

    version: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    job: GradientJob


class Lived(NamedTuple):
    """Result of `Live` and of `Explore`."""

    vector: np.ndarray | None
    """Parameters `[P]` after the gradient steps; None if there were none."""
    episode_return: float
    length: int
    kind: int
    """How the episode ended: TERMINATED or TRUNCATED."""
    observations: np.ndarray
    """[T + 1, D] float32"""
    actions: np.ndarray
    """[T, A] float32; a discrete one counts from 0."""
    rewards: np.ndarray
    """[T] float32"""


class MeanEvaluated(NamedTuple):
    """Result of `EvaluateMean`."""

    returns: tuple[float, ...]
    env_steps: int


class CriticsTrained(NamedTuple):
    """Result of `TrainCritics`."""

    state: "State"
    metrics: Metrics


class LearnerTrained(NamedTuple):
    """Result of `TrainLearner`."""

    state: "State"
    metrics: Metrics


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
    """What a steady-state strategy wants evaluated: a point of its newest distribution."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """Candidates asked before this one; names its noise and everything else about it."""
    version: int
    """Individuals told when it was asked."""
    vector: np.ndarray
    """Parameters `[P]`, float32."""


class Individual(NamedTuple):
    """A candidate that has lived: told in any order, perhaps changed by gradient steps."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    version: int
    vector: np.ndarray
    """Parameters `[P]` as they were evaluated, whatever was asked."""
    fitness: float
    mean_fitness: float | None = None
    """What the distribution's mean returned beside it; None where it was not evaluated."""
