"""A training as its display shows it: speed, shares of time, curve, the numbers of the method."""

import re
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from drumline.display.state import DisplayState, ReturnCurve, RoleShares, Throughput
from drumline.runtime.cores import available_cores
from drumline.runtime.machine_use import UseSampler
from drumline.training.run_identity import RunIdentity
from drumline.types import EvaluationRow, Metrics, ProcessActivity

_IS_COUNTER = re.compile(
    r"(^|_)(steps|seconds|episodes|transitions|count|tells|second)($|_)|^episode_|^update_skipped$"
    r"|^(kind|event|logical_worker|fitness|mean_fitness|accepted)$"
)
"""Columns of metrics.csv that the dashboard shows in other rows, or not at all."""


class ShownProgress:
    """Gathers, as a training goes on, what its counters and rows do not hold."""

    def __init__(self, identity: RunIdentity):
        self._identity = identity
        self._throughput = Throughput()
        self._role_shares = RoleShares()
        self._use, self._cores = UseSampler(), available_cores()
        self._seconds = {"update": 0.0, "evaluation": 0.0, "checkpoints": 0.0}
        """Seconds of this session in which the run waited for these."""
        self._evaluation_began: float | None = None
        self._curve = ReturnCurve()
        self._skipped = 0
        self._evaluating = (0, 0)
        """Episodes that have ended and all episodes of the evaluation that the run waits for."""

    def begin(self, env_steps: int) -> None:
        """Start counting speed."""
        self._throughput.add(env_steps, time.perf_counter())

    def updated(self, metrics: Metrics, seconds: float) -> None:
        """Take an update's metrics, and the seconds that it took."""
        self._curve.append(metrics["episode_return_mean"])
        self._skipped += int(metrics.get("update_skipped", 0.0))
        self.waited("update", seconds)

    def waited(self, phase: str, seconds: float) -> None:
        """Count seconds in which the run waited for an update, an evaluation or a checkpoint."""
        self._seconds[phase] += seconds

    def evaluating(self, episodes: int) -> Callable[[int], None]:
        """Return a function that takes the number of ended episodes of the evaluation."""
        self._evaluation_began = time.perf_counter()

        def ended(count: int) -> None:
            self._evaluating = (count, episodes)

        return ended

    def evaluated(self) -> None:
        """Take note that no evaluation is waited for any more."""
        self._evaluating = (0, 0)
        if self._evaluation_began is not None:
            self.waited("evaluation", time.perf_counter() - self._evaluation_began)
            self._evaluation_began = None

    def state(
        self,
        rows: Sequence[ProcessActivity],
        *,
        update: int,
        counters: Mapping[str, int | float],
        metrics: Metrics,
        wall_seconds: float,
        session_seconds: float,
        evaluation: EvaluationRow | None,
    ) -> DisplayState:
        """Return what a refresh shows; `metrics` are the latest update's, `rows` the processes."""
        now, run = time.perf_counter(), self._identity
        self._throughput.add(int(counters["env_steps"]), now)
        busy: dict[tuple[str, int], float] = {}
        for row in rows:
            place = (row.role, row.index)
            busy[place] = busy.get(place, 0.0) + row.busy_seconds
        self._role_shares.add(busy, now)
        self._use.sample()
        elapsed, use = max(session_seconds, 1e-9), self._use.newest
        best = float(counters["best_evaluation"])
        return DisplayState(
            method=run.method,
            env_id=run.env_id,
            update=update,
            env_steps=int(counters["env_steps"]),
            total_steps=run.total_steps,
            episodes=int(counters["episodes"]),
            wall_seconds=wall_seconds,
            return_curve=self._curve.values,
            evaluation_mean=None if evaluation is None else evaluation.mean,
            evaluation_best=best if np.isfinite(best) else None,
            evaluation_info={} if evaluation is None else dict(evaluation.info),
            env_steps_per_second_10s=self._throughput.recent(),
            env_steps_per_second_run=self._throughput.whole_run(),
            eta_seconds=self._throughput.eta_seconds(run.total_steps),
            busy_shares=[min(1.0, busy[place] / elapsed) for place in sorted(busy)],
            restarts=sum(row.restarts > 0 for row in rows),
            update_skipped=self._skipped,
            words=run.words,
            evaluated_episodes=self._evaluating[0],
            evaluation_episodes=self._evaluating[1],
            busy_roles=dict(self._role_shares.newest),
            busy_history=self._role_shares.history,
            metrics={
                name: float(value)
                for name, value in metrics.items()
                if not _IS_COUNTER.search(name)
            },
            phases={name: s / elapsed for name, s in self._seconds.items() if s},
            memory_bytes=0 if use is None else use.memory_bytes,
            cores_busy=0.0 if use is None else use.cores_busy,
            cores=self._cores,
        )
