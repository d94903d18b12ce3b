"""The worker that calls an objective: it stands beside the evaluator and runs the same tasks."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline import seeding
from drumline.functional import perturbation
from drumline.functional.low_rank import LowRank, seeded_noise
from drumline.functional.perturbation import Pieces
from drumline.functional.subspace import SubspaceSpec
from drumline.protocols import Worker, WorkerContext
from drumline.tasks import (
    Evaluate,
    EvaluateMean,
    EvaluateMembers,
    Evaluation,
    MeanEvaluated,
    RehearseTwice,
)
from drumline.workers.noise import noise_reader
from drumline.workers.objective import Objective, ObjectiveFunction
from drumline.workers.rehearsed import rehearsed

_PROOF_SEED = 20170310


@dataclass(frozen=True)
class ObjectiveSpec:
    """Everything an objective worker needs besides tasks; a pool calls it to build one."""

    objective: Objective
    noise_seed: int | None
    """Seed of counter noise; None when the pool shares a noise table."""
    subset_fraction: float | None = None
    """Perturb only this share of the parameters."""
    subspace: SubspaceSpec | None = None
    """Perturb within this subspace."""
    low_rank: LowRank | None = None
    """Matrices of counter noise of low rank; None: it has full rank."""

    def __call__(self, context: WorkerContext) -> "ObjectiveWorker":
        """Build the worker inside its process."""
        return ObjectiveWorker(self, context)

    def proof(self) -> "ObjectiveProofSpec":
        """Return the factory of the known answer for other machines."""
        return ObjectiveProofSpec(self.objective, self.low_rank)


class ObjectiveWorker:
    """Runs tasks by calls of an objective; a result is a pure function of task and parameters."""

    def __init__(self, spec: ObjectiveSpec, context: WorkerContext):
        self._spec = spec
        self._context = context
        self._function = ObjectiveFunction(spec.objective, spec.low_rank, spec.noise_seed)
        self._called = False
        self._read = noise_reader(spec.noise_seed, spec.subspace, context.shared, spec.low_rank)

    def __call__(self, task: Evaluate | EvaluateMembers | EvaluateMean | RehearseTwice) -> Any:
        """Run one task."""
        if isinstance(task, EvaluateMembers):
            return self._evaluate_members(task.tasks)
        if isinstance(task, RehearseTwice):
            return rehearsed(self, task, lambda each, digest: self._evaluate(each, digest=digest))
        if isinstance(task, EvaluateMean):
            return self._evaluate_mean(task)
        return self._evaluate(task, digest=False)

    def _evaluate(self, task: Evaluate, *, digest: bool) -> Evaluation:
        if self._spec.objective.members_per_call > 1:
            return self._evaluate_members((task,), digest=digest)[0]
        pieces = self._pieces(task)
        self._context.probe("episode-begun")
        values = self._values(pieces, task.seed)
        self._context.probe("episode-ended")
        return _evaluation(task, values, digest=digest)

    def _evaluate_members(
        self, tasks: Sequence[Evaluate], *, digest: bool = False
    ) -> list[Evaluation]:
        version = tasks[0].version
        parameters = self._context.published(version)["parameters"]
        members = [(task.noise_key, task.sign * task.std) for task in tasks]
        self._context.probe("episode-begun")
        with self._first_call():
            rows = self._function.of_members(version, parameters, members, [t.seed for t in tasks])
        self._context.progress(sum(map(len, rows)))
        self._context.probe("episode-ended")
        return [
            _evaluation(task, row, digest=digest) for task, row in zip(tasks, rows, strict=True)
        ]

    def _evaluate_mean(self, task: EvaluateMean) -> MeanEvaluated:
        self._context.probe("mean-begun")
        mean = self._context.published(task.version)["parameters"]
        seeds = seeding.seeds(task.seed, task.episodes, "mean-evaluation")
        values = [self._values(perturbation.pieces_of(mean), seed) for seed in seeds]
        self._context.probe("mean-ended")
        return MeanEvaluated(tuple(map(_mean, values)), sum(map(len, values)))

    def _values(self, pieces: Pieces, seed: int) -> tuple[float, ...]:
        with self._first_call():
            values = self._function.at(pieces, seed)
        self._context.progress(len(values))
        return values

    @contextmanager
    def _first_call(self) -> Iterator[None]:
        """The first call may compile, as an environment's first step may."""
        with nullcontext() if self._called else self._context.building():
            yield
        self._called = True

    def _pieces(self, task: Evaluate) -> Pieces:
        """Return the parameters of a task; published ones are in memory that all workers share."""
        published = self._context.published(task.version)
        parameters = published["parameters"]
        if task.training and "population" in published:
            return perturbation.pieces_of(published["population"][task.member])
        if task.sign == 0:
            return perturbation.pieces_of(parameters)
        within = None
        if self._spec.subset_fraction is not None:
            within = perturbation.subset_range(
                task.noise_key, parameters.size, self._spec.subset_fraction
            )
        scale = task.sign * task.std
        return perturbation.perturbed_pieces(parameters, self._read, task.noise_key, scale, within)


@dataclass(frozen=True)
class ObjectiveProofSpec:
    """Factory of a worker that answers any task with the same SHA-256, over noise and a call."""

    objective: Objective
    low_rank: LowRank | None = None

    def __call__(self, context: WorkerContext) -> Worker:
        """Build the worker inside its process."""
        function = ObjectiveFunction(self.objective, self.low_rank, _PROOF_SEED)
        noise = seeded_noise(_PROOF_SEED, self.low_rank)

        def answer(task: object) -> bytes:
            count = self.objective.dimensions
            keys = [0, 1, 1 << 32, 3 << 32]
            weights = [0.05, -0.025, 0.0125, 0.00625]
            vector = noise.weighted_sum(keys, weights, count, 1)
            with context.building():
                values = function.proved(vector, _PROOF_SEED)
            return hashlib.sha256(vector.tobytes() + _digest(values)).digest()

        return answer


def _evaluation(task: Evaluate, values: tuple[float, ...], *, digest: bool) -> Evaluation:
    fitness = _mean(values)
    return Evaluation(
        version=task.version,
        member=task.member,
        sign=task.sign,
        noise_key=task.noise_key,
        std=task.std,
        fitness=fitness,
        episode_return=fitness,
        length=len(values),
        moments=None,
        digest=_digest(values) if digest else b"",
    )


def _mean(values: tuple[float, ...]) -> float:
    return math.fsum(values) / len(values)


def _digest(values: tuple[float, ...]) -> bytes:
    return hashlib.sha256(np.array(values).tobytes()).digest()
