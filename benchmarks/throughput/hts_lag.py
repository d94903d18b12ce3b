"""Policy lag of an asynchronous learner, measured beside HTS-RL's claim 2 (Liu et al. 2020).

Our own `impala` schedule, crew and queue of unrolls over environments that only sleep: n of them
make one transition each after exponential times, and a learner takes them one by one, each update
after an exponential time. The claim counts the updates while a transition queues: E[N] of M/M/1 =
ρ / (1 − ρ). The policy that acted is older: while its own step lasts, the learner goes on, by
updates per second × mean step time. `predicted_lag` is the sum of both, with the room that our
queue has: two transitions of each environment. HTS-RL's lag is 1, whatever the times.

    python benchmarks/throughput/hts_lag.py --out benchmarks/results/hts_lag.csv

The utilization ρ is measured: transitions per second × mean seconds of the learner for one. So the
time of our own code counts as service.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from provenance import provenance, write_table
from sleeping import Cell, Idle, crew_of
from theory.throughput import queue_lag

from drumline.buffers.rollout import RolloutStorage
from drumline.envs.timing import parse_step_time
from drumline.schedules.free_running import free_running
from drumline.training.unroll_queue import UnrollQueue
from drumline.types import Metrics, Rollout

STEP_SECONDS = 0.04
LAW = "exponential:40ms"
SKIPPED = 0.1
"""Share of the updates before the measured ones: the queue is empty at the start."""
MOST_UPDATES = 1 << 20


class Server(Idle):
    """A learner whose updates take exponential times."""

    def __init__(self, arrays: Mapping[str, np.ndarray], mean_seconds: float, seed: int):
        super().__init__(arrays, 0.0)
        self._rng = np.random.default_rng(seed)
        self._mean = mean_seconds

    def update(self, rollout: Rollout, behavior: Mapping[str, np.ndarray]) -> Metrics:
        """Sleep as long as this update takes."""
        time.sleep(self._rng.exponential(self._mean))
        return {}


class Watched(UnrollQueue):
    """A queue that notes when each update began to work, and the lag of its transition."""

    def __init__(self, storage: RolloutStorage, exchange: object):
        super().__init__(storage, exchange, 0, lambda _, unroll, update: unroll.rewards)
        self.taken: list[float] = []
        self.counted: list[float] = []

    def take(self, count: int, update: int) -> Rollout:
        """Take as ever."""
        self.taken.append(time.perf_counter())
        rollout = super().take(count, update)
        self.counted.append(float(self.lags.mean()))
        return rollout


def measured(environments: int, utilization: float, seconds: float, seed: int) -> dict[str, float]:
    """Return the lag of a queue for some seconds, with its rate and its utilization."""
    cell = Cell(environments, 1, parse_step_time(LAW), "none", seed=seed)
    crew, shape, arrays = crew_of(cell, newest=True)
    server = Server(arrays, utilization * STEP_SECONDS / environments, seed)
    try:
        crew.exchange.release(1)
        crew.start()
        queue = Watched(RolloutStorage(shape, crew.arrays), crew.exchange)
        course = free_running(server, crew, queue, batch=1, updates=MOST_UPDATES)
        ended: list[float] = []
        for _ in course:
            ended.append(time.perf_counter())
            if ended[-1] - ended[0] > seconds:
                break
    finally:
        crew.close()
    first = int(SKIPPED * len(ended))
    served = np.array(ended[first:]) - np.array(queue.taken[first : len(ended)])
    rate = (len(ended) - first - 1) / (ended[-1] - ended[first])
    return {
        "updates": len(ended) - first,
        "updates_per_second": rate,
        "utilization": rate * float(served.mean()),
        "measured_lag": float(np.mean(queue.counted[first : len(ended)])),
        "largest_lag": float(np.max(queue.counted[first : len(ended)])),
    }


def rows_of(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield a row for each number of environments and utilization."""
    for environments in options.envs:
        for wanted in options.utilizations:
            found = measured(environments, wanted, options.seconds, options.seed)
            own, rho = found["updates_per_second"] * STEP_SECONDS, found["utilization"]
            room = queue_lag(min(rho, 0.999), 2 * environments)
            yield {
                "environments": environments,
                "wanted_utilization": wanted,
                "utilization": f"{rho:.3f}",
                "updates": int(found["updates"]),
                "updates_per_second": f"{found['updates_per_second']:.1f}",
                "measured_lag": f"{found['measured_lag']:.2f}",
                "largest_lag": f"{found['largest_lag']:.0f}",
                "claimed_lag": f"{queue_lag(rho):.2f}",
                "updates_within_a_step": f"{own:.2f}",
                "predicted_lag": f"{room + own:.2f}",
                "measured_over_predicted": f"{found['measured_lag'] / (room + own):.3f}",
                **provenance([options.seed]),
            }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--envs", type=int, nargs="*", default=[4, 16, 32])
    parser.add_argument(
        "--utilizations", type=float, nargs="*", default=[0.2, 0.5, 0.7, 0.8, 0.9, 1.2]
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of a row")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = []
    for row in rows_of(options):
        found.append(row)
        words = [f"{name} {row[name]}" for name in list(row)[:11]]
        print(", ".join(words), flush=True)
    write_table(options.out, found)


if __name__ == "__main__":
    main()
