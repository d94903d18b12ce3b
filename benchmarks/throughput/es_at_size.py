"""Modules of 10⁷ and 10⁸ parameters in `es`: memory of a worker, writing a member, an update.

    worker   MiB that a worker process has of its own after a call, master and table shared; beside
             it the bytes of one copy of the module
    write    seconds to write a perturbed member into the module's tensors, and the floor: reading
             noise and master and writing the tensors once, as np.add does, or drawing the normals
    update   seconds for Σ wᵢ εᵢ over 64 pairs on one thread, per source, with the same floors

Processor time of one process; other programs on the machine still take memory bandwidth.

    python benchmarks/throughput/es_at_size.py --out benchmarks/results/es_at_size.csv
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.functional.perturbation import (
    TILE,
    counter_reader,
    fill_table,
    perturbed_pieces,
    table_reader,
    weighted_noise_sum,
)
from drumline.protocols import PublishedLayout
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.shared_arrays import SharedArrays
from drumline.tasks import Evaluate
from drumline.workers.objective import Objective, ObjectiveSpec

PAIRS = 64
WIDTH = 1000


def module_of(size: int) -> str:
    """Write a module of about `size` parameters in matrices of a million."""
    return f"""
import torch
class Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ParameterList(
            torch.zeros({WIDTH}, {WIDTH}) for _ in range({size // WIDTH**2})
        )
def fitness(module, seed):
    return float(module.layers[-1][0, 0])
def resident(module, seed):
    own = 0
    for line in open("/proc/self/smaps_rollup"):
        if line.startswith(("Private_Clean", "Private_Dirty")):
            own += int(line.split()[1])
    return own / 1024.0
"""


def processor(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def worker_mib(size: int, precision: str, table: SharedArrays) -> float:
    """Memory of its own that a worker has after three members."""
    module = "es_at_size_module"
    spec = ObjectiveSpec(
        Objective(f"{module}:resident", f"{module}:Wide", size, 0, 1, precision), noise_seed=None
    )
    published = {"parameters": np.zeros(size, np.float32)}
    layout = PublishedLayout.of(published)
    with closing(ProcessPool(spec, size=1, published=layout, versions=1, shared=table)) as pool:
        pool.publish(0, published)
        tasks = [Evaluate(0, m, 1, 16 * m, m, 0.01, 0, False, True) for m in range(3)]
        pool.submit(tasks)
        results: list[Any] = []
        while len(results) < 3:
            results += [done.result for done in pool.completed()]
    return max(result.fitness for result in results)


def measured(size: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    length = 1 << max(24, (size - 1).bit_length() + 1)
    shared = SharedArrays.create(PublishedLayout({"noise": ((length,), "<f4")}))
    table = shared.arrays["noise"]
    row: dict[str, Any] = {"parameters": size, "table_floats": length}
    row["table_fill_seconds"] = round(processor(lambda: fill_table(table, 0)), 2)
    for precision in ("fp32", "bf16"):
        own = worker_mib(size, precision, shared)
        copy = size * (4 if precision == "fp32" else 2) / 2**20
        row[f"worker_mib_{precision}"] = round(own)
        row[f"module_mib_{precision}"] = round(copy)
    master, target = np.zeros(size, np.float32), np.zeros(size, np.float32)
    normals = np.empty(TILE, np.float32)

    def floor_of_table() -> None:
        np.add(master, table[:size], out=target)

    def floor_of_counter() -> None:
        for _ in range(size // TILE):
            rng.standard_normal(dtype=np.float32, out=normals)

    def written(read: Any) -> None:
        for start, piece in perturbed_pieces(master, read, 64, 0.01):
            target[start : start + piece.size] = piece

    floor_of_table()
    keys = [int(key) * 16 for key in rng.integers(0, (length - size) // 16, PAIRS)]
    weights = rng.standard_normal(PAIRS).tolist()
    sources = {
        "table": (table_reader(table), keys, floor_of_table),
        "counter": (counter_reader(0), list(range(PAIRS)), floor_of_counter),
    }
    for name, (read, named, floor) in sources.items():
        least = min(processor(floor) for _ in range(3))
        write = min(processor(lambda read=read: written(read)) for _ in range(3))
        update = processor(
            lambda read=read, named=named: weighted_noise_sum(read, named, weights, size)
        )
        row |= {
            f"{name}_floor_seconds": round(least, 3),
            f"{name}_write_seconds": round(write, 3),
            f"{name}_write_share_of_floor": round(least / write, 2),
            f"{name}_update_seconds": round(update, 2),
            f"{name}_update_share_of_floor": round(PAIRS * least / update, 2),
        }
    row["checkpoint_mib"] = round(3 * size * 4 / 2**20)
    shared.close()
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", default="10000000,100000000")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    here = Path.cwd() / "es_at_size_module.py"
    for size in map(int, options.sizes.split(",")):
        here.write_text(module_of(size))
        sys.path.insert(0, str(here.parent))
        try:
            rows.append(measured(size))
        finally:
            here.unlink()
        print(rows[-1], flush=True)
    load = subprocess.run(["cat", "/proc/loadavg"], capture_output=True, text=True, check=True)
    print("load", load.stdout.split()[:3])
    write_table(options.out, [{**row, **provenance([0])} for row in rows])


if __name__ == "__main__":
    main()
