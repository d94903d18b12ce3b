"""The update of OpenAI-ES against the memory bandwidth of the same minute on the same cores.

Reconstruction is Σᵢ wᵢ εᵢ over a noise table, as `OpenAIES.tell` calls it; it uses 4·n·P bytes of
noise. Bandwidth is that of the fastest of three plain passes over arrays much larger than the
caches: np.sum, np.dot of two arrays, and np.multiply with `out` (reading and writing); each thread
has arrays of its own. Both are the best of three in every round. `tell` is the whole step: order,
ranks, reconstruction, Adam, metrics.

    python benchmarks/throughput/es_update.py --out benchmarks/results/es_update.csv
"""

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.algorithms.mirrored import MirroredSampler
from drumline.algorithms.openai_es import OpenAIES
from drumline.algorithms.optimizers import Adam
from drumline.algorithms.search_state import constant_std
from drumline.functional.perturbation import Noise, fill_table, table_noise, weighted_noise_sum
from drumline.protocols import PublishedLayout
from drumline.runtime.shared_arrays import SharedArrays
from drumline.tasks import Evaluation

SEED = 0
BANDWIDTH_FLOATS = 1 << 25
"""128 MiB per array: four times the last-level cache that one socket of today's servers shows."""


def passes(arrays: Sequence[np.ndarray]) -> dict[str, tuple[Callable[[], object], int]]:
    """Return name → (one pass over the arrays of one thread, bytes that it moves)."""
    first, second, out = arrays
    size = first.nbytes
    return {
        "sum": (lambda: np.sum(first), size),
        "dot": (lambda: np.dot(first, second), 2 * size),
        "triad": (lambda: np.multiply(first, np.float32(0.5), out=out), 2 * size),
    }


class Rate(NamedTuple):
    """A speed by the clock on the wall and by the cores' own, which other processes do not slow."""

    per_second: float
    per_core_second: float


def fastest(work: Callable[[], object], size: int) -> Rate:
    """Return the best GB/s of three times."""
    rates = []
    for _ in range(3):
        began, cpu = time.perf_counter(), time.process_time()
        work()
        wall, core = time.perf_counter() - began, time.process_time() - cpu
        rates.append((size / wall / 1e9, size / core / 1e9))
    walls, cores = zip(*rates, strict=True)
    return Rate(max(walls), max(cores))


def bandwidth(threads: int) -> Rate:
    """Return the best GB/s of any kind of pass, over all threads together."""
    own = [[np.ones(BANDWIDTH_FLOATS, np.float32) for _ in range(3)] for _ in range(threads)]
    kinds = [passes(arrays) for arrays in own]
    with ThreadPoolExecutor(threads) as pool:

        def together(name: str) -> None:
            list(pool.map(lambda kind: kind[name][0](), kinds))

        rates = [fastest(partial(together, name), threads * kinds[0][name][1]) for name in kinds[0]]
    return Rate(*map(max, zip(*rates, strict=True)))


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the peak of what the work allocates, its result included."""
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def tell(noise: Noise, pairs: int, size: int, threads: int) -> tuple[float, float]:
    """Return wall and core seconds of one whole `tell` with random returns."""
    start = np.zeros(size, np.float32)
    adam = Adam(size, learning_rate=0.01, weight_decay=0.005)
    sampler = MirroredSampler(SEED, noise)
    strategy = OpenAIES(start, sampler, adam, constant_std(0.02), update_threads=threads)
    returns = np.random.default_rng(SEED).standard_normal(2 * pairs).tolist()
    results = [
        Evaluation(t.version, t.member, t.sign, t.noise_key, t.std, value, value, 1000, None, b"")
        for t, value in zip(strategy.ask(2 * pairs), returns, strict=True)
    ]
    began, cpu = time.perf_counter(), time.process_time()
    strategy.tell(results)
    return time.perf_counter() - began, time.process_time() - cpu


def measure(noise: Noise, size: int, pairs: int, threads: int, rounds: int) -> dict[str, object]:
    keys = noise.keys(0, 0, pairs)
    weights = np.random.default_rng(SEED).standard_normal(pairs).tolist()
    work = partial(weighted_noise_sum, noise.read, keys, weights, size, threads=threads)
    limits, rates, tells = [], [], []
    for _ in range(rounds):
        limits.append(bandwidth(threads))
        rates.append(fastest(work, 4 * size * pairs))
        tells.append(tell(noise, pairs, size, threads))
    shares = [r.per_second / limit.per_second for r, limit in zip(rates, limits, strict=True)]
    core_shares = [
        r.per_core_second / limit.per_core_second for r, limit in zip(rates, limits, strict=True)
    ]
    core_rate = median(rate.per_core_second for rate in rates)
    return {
        "parameters": size,
        "pairs": pairs,
        "threads": threads,
        "bandwidth_gb_per_second": f"{median(limit.per_second for limit in limits):.2f}",
        "bandwidth_gb_per_core_second": f"{median(limit.per_core_second for limit in limits):.2f}",
        "reconstruction_gb_per_second": f"{median(rate.per_second for rate in rates):.2f}",
        "reconstruction_gb_per_core_second": f"{core_rate:.2f}",
        "fraction_median": f"{median(shares):.3f}",
        "fraction_min": f"{min(shares):.3f}",
        "fraction_max": f"{max(shares):.3f}",
        "core_fraction_median": f"{median(core_shares):.3f}",
        "reconstruction_core_seconds": f"{4 * size * pairs / core_rate / 1e9:.4f}",
        "tell_seconds": f"{median(wall for wall, _ in tells):.4f}",
        "tell_core_seconds": f"{median(core for _, core in tells):.4f}",
        "peak_extra_bytes": peak_bytes(work),
        "parameter_bytes": 4 * size,
        "rounds": rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parameters", type=int, nargs="*", default=[5_702, 100_000, 1_000_000])
    parser.add_argument("--pairs", type=int, default=2_500)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--table", type=int, default=1 << 25)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    shared = SharedArrays.create(PublishedLayout({"noise": ((options.table,), "<f4")}))
    table = shared.arrays["noise"]
    fill_table(table, SEED, 2)
    rows = []
    with threadpool_limits(1, "blas"):
        for size in options.parameters:
            noise = table_noise(table, size, SEED)
            for threads in options.threads:
                result = measure(noise, size, options.pairs, threads, options.rounds)
                rows.append({**result, "noise_table_floats": options.table, **provenance([SEED])})
                print(rows[-1], flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
