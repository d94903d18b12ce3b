"""Cost of the virtual clock with a core per logical worker: jobs sleep, so two cores are enough.

Idle share of the logical workers, and individuals per second against the wall clock, from the
first job to the last `ask` (the drain at the end is no loss). Individuals of half the runs
are refined by as many gradient steps as an episode is long, and a critic works beside them. Virtual
costs are the true ones, or one of the three is wrong by two. `jitter` is the log-std of how fast a
job really is: two machines' worth of noise that no virtual cost can know.

    python benchmarks/throughput/virtual_clock.py --out benchmarks/results/virtual_clock.csv
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from sleeping_jobs import (
    ACTOR_STEP,
    CRITIC_STEP,
    ENV_STEP,
    LAWS,
    SleepingPopulation,
    sleeping_worker,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.protocols import PublishedLayout
from drumline.runtime.process_pool import ProcessPool
from drumline.schedules.event_order import ArrivalOrder, VirtualCosts, VirtualOrder
from drumline.schedules.steady_state import SteadyState
from drumline.types import Span

NOTHING = PublishedLayout({})


class Setting(NamedTuple):
    """One run; a cost's factor is what the virtual clock believes over what is true."""

    clock: str
    law: str
    refined: float
    jitter: float
    env_factor: float = 1.0
    actor_factor: float = 1.0
    critic_factor: float = 1.0


class Measured(NamedTuple):
    """Result of one run."""

    idle_share: float
    individuals_per_second: float


def settings(jitters: list[float]) -> Iterator[Setting]:
    for law in LAWS:
        for refined in (0.0, 0.5):
            for jitter in jitters:
                yield Setting("wall", law, refined, jitter)
                yield Setting("virtual", law, refined, jitter)
    for law in ("constant", "exponential"):
        for factor in (0.5, 2.0):
            for name in ("env_factor", "actor_factor", "critic_factor"):
                yield Setting("virtual", law, 0.5, 0.0)._replace(**{name: factor})


def measure(
    setting: Setting, pool: ProcessPool, options: argparse.Namespace, seed: int
) -> Measured:
    population = SleepingPopulation(
        options.individuals,
        setting.law,
        setting.refined,
        options.mean_length,
        setting.jitter,
        seed,
    )
    schedule = SteadyState(
        population,
        pool,
        concurrency=options.concurrency,
        costs=VirtualCosts(
            round(ENV_STEP * setting.env_factor * 1e9),
            round(ACTOR_STEP * setting.actor_factor * 1e9),
            round(CRITIC_STEP * setting.critic_factor * 1e9),
        ),
        order=ArrivalOrder() if setting.clock == "wall" else VirtualOrder(),
    )
    began, ended, told = perf_counter(), 0.0, 0
    for _ in schedule.events():
        if population.finished and not ended:
            ended, told = perf_counter(), population.told
    busy = sum(busy_within(span, began, ended) for span in schedule.timeline())
    seconds = ended - began
    return Measured(1.0 - busy / (options.concurrency * seconds), told / seconds)


def busy_within(span: Span, began: float, ended: float) -> float:
    if span.role != "logical worker":
        return 0.0
    return max(0.0, min(span.end, ended) - max(span.start, began))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--concurrency", type=int, default=5)
    parser.add_argument("--individuals", type=int, default=100)
    parser.add_argument("--mean-length", type=int, default=100)
    parser.add_argument("--jitters", type=float, nargs="*", default=[0.0, 0.2])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    options = parser.parse_args()
    pool = ProcessPool(
        sleeping_worker,
        size=options.concurrency + 1,
        published=NOTHING,
        versions=options.concurrency + 1,
        one_task_leases=True,
    )
    while not all(pool.ready_seconds):
        pool.completed(0.01)
    rows: list[dict[str, object]] = []
    wall: dict[tuple[str, float, float], float] = {}
    for setting in settings(options.jitters):
        runs = [measure(setting, pool, options, seed) for seed in options.seeds]
        rate = median(run.individuals_per_second for run in runs)
        mix = (setting.law, setting.refined, setting.jitter)
        if setting.clock == "wall":
            wall[mix] = rate
        rows.append(
            {
                **setting._asdict(),
                "concurrency": options.concurrency,
                "individuals": options.individuals,
                "mean_length": options.mean_length,
                "idle_share_median": f"{median(run.idle_share for run in runs):.4f}",
                "individuals_per_second_median": f"{rate:.3f}",
                "of_wall_clock": f"{rate / wall[mix]:.4f}" if mix in wall else "",
                **provenance(options.seeds),
            }
        )
        print(*list(rows[-1].values())[:13], flush=True)
    pool.close()
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
