"""Cost of an episode in the driver, from task to row in episodes.csv: CartPole-v1, 16 workers.

The driver's CPU time (user and system, its recorder thread included) from the end of the first
generation to that of the last, by the episodes between: start-up and end of a run do not count.
`recorder` is the share of the thread that writes; the rest is asking, the pool, the schedule and
the update. The population is large, so that an episode's own cost counts and not a generation's;
the policy learns nothing, so that episodes stay short, which is the hardest case for a driver.

    python benchmarks/throughput/es_leases.py --out benchmarks/results/es_leases.csv
"""

import argparse
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
import json, sys, threading
from pathlib import Path
from time import process_time, thread_time
from drumline.cli import run
from drumline.runs.recorder import Recorder
from drumline.training.generational_run import GenerationalRun

recorder, generations = [], []
written, recorded = Recorder._run, GenerationalRun._record
def timed(self):
    written(self)
    recorder.append(thread_time())
def counted(self, generation):
    generations.append((process_time(), len(generation.members), generation.env_steps))
    recorded(self, generation)
Recorder._run = timed
GenerationalRun._record = counted
code = run(sys.argv[2:])
(first, _, _), (last, _, _) = generations[0], generations[-1]
_, episodes, env_steps = map(sum, zip(*generations[1:]))
whole = episodes + generations[0][1]
found = {"driver": (last - first) / episodes, "recorder": sum(recorder) / whole}
found |= {"episodes": episodes, "env_steps": env_steps}
Path(sys.argv[1]).write_text(json.dumps(found))
sys.exit(code)
"""


class Cost(NamedTuple):
    """CPU seconds for an episode of one run, and its episodes after the first generation."""

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
        return Cost(**json.loads(seconds.read_text()))


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
            made = cost(*setting, options.steps, more)
            drivers.append(made.driver * 1e6)
            recorders.append(made.recorder * 1e6)
            episodes.append(made.episodes)
            lengths.append(made.env_steps / made.episodes)
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
