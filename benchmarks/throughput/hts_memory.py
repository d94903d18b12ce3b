"""Whether a long HTS-RL run keeps its memory: proportional set size of all its processes.

Read every second from start to end, and put beside the env steps that metrics.csv had by then. A
page that several processes share is counted once (PSS). The first tenth is start-up.

    python benchmarks/throughput/hts_memory.py --out benchmarks/results/hts_memory.csv
"""

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

MIB = 1 << 20
CASES = {
    "CartPole-v1 ppo": ["CartPole-v1", "--num-envs=64", "--alpha=128", "--epochs=4"],
    "HalfCheetah-v5 ppo": ["HalfCheetah-v5", "--preset=paper"],
}


def readings(case: list[str], steps: int) -> list[tuple[int, float]]:
    """Return (env steps, MiB) once a second."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        words = [*case, f"--total-steps={steps}", "--evaluate-every=0", "--quiet", f"--out={out}"]
        command = [sys.executable, "-m", "drumline", "train", "hts", *words]
        driver = subprocess.Popen(command)
        found: list[tuple[int, float]] = []
        while driver.poll() is None:
            time.sleep(1.0)
            try:
                family = [psutil.Process(driver.pid)]
                family += family[0].children(recursive=True)
                memory = sum(one.memory_full_info().pss for one in family) / MIB
            except psutil.Error:
                continue  # one of them has just ended
            found.append((env_steps(out / "metrics.csv"), memory))
        if driver.returncode:
            sys.exit(f"the run failed with exit code {driver.returncode}")
        return found


def env_steps(metrics: Path) -> int:
    if not metrics.exists():
        return 0
    with open(metrics, newline="") as lines:
        rows = list(csv.DictReader(lines))
    return int(rows[-1]["env_steps"]) if rows and rows[-1]["env_steps"] else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--steps", type=int, default=1_000_000)
    options = parser.parse_args()
    table: list[dict[str, object]] = []
    for name in options.cases:
        found = readings(CASES[name], options.steps)
        settled = [memory for made, memory in found if made >= options.steps // 10]
        if len(settled) < 5:
            sys.exit(f"{name} was over after {len(settled)} readings: give more --steps")
        fifth = len(settled) // 5
        early, late = median(settled[:fifth]), median(settled[-fifth:])
        table.append(
            {
                "case": name,
                "env_steps": options.steps,
                "early_mib": f"{early:.1f}",
                "late_mib": f"{late:.1f}",
                "late_over_early": f"{late / early:.4f}",
                "largest_mib": f"{max(settled):.1f}",
                "readings": len(settled),
                **provenance([0]),
            }
        )
        print(table[-1], flush=True)
        write_table(options.out, table)


if __name__ == "__main__":
    main()
