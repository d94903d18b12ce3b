"""Growth of a run with its env steps: memory, files, checkpoints, and seconds to resume and report.

    python benchmarks/growth.py --steps 100000,1000000 --methods es,hts,ppo,td3,aes

Every method trains a tiny network on a cheap environment to each number of steps; then the run is
resumed for one more update and its report is made. One row of growth.csv per run and file; the rows
of a finished run are written at once.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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


def timed(words: list[str], limit: float) -> tuple[float, float]:
    """Run a command; return its seconds and the peak memory of its largest process in MiB."""
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
    found = re.search(r"peak (\d+) (\d+)", done.stderr)
    assert found is not None
    return time.perf_counter() - began, max(map(int, found.groups())) / 1024


_MEASURED = """
import resource, runpy, sys
sys.argv = ["drumline", *sys.argv[1:]]
try:
    runpy.run_module("drumline", run_name="__main__", alter_sys=True)
finally:
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peaks = [resource.getrusage(which).ru_maxrss for which in both]
    print("peak", *peaks, file=sys.stderr)
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
    numbers: dict[str, float] = {}
    numbers["train_seconds"], numbers["train_peak_mib"] = timed(train, limit)
    before = sizes(Path(run))
    further = ["resume", run, "--quiet", f"--total-steps={steps + 1}"]
    numbers["resume_seconds"], numbers["resume_peak_mib"] = timed(further, limit)
    numbers["report_seconds"], numbers["report_peak_mib"] = timed(["report", run], limit)
    numbers |= {f"{name}_bytes": float(size) for name, size in before.items()}
    shutil.rmtree(run)
    return [
        {"method": method, "environment": env, "env_steps": steps, "what": what, "value": value}
        for what, value in sorted(numbers.items())
    ]


def main() -> None:
    """Measure every method at every number of steps and write benchmarks/results/growth.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", default="100000,1000000")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of one command")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/growth.csv")
    typed = parser.parse_args()
    rows: list[dict[str, Any]] = []
    facts = provenance([0])
    with tempfile.TemporaryDirectory() as folder:
        for steps in map(int, typed.steps.split(",")):
            for method in typed.methods.split(","):
                try:
                    new = measured(method, steps, Path(folder), typed.limit)
                except subprocess.TimeoutExpired:
                    print(f"{method} to {steps} steps: not within {typed.limit:g} s", flush=True)
                    continue
                rows += [{**row, **facts} for row in new]
                write_table(typed.out, rows)
                print(f"{method} to {steps} steps: measured", flush=True)


if __name__ == "__main__":
    os.environ["PYTHONHASHSEED"] = "0"  # or the measured command starts itself once more
    main()
