"""Tasks and results: records that travel between a schedule and the workers of its pool."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from drumline.types import EpisodeRow, Metrics, Moments, State


class Evaluate(NamedTuple):
    """Task: one episode of θ + sign · std · noise(noise_key), or of θ itself when `sign` is 0.

    `version` names the published parameters, `member` the place in the generation; `seed` seeds the
    environment and every other random stream of this episode.
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


class EvaluateMembers(NamedTuple):
    """Task: several `Evaluate` of one version in one call; the result is a list of theirs."""

    tasks: tuple[Evaluate, ...]


class RehearseTwice(NamedTuple):
    """Task: run `task`, then `between`, then `task` again in one worker; results must be equal."""

    task: Evaluate
    between: Evaluate


class Evaluation(NamedTuple):
    """Result of `Evaluate`: one episode."""

    version: int
    member: int
    sign: int
    noise_key: int
    std: float
    fitness: float
    """Fitness of the update: the return, less the reward shift in training; or the sign return."""
    episode_return: float
    length: int
    """Env steps of the episode."""
    moments: Moments | None
    digest: bytes
    """SHA-256 over observations and rewards, empty unless the task is a rehearsal."""
    numbers: tuple[tuple[str, float], ...] = ()
    """Numbers in the last step's `info` of an evaluation, by name."""


class Rehearsal(NamedTuple):
    """Result of `RehearseTwice`: both runs of the same task."""

    first: Evaluation
    second: Evaluation
    place: bytes = b""
    """Name of the worker, another one in each; compared alone, and in no result."""


class Job(NamedTuple):
    """A logical worker's next work in virtual time: a known number of gradient steps, then env
    steps.

    The worker reports every step as progress of 1. `version` names the arrays that `published()`
    returned when the job was made.
    """

    task: Any
    version: int
    gradient_steps: int = 0
    least_env_steps: int = 0
    """Lower bound of the env steps; a higher one lets others' results be handled sooner."""
    transitions: int = 0
    """Transitions that the replay must have taken in all before the task may be sent."""
    watermark: int | None = None
    """End of the replay window that must stay whole until the task has finished."""

    @classmethod
    def training(cls, task: "TrainCritics | TrainLearner", steps: "GradientJob") -> "Job":
        """Return the job of a task that takes gradient steps and no env step."""
        return cls(
            task,
            task.version,
            gradient_steps=steps.steps,
            transitions=steps.watermark,
            watermark=steps.watermark,
        )


class Started(NamedTuple):
    """A job that a logical worker has started and whose end is not handled yet."""

    worker: int
    start: int
    """Virtual time of the start, in nanoseconds."""
    job: Job


class Told(NamedTuple):
    """A population's record of one handled event, which the run writes to its files."""

    metrics: Metrics
    """Metrics of the job, and of the update that it ends; may be empty."""
    episodes: tuple[EpisodeRow, ...] = ()
    """Episodes of the update that the event ends; empty if it ends none."""
    appended: tuple[tuple[str, bytes], ...] = ()
    """Transitions that entered the replay: (segment, bytes to append to its file)."""
    settled: bool = False
    """Whether the population's `state()` is of this event, not of an earlier one."""


class Event(NamedTuple):
    """The handled end of one job, in the order of handling."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """Number of the event in the run: 0, 1, …"""
    worker: int
    """Number of the logical worker; the critic's is the concurrency."""
    start: int
    end: int
    env_steps: int
    task: Any
    result: Any
    told: Told
    waited_seconds: float
    """Seconds between the end of its work and its handling: the cost of the virtual order."""


@dataclass(frozen=True)
class Snapshot:
    """The virtual queue between two events: all state from which a schedule can go on.

    Jobs in flight start again from their beginning; `versions` holds the published arrays that
    they name.
    """

    events: int = 0
    now: int = 0
    started: tuple[Started, ...] = ()
    """Jobs in flight, in the order of their starts."""
    versions: Mapping[int, Mapping[str, np.ndarray]] = field(default_factory=dict)


class GradientJob(NamedTuple):
    """Task: gradient steps on minibatches of one replay window."""

    steps: int
    watermark: int
    """End of the replay window that every minibatch of the job is drawn from."""
    seed: int
    """Root of the job's streams: which rows are drawn, and the noise on target actions."""


class Live(NamedTuple):
    """Task: gradient steps on the published actor, if any, and one episode for the replay."""

    version: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """Index of the individual."""
    seed: int
    """Seed of the episode."""
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
    """Seed of the episode and of its noise."""
    theta: float
    sigma: float
    scale: float


class EvaluateMean(NamedTuple):
    """Task: episodes of the published actor that nothing learns from."""

    version: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """Index of the individual that it is evaluated beside."""
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
    """End of the episode: TERMINATED or TRUNCATED."""
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


LEARNER = "learner/"
"""Prefix of the names of a published learner's arrays, from which `TrainLearner` continues."""
LEARNER_COUNTERS = ("actor_steps", "critic_steps")
"""Counters of a published learner, each published as an array of one number."""
