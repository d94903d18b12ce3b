"""Scheduled evaluations beside training: one at a time, in a pool of their own.

An evaluation is begun at its update and written down at the next one's begin (or at the end), so
that the order of rows does not depend on how long it takes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from drumline.algorithms.mirrored import evaluation_tasks
from drumline.protocols import WorkerPool
from drumline.recipes.attended_pool import TICK_SECONDS, StopSignals
from drumline.recipes.course import published_copy, taken
from drumline.recipes.ledger import Ledger
from drumline.types import Evaluation, EvaluationRow, State

_PENDING = "pending/"
_COUNTERS = ("pending_update", "pending_steps")


class ScheduledEvaluation:
    """The evaluation that is out, if any; `published` gives the policy of the present update."""

    def __init__(
        self, config: Any, ledger: Ledger, published: Callable[[], Mapping[str, np.ndarray]]
    ):
        self._config = config
        self._ledger = ledger
        self._published = published
        self._policy: dict[str, np.ndarray] = {}
        self._update = 0
        """Of the policy that is out; 0: none."""
        self._steps = 0

    def begin_again(self, pool: WorkerPool) -> None:
        """After a resume: submit what was out."""
        if self._update:
            self._submit(pool)

    def begin_if_due(self, pool: WorkerPool, signals: StopSignals) -> bool:
        """Write down the evaluation that is out and begin that of this update, if it has one."""
        every, update = self._config.evaluate_every, self._ledger.update
        due = bool(every and update) and update % every == 0 and self._update != update
        if due:
            self._begin(pool, signals)
        return due

    def end(self, pool: WorkerPool, signals: StopSignals) -> None:
        """Evaluate the last policy, write everything down and save that policy."""
        if self._update != self._ledger.update:
            self._begin(pool, signals)
        self._collect(pool, signals)
        row: EvaluationRow | None = self._ledger.last_evaluation
        self._ledger.save_policy("last", row, self._published())

    def state(self) -> State:
        """Return what is out."""
        tensors = {_PENDING + name: array for name, array in self._policy.items()}
        return State(tensors, dict(zip(_COUNTERS, (self._update, self._steps), strict=True)))

    def load(self, state: State) -> None:
        """Take over what was out."""
        for name in _COUNTERS:
            if name not in state.counters:
                raise ValueError(f"the state has no counter {name!r}")
        self._update, self._steps = (int(state.counters[name]) for name in _COUNTERS)
        self._policy = taken(state, _PENDING, list(self._published())) if self._update else {}

    def _begin(self, pool: WorkerPool, signals: StopSignals) -> None:
        self._collect(pool, signals)
        self._policy = published_copy(self._published())
        self._update = self._ledger.update
        self._steps = int(self._ledger.counters["env_steps"])
        self._submit(pool)

    def _submit(self, pool: WorkerPool) -> None:
        config = self._config
        pool.publish(self._update, self._policy)
        pool.submit(evaluation_tasks(config.seed, self._update, config.evaluate_episodes))

    def _collect(self, pool: WorkerPool, signals: StopSignals) -> None:
        """Wait for the evaluation that is out, and write it down: always at the same update."""
        if not self._update:
            return
        results: dict[int, Evaluation] = {}
        while len(results) < self._config.evaluate_episodes:
            signals.arm()
            try:
                done = pool.completed(TICK_SECONDS)
            finally:
                signals.disarm()
            results.update((item.result.member, item.result) for item in done)
        evaluated = [results[member] for member in sorted(results)]
        self._ledger.record_evaluation(evaluated, self._policy, self._steps)
        self._policy, self._update = {}, 0
