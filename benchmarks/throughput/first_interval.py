"""Start of a run of `hts` and memory of an executor, against an earlier commit, in turn.

Seconds until the first interval was learned count from the begin of the run, after the imports, as
required time does. Those of the command count everything. Unique memory (USS) of the executor is
read once the first interval is in metrics.csv. Each round has both commits, the first one in turn.

    python benchmarks/throughput/first_interval.py --against COMMIT --rounds 7 \\
        --out benchmarks/results/first_interval.csv
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from earlier_commit import TREE, checkout
from es_startup import unique_mebibytes, wait_for_a_row
from provenance import provenance, write_table

ENVIRONMENTS = ("CartPole-v1", "HalfCheetah-v4")
FLAGS = ("--evaluate-every=0", "--evaluate-episodes=1", "--evaluate-max-steps=100", "--quiet")


class Start(NamedTuple):
    """Seconds to the first interval and of the command, and MiB of the executor."""

    first_interval_seconds: float
    command_seconds: float
    executor_unique_mib: float


def start(source: Path, env: str) -> Start:
    """Train two intervals with the sources of a tree, then some more, and look at the executor."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        words = [sys.executable, "-m", "drumline", "train", "hts", env, *FLAGS, "--no-tensorboard"]
        variables = {**os.environ, "PYTHONPATH": str(source)}
        began = time.perf_counter()
        subprocess.run([*words, "--total-steps=512", f"--out={out}"], env=variables, check=True)
        command = time.perf_counter() - began
        with (out / "metrics.csv").open() as file:
            first = float(next(csv.DictReader(file))["wall_seconds"])
        longer = [*words, "--total-steps=10000000", f"--out={place}/longer"]
        driver = subprocess.Popen(longer, env=variables, stdout=subprocess.DEVNULL)
        try:
            wait_for_a_row(Path(place) / "longer/metrics.csv", driver)
            (role,) = (
                child
                for child in psutil.Process(driver.pid).children()
                if "drumline.runtime.crews.role_child" in child.cmdline()
            )
            memory = unique_mebibytes(role)
        finally:
            driver.terminate()
            driver.wait()
    return Start(first, command, memory)


def main() -> None:
    """Print and keep the medians of each environment at both commits."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", required=True, help="the earlier commit")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    with checkout(options.against) as old:
        trees = {options.against: old / "src", "now": TREE / "src"}
        for env in ENVIRONMENTS:
            found: dict[str, list[Start]] = {name: [] for name in trees}
            for number in range(options.rounds):
                for name in list(trees)[:: 1 if number % 2 else -1]:
                    found[name].append(start(trees[name], env))
            for name, starts in found.items():
                columns = {
                    f"{column}_{which.__name__}": f"{which(values):.3f}"
                    for column, values in zip(Start._fields, zip(*starts, strict=True), strict=True)
                    for which in (median, min, max)
                }
                rows.append(
                    {
                        "environment": env,
                        "sources": name,
                        **columns,
                        "rounds": options.rounds,
                        **provenance([0], "envpool"),
                    }
                )
                print(rows[-1], flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
