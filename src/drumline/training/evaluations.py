"""Scheduled evaluations of a run: in its own pool beside training, or while training waits.

Beside training, an evaluation is begun at its update and written down when the next one begins
(or at the end), so that the order of rows does not depend on how long it takes.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from drumline import seeding
from drumline.protocols import WorkerPool
from drumline.schedules import evaluations
from drumline.tasks import Evaluate
from drumline.training.attended_pool import AttendedPool
from drumline.training.course import published_copy
from drumline.training.ledger import Ledger
from drumline.training.run_request import RunConfig
from drumline.types import State

_PENDING, _BESIDE = "pending/", "pending_beside/"
_COUNTERS = ("pending_update", "pending_steps")
_LOOK_SECONDS = 0.005


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
        self,
        config: RunConfig,
        ledger: Ledger,
        published: Callable[[], Mapping[str, np.ndarray]],
        *,
        inline: bool,
        beside: Callable[[], Mapping[str, np.ndarray]] = dict,
    ):
        """`inline`: the pool runs episodes in this process, so training waits for them.

        `beside`: arrays for the policy files that no evaluator needs.
        """
        self._config = config
        self._ledger = ledger
        self._published = published
        self._beside = beside
        self._inline = inline
        self._pool: AttendedPool | None = None
        self._next_look = 0.0
        self._policy: dict[str, np.ndarray] = {}
        self._kept: dict[str, np.ndarray] = {}
        """Arrays that `beside` gave with the policy in evaluation."""
        self._update: int | None = None
        """Update of the policy in evaluation; None: no evaluation is in flight."""
        self._steps = 0

    def start(self, pool: AttendedPool) -> None:
        """Take the pool for all evaluations; submit the one that a resumed run had in flight."""
        self._pool = pool
        if self._update is not None:
            with self._aside():
                evaluations.begin(pool, self._update, self._policy, self._tasks())

    def look(self) -> None:
        """Let idle evaluators go on with the evaluation in flight; training calls it often.

        An episode that fails ends the run where its evaluation is recorded, as in any layout.
        """
        if self._pool is None or self._update is None or self._inline:
            return
        now = time.perf_counter()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS  # a lock-step run calls at every env step
            self._pool.look()

    def begin_if_due(self) -> None:
        """Record the evaluation in flight and begin that of this update, if it has one."""
        update = self._ledger.update
        if evaluations.is_due(self._config.evaluate_every, update) and self._update != update:
            self._begin()

    def end(self) -> None:
        """Evaluate the last policy and record all evaluations."""
        if self._update != self._ledger.update:
            self._begin()
        self._collect()

    def state(self) -> State:
        """Return the state of the evaluation in flight; update 0 stands for none.

        That of update 0 itself begins after a run's last checkpoint.
        """
        tensors = {
            **{_PENDING + name: array for name, array in self._policy.items()},
            **{_BESIDE + name: array for name, array in self._kept.items()},
        }
        counters = (self._update or 0, self._steps)
        return State(tensors, dict(zip(_COUNTERS, counters, strict=True)))

    def load(self, state: State) -> None:
        """Load the state of the evaluation in flight."""
        update, self._steps = (int(state.counter(name)) for name in _COUNTERS)
        self._update = update or None
        names = self._published() if self._update else ()
        self._policy = {name: state.tensor(_PENDING + name) for name in names}
        kept = [name for name in state.tensors if name.startswith(_BESIDE)]
        self._kept = {name.removeprefix(_BESIDE): state.tensor(name) for name in kept}

    def _tasks(self) -> list[Evaluate]:
        assert self._update is not None, "an evaluation is in flight"
        return scheduled_tasks(self._config, self._update)

    def _begin(self) -> None:
        assert self._pool is not None, "evaluations begin after `start`"
        self._collect()
        self._policy = published_copy(self._published())
        self._kept = published_copy(self._beside())
        self._update = self._ledger.update
        self._steps = int(self._ledger.counters["env_steps"])
        with self._aside():
            evaluations.begin(self._pool, self._update, self._policy, self._tasks())

    def _aside(self) -> AbstractContextManager[object]:
        """Keep the global generators, which training's own environments in this process may use."""
        return seeding.kept_globals() if self._inline else nullcontext()

    def _collect(self) -> None:
        """Wait for the evaluation in flight and record it, always at the same update."""
        if self._update is None:
            return
        assert self._pool is not None, "evaluations begin after `start`"
        tasks = self._tasks()
        with self._aside():
            evaluated = evaluations.collect(self._pool, tasks, self._ledger.evaluating(len(tasks)))
        policy = {**self._policy, **self._kept}
        self._ledger.record_evaluation(evaluated, policy, self._steps)
        self._policy, self._kept, self._update = {}, {}, None
