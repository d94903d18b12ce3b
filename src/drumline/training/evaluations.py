"""Scheduled evaluations of a run: in its own pool beside training, or while training waits.

Beside training, an evaluation is begun at its update and written down when the next one begins
(or at the end), so that the order of rows does not depend on how long it takes.
"""

from collections.abc import Callable, Mapping

import numpy as np

from drumline import seeding
from drumline.protocols import WorkerPool
from drumline.schedules import evaluations
from drumline.tasks import Evaluate
from drumline.training.course import published_copy
from drumline.training.ledger import Ledger
from drumline.training.run_request import RunConfig
from drumline.types import State

_PENDING = "pending/"
_COUNTERS = ("pending_update", "pending_steps")


def scheduled_tasks(config: RunConfig, version: int) -> list[Evaluate]:
    """Return the episodes with which a run evaluates one version.

    A method from outside need not have `evaluate_max_steps`.
    """
    cap: int = getattr(config, "evaluate_max_steps", 0)
    return evaluation_tasks(config.seed, version, config.evaluate_episodes, cap)


def evaluation_tasks(seed: int, version: int, count: int, episode_cap: int = 0) -> list[Evaluate]:
    """Return noiseless episodes of the parameters themselves; nothing learns of them.

    `episode_cap`: env steps after which an episode is cut; 0 for none.
    """
    seeds = seeding.seeds(seed, count, "evaluation", version)
    return [
        Evaluate(version, member, 0, 0, episode_seed, 0.0, episode_cap, False, False)
        for member, episode_seed in enumerate(seeds)
    ]


def evaluate_now(
    ledger: Ledger,
    config: RunConfig,
    pool: WorkerPool,
    published: Mapping[str, np.ndarray],
    policy: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Evaluate the present version and record it; training waits meanwhile.

    `policy`: arrays for the policy files, where these are not all published arrays.
    """
    tasks = scheduled_tasks(config, ledger.update)
    if not tasks:
        return
    with seeding.kept_globals():  # an inline pool seeds this process
        evaluations.begin(pool, ledger.update, published, tasks)
        evaluated = evaluations.collect(pool, tasks, ledger.evaluating(len(tasks)))
    ledger.record_evaluation(evaluated, published if policy is None else policy)


class EvaluationBeside:
    """The evaluation in flight, if any; `published` gives the policy of the present update."""

    def __init__(
        self, config: RunConfig, ledger: Ledger, published: Callable[[], Mapping[str, np.ndarray]]
    ):
        self._config = config
        self._ledger = ledger
        self._published = published
        self._policy: dict[str, np.ndarray] = {}
        self._update = 0
        """Update of the policy in evaluation; 0: none."""
        self._steps = 0

    def begin_again(self, pool: WorkerPool) -> None:
        """Submit the evaluation that was in flight, after a resume."""
        if self._update:
            evaluations.begin(pool, self._update, self._policy, self._tasks())

    def begin_if_due(self, pool: WorkerPool) -> None:
        """Record the evaluation in flight and begin that of this update, if it has one."""
        update = self._ledger.update
        if evaluations.is_due(self._config.evaluate_every, update) and self._update != update:
            self._begin(pool)

    def end(self, pool: WorkerPool) -> None:
        """Evaluate the last policy and record all evaluations."""
        if self._update != self._ledger.update:
            self._begin(pool)
        self._collect(pool)

    def state(self) -> State:
        """Return the state of the evaluation in flight."""
        tensors = {_PENDING + name: array for name, array in self._policy.items()}
        return State(tensors, dict(zip(_COUNTERS, (self._update, self._steps), strict=True)))

    def load(self, state: State) -> None:
        """Load the state of the evaluation in flight."""
        self._update, self._steps = (int(state.counter(name)) for name in _COUNTERS)
        names = self._published() if self._update else ()
        self._policy = {name: state.tensor(_PENDING + name) for name in names}

    def _tasks(self) -> list[Evaluate]:
        return scheduled_tasks(self._config, self._update)

    def _begin(self, pool: WorkerPool) -> None:
        self._collect(pool)
        self._policy = published_copy(self._published())
        self._update = self._ledger.update
        self._steps = int(self._ledger.counters["env_steps"])
        evaluations.begin(pool, self._update, self._policy, self._tasks())

    def _collect(self, pool: WorkerPool) -> None:
        """Wait for the evaluation in flight and record it, always at the same update."""
        if not self._update:
            return
        tasks = self._tasks()
        evaluated = evaluations.collect(pool, tasks, self._ledger.evaluating(len(tasks)))
        self._ledger.record_evaluation(evaluated, self._policy, self._steps)
        self._policy, self._update = {}, 0
