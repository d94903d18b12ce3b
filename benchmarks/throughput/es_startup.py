"""Time from starting `drumline train es` to the first task of generation 0, and unique memory.

The clock starts right before the process is started and stops where the first worker takes its
first lease: timeline.json names that moment on the machine-wide monotonic clock. Unique memory
(USS) is read once the first generation is in metrics.csv; the table of noise is shared and counts
nowhere but in the driver, as far as no worker has read it yet.

    python benchmarks/throughput/es_startup.py --out benchmarks/results/es_startup.csv

What is imported, and how long it takes: `python -X importtime -m drumline train es HalfCheetah-v5
--total-steps 2000 --quiet 2> imports.txt`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

MIB = 1 << 20
DEADLINE_SECONDS = 120.0


class Start(NamedTuple):
    """One start: seconds, and MiB of unique memory."""

    first_task: float
    first_generation: float
    workers: list[float]
    driver: float


def start(env: str, workers: int) -> Start:
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        flags = [f"--workers={workers}", "--quiet", f"--out={out}", "--evaluate-every=0"]
        words = ["train", "es", env, *flags, f"--population-size={4 * workers}"]
        began = time.perf_counter()
        driver = subprocess.Popen([sys.executable, "-m", "drumline", *words])
        try:
            first_generation = wait_for_a_row(out / "metrics.csv", driver) - began
            process = psutil.Process(driver.pid)
            children = process.children()
            if len(children) != workers:
                sys.exit(f"{len(children)} children for {workers} workers")
            own = unique_mebibytes(process)
            each = [unique_mebibytes(child) for child in children]
        finally:
            driver.terminate()
            driver.wait()
        trace = json.loads((out / "timeline.json").read_text())
        return Start(trace["otherData"]["origin_seconds"] - began, first_generation, each, own)


def wait_for_a_row(path: Path, driver: subprocess.Popen[bytes]) -> float:
    deadline = time.perf_counter() + DEADLINE_SECONDS
    while not path.is_file() or path.read_text().count("\n") < 2:
        if driver.poll() is not None or time.perf_counter() > deadline:
            sys.exit("the run wrote no row of metrics.csv")
        time.sleep(0.02)
    return time.perf_counter()


def unique_mebibytes(process: psutil.Process) -> float:
    return process.memory_full_info().uss / MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = []
    start(options.env, 1)  # the first start reads everything from the disk
    for workers in options.workers:
        starts = [start(options.env, workers) for _ in range(options.rounds)]
        seconds = [one.first_task for one in starts]
        each = [uss for one in starts for uss in one.workers]
        rows.append(
            {
                "environment": options.env,
                "workers": workers,
                "first_task_seconds_median": f"{median(seconds):.2f}",
                "first_task_seconds_min": f"{min(seconds):.2f}",
                "first_task_seconds_max": f"{max(seconds):.2f}",
                "first_row_seconds_median": f"{median(s.first_generation for s in starts):.2f}",
                "worker_unique_mib_median": f"{median(each):.1f}",
                "worker_unique_mib_max": f"{max(each):.1f}",
                "driver_unique_mib_median": f"{median(one.driver for one in starts):.1f}",
                "rounds": options.rounds,
                **provenance([0]),
            }
        )
        print(rows[-1], flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
