"""Cost of the driver over a Ray cluster beside that of a process pool: up to 1,024 lanes.

Episodes sleep (`cluster_lanes.py`), so what is measured is the pools' own work. Both pools have the
same workers and run the same generation in turns, so that load from elsewhere falls on both alike.
The cluster has several nodes on this machine; each host concatenates its workers' results.

    driver_us_per_result   CPU time of the driver's process, all of its threads, per result
    results_per_message    results in a host's (for the process pool: a worker's) message
    rate_share             results a second, as a share of what the sleeping lanes could give
    lone_call_us           CPU time of the driver for one Ray call that is waited for, and its wall
                           time in lone_call_wall_us

    python benchmarks/throughput/cluster_scale.py --out benchmarks/results/cluster_scale.csv
"""

import argparse
import logging
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cluster_lanes import STEPS, Episode, SleepingWorker, episodes
from provenance import provenance, write_table

from drumline.envs.timing import Gamma
from drumline.protocols import PublishedLayout
from drumline.runtime.cluster.node_messages import Heard
from drumline.runtime.cluster.node_pool import NodePool
from drumline.runtime.cluster.ray_pool import RayNodes
from drumline.runtime.process_pool import ProcessPool

CELLS = [
    (64, 0.05),
    (256, 0.05),
    (1024, 0.05),
    (256, 0.0125),
    (256, 1.0),
    (1024, 1.0),
]
"""(lanes, mean seconds of an episode)"""


class Turn(NamedTuple):
    """One generation on one pool."""

    wall: float
    driver: float
    messages: int


class CountedNodes:
    """Nodes of a cluster that count the messages with results."""

    def __init__(self, nodes: RayNodes):
        self.messages = 0
        self._nodes = nodes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nodes, name)

    def wait(self, links: Any, seconds: float) -> Any:
        news = self._nodes.wait(links, seconds)
        self.messages += sum(
            isinstance(what, Heard) and bool(what.done.serials) for _, what in news
        )
        return news


def turn(pool: Any, tasks: list[Episode], messages: Any) -> Turn:
    before, began, cpu = messages(), time.perf_counter(), time.process_time()
    pool.submit(tasks)
    seen: set[int] = set()
    while len(seen) < len(tasks):
        seen |= {done.result.number for done in pool.completed()}
    driver = time.process_time() - cpu
    return Turn(time.perf_counter() - began, driver, messages() - before)


def measure(nodes: CountedNodes, lanes: int, seconds: float, workers: int, turns: int) -> Any:
    """Return the turns of both pools with `lanes` lanes in all."""
    count = max(2 * lanes, min(8 * lanes, int(4.0 * lanes / seconds)), 64)
    tasks = episodes(Gamma(seconds / STEPS), count)
    layout: dict[str, Any] = {"published": PublishedLayout({}), "size": workers}
    factory = SleepingWorker(lanes // workers)
    made: dict[str, list[Turn]] = {"process": [], "ray": []}
    with ExitStack() as stack:
        process = stack.enter_context(closing(ProcessPool(factory, **layout)))
        over: Any = nodes
        ray = stack.enter_context(closing(NodePool(factory, nodes=over, **layout)))

        def spans() -> int:
            return sum(1 for _ in process.timeline())

        pools: dict[str, tuple[Any, Any]] = {
            "process": (process, spans),
            "ray": (ray, lambda: nodes.messages),
        }
        for pool, messages in pools.values():
            pool.publish(0, {})
            turn(pool, tasks, messages)  # workers are built, and leases have their size
        for number in range(turns):
            order = list(pools) if number % 2 else list(pools)[::-1]
            for name in order:
                made[name].append(turn(pools[name][0], tasks, pools[name][1]))
    return len(tasks), made


def columns(name: str, turns: list[Turn], count: int, best: float) -> dict[str, str]:
    """Return a pool's columns; `best` is the rate of results that its lanes could give."""
    driver = median(t.driver for t in turns)
    messages = median(count / max(1, t.messages) for t in turns)
    return {
        f"{name}_driver_ms_per_generation": f"{1e3 * driver:.2f}",
        f"{name}_driver_us_per_result": f"{1e6 * driver / count:.2f}",
        f"{name}_results_per_message": f"{messages:.1f}",
        f"{name}_rate_share": f"{median(count / t.wall for t in turns) / best:.3f}",
        f"{name}_driver_core_share": f"{median(t.driver / t.wall for t in turns):.3f}",
    }


def lone_call(calls: int) -> tuple[float, float]:
    """Return CPU and wall microseconds of the driver for one call of an actor."""
    import ray

    class Echo:
        def say(self, value: int) -> int:
            return value

    actor = ray.remote(Echo).options(num_cpus=0).remote()
    for number in range(50):
        ray.get(actor.say.remote(number))
    cpu, began = time.process_time(), time.perf_counter()
    for number in range(calls):
        ray.get(actor.say.remote(number))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    ray.kill(actor)
    return 1e6 * cpu / calls, 1e6 * wall / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    logging.getLogger("ray").setLevel(logging.ERROR)
    from ray.cluster_utils import Cluster

    Path(tempfile.gettempdir(), "ray").mkdir(exist_ok=True)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="drum") as folder, ExitStack() as stack:
        node = {"num_cpus": options.workers // options.nodes, "object_store_memory": 80 << 20}
        cluster = Cluster(
            initialize_head=True,
            head_node_args={**node, "include_dashboard": False, "temp_dir": folder},
        )
        stack.callback(cluster.shutdown)
        for _ in range(options.nodes - 1):
            cluster.add_node(**node)
        nodes = CountedNodes(stack.enter_context(closing(RayNodes(cluster.address))))
        call, call_wall = lone_call(500)
        for lanes, seconds in CELLS:
            count, made = measure(nodes, lanes, seconds, options.workers, options.turns)
            row: dict[str, object] = {
                "lanes": lanes,
                "episode_seconds": seconds,
                "nodes": options.nodes,
                "worker_processes": options.workers,
                "results_per_generation": count,
                "turns": options.turns,
            }
            for name, turns in made.items():
                row |= columns(name, turns, count, lanes / seconds)
            pairs = zip(made["ray"], made["process"], strict=True)
            row["driver_ratio_of_pairs_median"] = (
                f"{median(r.driver / p.driver for r, p in pairs):.3f}"
            )
            row |= {"lone_call_us": f"{call:.1f}", "lone_call_wall_us": f"{call_wall:.1f}"}
            rows.append({**row, **provenance([0])})
            print(row, flush=True)
            write_table(options.out, rows)


if __name__ == "__main__":
    main()
