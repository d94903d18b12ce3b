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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

TREE = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 120.0
ENVIRONMENTS = ("CartPole-v1", "HalfCheetah-v4")
FLAGS = ("--evaluate-every=0", "--evaluate-episodes=1", "--evaluate-max-steps=100", "--quiet")


class Start(NamedTuple):
    """Seconds to the first interval and of the command, and MiB of the executor."""

    first_interval: float
    command: float
    executor: float


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
            memory = role.memory_full_info().uss / (1 << 20)
        finally:
            driver.terminate()
            driver.wait()
    return Start(first, command, memory)


def wait_for_a_row(path: Path, driver: "subprocess.Popen[bytes]") -> None:
    """Wait until a run has learned from its first interval."""
    deadline = time.perf_counter() + DEADLINE_SECONDS
    while not path.is_file() or path.read_text().count("\n") < 2:
        if driver.poll() is not None or time.perf_counter() > deadline:
            sys.exit("the run learned from no interval")
        time.sleep(0.02)


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check an earlier commit out beside this tree."""
    with tempfile.TemporaryDirectory(prefix="first-interval-") as place:
        git = ["git", "-C", str(TREE), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", f"{place}/tree", commit], check=True)
        try:
            yield Path(place) / "tree"
        finally:
            subprocess.run([*git, "remove", "--force", f"{place}/tree"], check=True)


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
