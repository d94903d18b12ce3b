"""Cost of `--pool ray` on one machine beside `--pool process`: generations of es, in turns.

Both pools live in one process and run the same tasks of the same generation, one after the other,
so that load from elsewhere falls on both alike. The results are compared bit for bit.

    wall       seconds from submission to the last result, driver idle times included
    processor  CPU seconds of the driver and of the pool's processes meanwhile; for Ray also those
               of its daemons, which run beside the other pool's turns too and are not counted there

    python benchmarks/throughput/ray_overhead.py --out benchmarks/results/ray_overhead.csv
"""

import argparse
import hashlib
import os
import sys
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.protocols import PublishedLayout
from drumline.recipes.methods import find_method
from drumline.runtime.cluster.node_pool import NodePool
from drumline.runtime.cluster.ray_pool import RayNodes
from drumline.runtime.process_pool import ProcessPool
from drumline.training.layout import SearchLayout


class Turn(NamedTuple):
    """One generation on one pool."""

    wall: float
    processor: float
    digest: str


def processor_seconds(pids: list[int]) -> dict[int, float]:
    """Return the CPU seconds of processes so far."""
    found: dict[int, float] = {}
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(pid).cpu_times()
            found[pid] = times.user + times.system
    return found


def spent(before: dict[int, float], after: dict[int, float]) -> float:
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


def turn(pool: Any, tasks: list[Any], pids: list[int]) -> Turn:
    before = processor_seconds(pids)
    began = time.perf_counter()
    pool.submit(tasks)
    results: dict[int, bytes] = {}
    while len(results) < len(tasks):
        for done in pool.completed():
            row = (done.task.member, done.result.episode_return, done.result.length)
            results[len(results)] = repr((*row, done.task.sign)).encode()
    wall = time.perf_counter() - began
    content = b"".join(sorted(results.values()))
    digest = hashlib.sha256(content).hexdigest()
    return Turn(wall, spent(before, processor_seconds(pids)), digest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    method = find_method("es")
    config = method.made(options.env, "")
    recipe = config.build(SearchLayout(workers=options.workers))
    arrays = recipe.strategy.published()
    layout = {"published": PublishedLayout.of(arrays), "shared": recipe.shared}
    with ExitStack() as stack:
        nodes = stack.enter_context(closing(RayNodes(cores=options.workers)))
        process = ProcessPool(recipe.worker, size=options.workers, **layout)
        stack.callback(process.close)
        ray = NodePool(recipe.worker, nodes=nodes, size=options.workers, **layout)
        stack.callback(ray.close)
        tasks = list(recipe.strategy.ask(options.episodes))
        pools: dict[str, Any] = {"process": process, "ray": ray}
        for pool in pools.values():
            pool.publish(tasks[0].version, arrays)
            turn(pool, tasks, [])  # workers are built
        own = [row.pid for row in process.activity()]
        everything = [p.pid for p in psutil.Process().children(recursive=True)]
        pids = {
            "process": [os.getpid(), *own],
            "ray": [os.getpid(), *(pid for pid in everything if pid not in own)],
        }
        turns: dict[str, list[Turn]] = {name: [] for name in pools}
        for number in range(options.turns):
            order = list(pools) if number % 2 else list(pools)[::-1]
            for name in order:
                turns[name].append(turn(pools[name], tasks, pids[name]))
    assert len({t.digest for made in turns.values() for t in made}) == 1, "the results differ"
    rows = []
    for what in ("wall", "processor"):
        seconds = {name: [getattr(t, what) for t in made] for name, made in turns.items()}
        ratios = [r / p for r, p in zip(seconds["ray"], seconds["process"], strict=True)]
        rows.append(
            {
                "environment": options.env,
                "workers": options.workers,
                "episodes_per_turn": options.episodes,
                "turns": options.turns,
                "seconds": what,
                "process_median": f"{median(seconds['process']):.4f}",
                "ray_median": f"{median(seconds['ray']):.4f}",
                "process_min": f"{min(seconds['process']):.4f}",
                "ray_min": f"{min(seconds['ray']):.4f}",
                "ratio_of_pairs_median": f"{median(ratios):.4f}",
                "ratio_of_pairs_min": f"{min(ratios):.4f}",
                "ratio_of_pairs_max": f"{max(ratios):.4f}",
                **provenance([config.seed]),
            }
        )
        print(rows[-1], flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
