"""Growth of a run with its env steps: memory, files, checkpoints, and seconds to resume and report.

    python benchmarks/growth.py --steps 100000,1000000 --methods es,hts,ppo,td3,aes
    python benchmarks/growth.py --table

Every method trains a tiny network on a cheap environment to each number of steps; then the run is
resumed for one more update and its report is made. One row of growth.csv per run and file; the rows
of a finished run are written at once, beside those of other runs that the file has. `--table` runs
nothing: it prints each quantity's growth between a method's two longest runs, and the sizes that
files would have at 10^8 env steps.
"""

import argparse
import csv
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from provenance import provenance, write_table

TINY = ["--hidden", "4", "--evaluate-every=0", "--evaluate-episodes=2", "--quiet"]
METHODS = {
    "es": ["CartPole-v1", "--population-size=100", "--workers=1"],
    "hts": ["CartPole-v1", "--engine=envpool", "--num-envs=16", "--epochs=1", "--minibatches=1"],
    "ppo": ["CartPole-v1", "--engine=envpool", "--num-envs=16", "--epochs=1", "--minibatches=1"],
    "td3": ["Pendulum-v1", "--batch-size=4", "--replay-size=20000"],
    "aes": ["Pendulum-v1", "--batch-size=4", "--replay-size=20000", "--workers=1"],
}
"""Method → environment and flags. A replay of fixed size, so that what else grows is seen."""


AIM = 10**8
"""Env steps for which `--table` reckons."""


class Measured(NamedTuple):
    """One command as it was run."""

    seconds: float
    peak_mib: float
    """Resident memory of its largest process at its highest."""
    checkpoint_seconds: float
    """The longest writing of a checkpoint; 0 without one."""


def timed(words: list[str], limit: float) -> Measured:
    """Run a command to its end."""
    began = time.perf_counter()
    done = subprocess.run(
        ["/usr/bin/env", sys.executable, "-c", _MEASURED, *words],
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    seconds = time.perf_counter() - began
    found = re.search(r"peak (\d+) (\d+) (\S+)", done.stderr)
    assert found is not None
    *peaks, slowest = found.groups()
    return Measured(seconds, max(map(int, peaks)) / 1024, float(slowest))


_MEASURED = """
import resource, runpy, sys, time
from drumline.runs import run_files
write, slowest = run_files.write_checkpoint, 0.0
def timed_write(*arguments, **named):
    global slowest
    began = time.perf_counter()
    try:
        return write(*arguments, **named)
    finally:
        slowest = max(slowest, time.perf_counter() - began)
run_files.write_checkpoint = timed_write
sys.argv = ["drumline", *sys.argv[1:]]
try:
    runpy.run_module("drumline", run_name="__main__", alter_sys=True)
finally:
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peaks = [resource.getrusage(which).ru_maxrss for which in both]
    print("peak", *peaks, slowest, file=sys.stderr)
"""


def sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of each file, those of the newest checkpoint and of the replay as one."""
    found = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
    tfevents = [name for name in found if "tfevents" in name]
    found["tfevents"] = sum(found.pop(name) for name in tfevents)
    newest = max((folder / "checkpoints").iterdir(), key=lambda path: int(path.name))
    found["checkpoint"] = sum(path.stat().st_size for path in newest.iterdir())
    found["replay"] = sum(path.stat().st_size for path in (folder / "replay").glob("*"))
    return found


def measured(method: str, steps: int, out: Path, limit: float) -> list[dict[str, Any]]:
    """Train, resume and report one run; return its rows."""
    env, *flags = METHODS[method]
    run = str(out / f"{method}-{steps}")
    train = ["train", method, env, *flags, *TINY, f"--total-steps={steps}", f"--out={run}"]
    trained = timed(train, limit)
    before = sizes(Path(run))
    further = ["resume", run, "--quiet", f"--total-steps={steps + 1}"]
    commands = {
        "train": trained,
        "resume": timed(further, limit),
        "report": timed(["report", run], limit),
    }
    numbers = {f"{name}_bytes": float(size) for name, size in before.items()}
    numbers["checkpoint_seconds"] = trained.checkpoint_seconds
    for name, one in commands.items():
        numbers |= {f"{name}_seconds": one.seconds, f"{name}_peak_mib": one.peak_mib}
    shutil.rmtree(run)
    return [
        {"method": method, "environment": env, "env_steps": steps, "what": what, "value": value}
        for what, value in sorted(numbers.items())
    ]


def growth_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each quantity at a method's two longest runs, its exponent, and its value at 10^8.

    exponent = log(value₂ ÷ value₁) ÷ log(steps₂ ÷ steps₁): 0 stays, 1 grows linearly. The size
    of a file at 10^8 lies on the straight line through both points; it is an extrapolation. Seconds
    and memory have none: their differences are mostly those of the machine's load.
    """
    found: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        points = found.setdefault((row["method"], row["what"]), {})
        points[int(row["env_steps"])] = float(row["value"])
    table: list[dict[str, Any]] = []
    for (method, what), points in found.items():
        if len(points) < 2:
            continue
        (first, low), (second, high) = sorted(points.items())[-2:]
        positive = low > 0 and high > 0
        exponent = math.log(high / low) / math.log(second / first) if positive else math.nan
        slope = max(0.0, (high - low) / (second - first))
        table.append(
            {
                "method": method,
                "what": what,
                "env_steps_1": first,
                "value_1": low,
                "env_steps_2": second,
                "value_2": high,
                "exponent": round(exponent, 3),
                "value_at_1e8": high + round(slope * (AIM - second))
                if what.endswith("_bytes")
                else "",
            }
        )
    return table


def kept_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows that a results file has; none if there is no file."""
    if not path.exists():
        return []
    with open(path, newline="") as lines:
        return list(csv.DictReader(lines))


def main() -> None:
    """Measure every method at every number of steps and write benchmarks/results/growth.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", default="100000,1000000")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of one command")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/growth.csv")
    parser.add_argument("--table", action="store_true", help="print the growth, run nothing")
    typed = parser.parse_args()
    rows = kept_rows(typed.out)
    if typed.table:
        printed = csv.DictWriter(sys.stdout, list(growth_rows(rows)[0]), lineterminator="\n")
        printed.writeheader()
        printed.writerows(growth_rows(rows))
        return
    facts = provenance([0])
    with tempfile.TemporaryDirectory() as folder:
        for steps in map(int, typed.steps.split(",")):
            for method in typed.methods.split(","):
                try:
                    new = measured(method, steps, Path(folder), typed.limit)
                except subprocess.TimeoutExpired:
                    print(f"{method} to {steps} steps: not within {typed.limit:g} s", flush=True)
                    continue
                rows = [r for r in rows if (r["method"], int(r["env_steps"])) != (method, steps)]
                rows += [{**row, **facts} for row in new]
                write_table(typed.out, rows)
                print(f"{method} to {steps} steps: measured", flush=True)


if __name__ == "__main__":
    os.environ["PYTHONHASHSEED"] = "0"  # or the measured command starts itself once more
    main()
