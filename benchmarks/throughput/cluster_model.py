"""Simulated time of a published OpenAI-ES run on up to 10,000 workers: driver, tree and network.

Every generation is simulated: its episodes go to the workers in order of their becoming idle; the
hosts' messages, one at most in the time for which results wait (longer with more nodes:
`runtime/cluster/gathering.py`) and node, queue at the driver; then the driver updates and sends the
parameters to every node. The cost of a message and of a result is fitted to the newest rows of
cluster_scale.csv.
What else is assumed:

    work            the published run on 18 cores, 657 min of each, is all episodes and no waiting
    episodes        n a generation with a mean of `mean` seconds, Gamma of shape 4, cut at 4 means
    node            18 workers, as in the published 80 machines with 1,440 cores
    network         10 Gbit/s at the driver; 167k parameters of 4 bytes to each node, one by one
    update          5 ns for each parameter and episode, divided by 18 cores

The published run does not say n or the mean: rows for several are given. The published points are
1,440 cores in 10 min (Salimans et al. 2017) and 8,192 cores on Ray in 3.7 min (Moritz et al. 2018).

    python benchmarks/throughput/cluster_model.py --out benchmarks/results/cluster_model.csv
"""

import argparse
import csv
import heapq
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.runtime.cluster.gathering import waits_among

RESULTS = Path(__file__).resolve().parents[1] / "results"
PUBLISHED = {18: 657.0, 1440: 10.0, 8192: 3.7}
"""Cores → minutes."""
WORKERS = (18, 144, 1440, 4096, 8192, 10000)
NODE = 18
BEFORE = ("8c995cb", "f6fca7e", "87bd9e6", "04797c9")
"""Commits whose driver worked in another way."""
PARAMETERS = 167_000
BYTES_PER_SECOND = 1.25e9
UPDATE_SECONDS = 5e-9 / 18
SHAPE = 4.0
GENERATIONS = 5
"""Simulated generations; the others last as long on average."""


class Driver(NamedTuple):
    """Seconds of the driver's core."""

    message: float
    result: float


class Generation(NamedTuple):
    """Mean seconds of a generation, and where they go."""

    seconds: float
    driver_busy: float
    network: float
    update: float
    ideal: float


def fitted(path: Path) -> Driver:
    """Return the non-negative least-squares costs behind the measured cells."""
    with open(path) as lines:
        rows = list(csv.DictReader(lines))
    rows = [row for row in rows if row["commit"] not in BEFORE]
    messages = [1.0 / float(row["ray_results_per_message"]) for row in rows]
    cost = [1e-6 * float(row["ray_driver_us_per_result"]) for row in rows]
    at_least = min(1e-6 * float(row["process_driver_us_per_result"]) for row in rows)
    design = np.column_stack([messages, np.ones(len(rows))])
    found, _ = nnls(design, np.array(cost))
    return Driver(float(found[0]), max(float(found[1]), at_least))


def simulated(
    rng: np.random.Generator, workers: int, episodes: int, mean: float, driver: Driver
) -> Generation:
    """Return the mean of a few generations."""
    nodes = -(-workers // NODE)
    gather = waits_among(nodes).gather
    network = nodes * 4.0 * PARAMETERS / BYTES_PER_SECOND
    update = UPDATE_SECONDS * PARAMETERS * episodes
    seconds = busy = 0.0
    for _ in range(GENERATIONS):
        lengths = np.minimum(rng.gamma(SHAPE, mean / SHAPE, episodes), 4.0 * mean)
        idle = [(0.0, worker) for worker in range(workers)]
        arrivals: dict[tuple[int, int], int] = {}
        last = 0.0
        for length in lengths.tolist():
            start, worker = idle[0]
            end = start + length
            heapq.heapreplace(idle, (end, worker))
            last = max(last, end)
            key = int(end / gather), worker // NODE
            arrivals[key] = arrivals.get(key, 0) + 1
        free = 0.0
        for (slot, _), results in sorted(arrivals.items()):
            arrived = min((slot + 1) * gather, last)
            cost = driver.message + results * driver.result
            free = max(free, arrived) + cost
            busy += cost / GENERATIONS
        seconds += (max(free, last) + network + update) / GENERATIONS
    ideal = episodes * mean / workers
    return Generation(seconds, busy, network, update, ideal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    driver = fitted(RESULTS / "cluster_scale.csv")
    work = PUBLISHED[18] * 60.0 * 18
    rows: list[dict[str, object]] = []
    for episodes in (1440, 10_000):
        for mean in (1.0, 4.0):
            rng = np.random.default_rng(0)
            generations = work / (episodes * mean)
            for workers in WORKERS:
                made = simulated(rng, workers, episodes, mean, driver)
                rows.append(
                    {
                        "episodes_per_generation": episodes,
                        "episode_mean_seconds": mean,
                        "workers": workers,
                        "minutes": f"{generations * made.seconds / 60.0:.2f}",
                        "published_minutes": PUBLISHED.get(workers, ""),
                        "minutes_without_any_waiting": f"{work / workers / 60.0:.2f}",
                        "driver_busy_share": f"{made.driver_busy / made.seconds:.3f}",
                        "network_share": f"{made.network / made.seconds:.3f}",
                        "update_share": f"{made.update / made.seconds:.3f}",
                        "message_us": f"{1e6 * driver.message:.1f}",
                        "result_us": f"{1e6 * driver.result:.1f}",
                        **provenance([0]),
                    }
                )
                print({k: v for k, v in rows[-1].items() if k != "machine"}, flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
