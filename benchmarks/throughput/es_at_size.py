"""Modules of 10⁷ and 10⁸ parameters in `es`: memory of a worker, writing a member, an update.

    worker   MiB that a worker process has of its own after a call, master and table shared; beside
             it the bytes of one copy of the module
    write    seconds to write a perturbed member into the module's tensors, and the floor: reading
             noise and master and writing the tensors once, as np.add does, or drawing the normals
    update   seconds for Σ wᵢ εᵢ over 64 pairs on one thread, per source, with the same floors
    training peak MiB of the driver and of the worker of a real training (two members, counter
             noise), what of it is shared, and MiB of a checkpoint and of the run folder

Processor time of one process; other programs on the machine still take memory bandwidth.

    python benchmarks/throughput/es_at_size.py --out benchmarks/results/es_at_size.csv
    python benchmarks/throughput/es_at_size.py --training --out es_at_size_training.csv
"""

import argparse
import os
import subprocess
import sys
import tempfile
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
from drumline.workers.objective import Objective
from drumline.workers.objective_worker import ObjectiveSpec

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


def training(size: int) -> dict[str, Any]:
    """Memory and files of a training with one worker, watched from outside."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        run = Path(place) / "run"
        words = [sys.executable, "-m", "drumline", "train", "es", f"--out={run}", "--workers=1"]
        words += ["--objective=es_at_size_module:fitness", "--policy=es_at_size_module:Wide"]
        words += ["--population-size=2", "--total-steps=6", "--evaluate-episodes=1"]
        words += ["--noise=counter", "--no-tensorboard", "--no-promise", "--quiet"]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        peaks: dict[int, dict[str, float]] = {}
        while process.poll() is None:
            for pid in (process.pid, *_children(process.pid)):
                for name, mib in _memory(pid).items():
                    known = peaks.setdefault(pid, {})
                    known[name] = max(known.get(name, 0.0), mib)
            time.sleep(0.05)
        assert process.returncode == 0, f"ended with {process.returncode}"
        driver = peaks.pop(process.pid)
        largest = max(peaks.values(), key=lambda peak: peak["VmHWM"])
        newest = max((run / "checkpoints").iterdir(), key=lambda folder: int(folder.name))
        return {
            "parameters": size,
            "theta_mib": round(size * 4 / 2**20),
            "driver_peak_mib": round(driver["VmHWM"]),
            "driver_shared_mib": round(driver["RssShmem"]),
            "worker_peak_mib": round(largest["VmHWM"]),
            "worker_shared_mib": round(largest["RssShmem"]),
            "checkpoint_mib": round(_folder_mib(newest)),
            "run_folder_mib": round(_folder_mib(run)),
        }


def _children(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _memory(pid: int) -> dict[str, float]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    parts = [line.split() for line in lines if line.startswith(("VmHWM", "RssShmem"))]
    return {name.rstrip(":"): int(kib) / 1024.0 for name, kib, _ in parts}


def _folder_mib(folder: Path) -> float:
    files = {(f.stat().st_ino, f.stat().st_size) for f in folder.rglob("*") if f.is_file()}
    return sum(size for _, size in files) / 2**20  # hard links once


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
    shared.close()
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", default="10000000,100000000")
    parser.add_argument("--training", action="store_true", help="watch a training instead")
    options = parser.parse_args()
    measure = training if options.training else measured
    rows: list[dict[str, Any]] = []
    here = Path.cwd() / "es_at_size_module.py"
    for size in map(int, options.sizes.split(",")):
        here.write_text(module_of(size))
        sys.path.insert(0, str(here.parent))
        try:
            rows.append(measure(size))
        finally:
            here.unlink()
        print(rows[-1], flush=True)
    load = subprocess.run(["cat", "/proc/loadavg"], capture_output=True, text=True, check=True)
    print("load", load.stdout.split()[:3])
    write_table(options.out, [{**row, **provenance([0])} for row in rows])


if __name__ == "__main__":
    main()
