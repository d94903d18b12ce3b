"""Cost of an episode in the driver, from task to row in episodes.csv: CartPole-v1, 16 workers.

The driver's CPU time (user and system, its recorder thread included) over a whole `train` run,
less that of a run that ends with its first generation, by the episodes between the two ends.
`recorder` is the share of the thread that writes; the rest is asking, the pool, the schedule and
the update. The population is large, so that an episode's own cost counts and not a generation's;
the policy learns nothing, so that episodes stay short, which is the hardest case for a driver.

    python benchmarks/throughput/es_leases.py --out benchmarks/results/es_leases.csv
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

DRIVER = """
import json, resource, sys, threading
from pathlib import Path
from time import thread_time
from drumline.cli import run
from drumline.runs.recorder import Recorder

recorder = []
written = Recorder._run
def timed(self):
    written(self)
    recorder.append(thread_time())
Recorder._run = timed
code = run(sys.argv[2:])
usage = resource.getrusage(resource.RUSAGE_SELF)
seconds = {"driver": usage.ru_utime + usage.ru_stime, "recorder": sum(recorder)}
Path(sys.argv[1]).write_text(json.dumps(seconds))
sys.exit(code)
"""


class Cost(NamedTuple):
    """CPU seconds of one run, and its episodes."""

    driver: float
    recorder: float
    episodes: int
    env_steps: int


def cost(env: str, workers: int, population: int, seed: int, steps: int, more: list[str]) -> Cost:
    with tempfile.TemporaryDirectory() as place:
        out, seconds = Path(place) / "run", Path(place) / "seconds.json"
        flags = [f"--workers={workers}", f"--population-size={population}", f"--seed={seed}"]
        words = ["train", "es", env, *flags, f"--total-steps={steps}", f"--out={out}"]
        quiet = ["--quiet", "--evaluate-every=0", "--evaluate-episodes=1", "--learning-rate=1e-9"]
        command = [sys.executable, "-c", DRIVER, str(seconds), *words, *quiet, *more]
        subprocess.run(command, check=True)
        with open(out / "metrics.csv", newline="") as lines:
            last = list(csv.DictReader(lines))[-1]
        spent = json.loads(seconds.read_text())
        return Cost(**spent, episodes=int(last["episodes"]), env_steps=int(last["env_steps"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--populations", type=int, nargs="*", default=[2_000, 10_000])
    parser.add_argument("--steps", type=int, default=1_500_000)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    options, more = parser.parse_known_args()
    rows = []
    for population in options.populations:
        drivers, recorders, episodes, lengths = [], [], [], []
        for seed in options.seeds:
            setting = (options.env, options.workers, population, seed)
            first, whole = cost(*setting, 1, more), cost(*setting, options.steps, more)
            made = whole.episodes - first.episodes
            drivers.append((whole.driver - first.driver) / made * 1e6)
            recorders.append((whole.recorder - first.recorder) / made * 1e6)
            episodes.append(made)
            lengths.append((whole.env_steps - first.env_steps) / made)
        rows.append(
            {
                "environment": options.env,
                "workers": options.workers,
                "population_size": population,
                "driver_cpu_microseconds_per_episode_median": f"{median(drivers):.2f}",
                "driver_cpu_microseconds_per_episode_min": f"{min(drivers):.2f}",
                "driver_cpu_microseconds_per_episode_max": f"{max(drivers):.2f}",
                "of_which_recorder_median": f"{median(recorders):.2f}",
                "env_steps_per_episode_median": f"{median(lengths):.1f}",
                "episodes": " ".join(map(str, episodes)),
                "flags": " ".join(more),
                **provenance(options.seeds),
            }
        )
        print(rows[-1], flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
