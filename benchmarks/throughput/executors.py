"""`hts` with one executor for each core that the learner leaves, and with one for each core.

Runs of each case in turn, by the wall clock, from a fifth of a run on: env steps/s of both, and the
ratio of each round.

    python benchmarks/throughput/executors.py --rounds 4 --out benchmarks/results/hts_executors.csv
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.runtime.cores import available_cores

_LIGHT = "--engine gymnasium --num-envs 16 --alpha 128 --minibatches 4 --epochs 4 "
_LIGHT += "--correction ppo-ratio"
_A2C = "--engine gymnasium --num-envs 16 --learner a2c --correction vtrace"
CASES = {
    "HalfCheetah-v5, 4 epochs of 4 minibatches": (f"HalfCheetah-v5 {_LIGHT}", 130_000),
    "Hopper-v5, 4 epochs of 4 minibatches": (f"Hopper-v5 {_LIGHT}", 100_000),
    "HalfCheetah-v5, A2C": (f"HalfCheetah-v5 {_A2C}", 150_000),
    "HalfCheetah-v5, preset": ("HalfCheetah-v5 --engine gymnasium", 80_000),
    "Hopper-v5, preset": ("Hopper-v5 --engine gymnasium", 80_000),
    "CartPole-v1, A2C": (f"CartPole-v1 {_A2C}", 400_000),
}


def speed(words: str, executors: int, steps: int) -> float:
    """Return the env steps per second of one run, without its first fifth."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "drumline", "train", "hts", *words.split(), "--quiet"]
        command += [f"--executors={executors}", "--no-tensorboard", f"--total-steps={steps}"]
        command += ["--evaluate-every=0", "--evaluate-episodes=1", f"--out={place}/run"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(Path(place) / "run" / "metrics.csv", newline="") as lines:
            rows = list(csv.DictReader(lines))
    first, last = rows[len(rows) // 5], rows[-1]
    seconds = float(last["wall_seconds"]) - float(first["wall_seconds"])
    return (int(last["env_steps"]) - int(first["env_steps"])) / seconds


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    options = parser.parse_args()
    cores, rows = available_cores(), []
    for case in options.cases:
        words, steps = CASES[case]
        found: list[tuple[float, float]] = []
        for number in range(options.rounds):
            both = (max(1, cores - 1), cores)[:: 1 if number % 2 == 0 else -1]
            made = {executors: speed(words, executors, steps) for executors in both}
            found.append((made[max(1, cores - 1)], made[cores]))
        ratios = [shared / apart for apart, shared in found]
        rows.append(
            {
                "case": case,
                "learner_has_a_core_env_steps_per_second": f"{median(one for one, _ in found):.0f}",
                "all_cores_step_env_steps_per_second": f"{median(both for _, both in found):.0f}",
                "ratio_median": f"{median(ratios):.3f}",
                "ratio_min": f"{min(ratios):.3f}",
                "ratio_max": f"{max(ratios):.3f}",
                "rounds": options.rounds,
                **provenance([0]),
            }
        )
        print(rows[-1], flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
