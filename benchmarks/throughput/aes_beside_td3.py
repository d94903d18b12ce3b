"""Time of AES-RL's gradient steps beside TD3's, in whole runs on all cores, in turn.

Both have the same task, networks, minibatches and random steps at first. Their gradient steps are
counted in multiply-adds, because AES-RL makes more steps of actors for an env step than TD3. The
ratio of a round is AES-RL's seconds for a multiply-add over TD3's: rollouts, evaluations of the
mean and waiting are in it. Seconds of start-up and of random steps are not.

    python benchmarks/throughput/aes_beside_td3.py --out benchmarks/results/aes_beside_td3.csv
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

from drumline.functional.virtual_costs import GradientRate, GradientWork, gradient_work
from drumline.recipes.aes_presets import PAPER

HIDDEN = (400, 300)
SIZES = {"Hopper-v5": (11, 3), "HalfCheetah-v5": (17, 6), "Pendulum-v1": (3, 1)}
RANDOM_STEPS = 1000


class Learned(NamedTuple):
    """Seconds after the random steps, and what was done in them."""

    seconds: float
    env_steps: int
    actor_steps: float
    critic_steps: int

    def multiply_adds(self, env: str, batch: int) -> float:
        """Return the multiply-adds of all gradient steps."""
        work = work_of(env, batch)
        return self.actor_steps * work.actor + self.critic_steps * work.critic


def work_of(env: str, batch: int) -> GradientWork:
    """Return the multiply-adds of a gradient step of an actor and of the critics."""
    observations, actions = SIZES[env]
    actor, critic = (observations, *HIDDEN, actions), (observations + actions, *HIDDEN, 1)
    return gradient_work(actor, critic, 2, batch)


def train(method: str, env: str, steps: int, batch: int, seed: int) -> Learned:
    """Train once, and read what a run folder says of it."""
    first = "--random-steps" if method == "td3" else "--warmup-steps"
    words = [method, env, f"--total-steps={steps}", f"--seed={seed}", first, str(RANDOM_STEPS)]
    words += ["--hidden", *map(str, HIDDEN), f"--batch-size={batch}", "--evaluate-every=0"]
    if method == "aes" and env in PAPER:
        words.append("--preset=paper")  # its gradient steps for an env step, as in the kept rows
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        shown = ["--quiet", "--no-tensorboard", f"--out={folder}"]
        command = [sys.executable, "-m", "drumline", "train", *words, *shown]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = list(csv.DictReader((folder / "metrics.csv").open()))
        config = json.loads((folder / "config.json").read_text())["config"]
        begun = [row for row in rows if int(row["env_steps"]) <= RANDOM_STEPS]
        seconds = float(rows[-1]["wall_seconds"]) - float(begun[-1]["wall_seconds"])
        env_steps = int(rows[-1]["env_steps"]) - RANDOM_STEPS
        if method == "td3":
            critic = int(float(rows[-1]["gradient_steps"]))
            return Learned(seconds, env_steps, critic / config["policy_delay"], critic)
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    critic = int(float(rows[-1]["critic_steps"]))
    return Learned(seconds, env_steps, actor_steps(events, config, env), critic)


def actor_steps(events: list[dict[str, int]], config: dict[str, int], env: str) -> float:
    """Return the gradient steps of the individuals: the virtual time beside their env steps.

    The job numbered behind the logical workers is the critic's, whose steps are another metric.
    """
    work = work_of(env, config["batch_size"])
    rate = GradientRate(config["gradient_overhead_cost"], config["multiply_add_cost"])
    left = sum(
        each["end"] - each["start"] - each["env_steps"] * config["env_step_cost"]
        for each in events
        if each["worker"] != config["concurrency"]
    )
    return left / rate.step(work.actor)


def main() -> None:
    """Print and keep the rounds' ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", choices=SIZES, default="Hopper-v5")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--td3-steps", type=int, default=6000)
    parser.add_argument("--aes-steps", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    env, batch, ratios = options.env, options.batch_size, list[float]()
    runs: dict[str, list[Learned]] = {"td3": [], "aes": []}
    for seed in range(options.rounds):
        order = [("td3", options.td3_steps), ("aes", options.aes_steps)]
        for method, steps in order[:: 1 if seed % 2 == 0 else -1]:
            runs[method].append(train(method, env, steps, batch, seed))
        td3, aes = runs["td3"][-1], runs["aes"][-1]
        each = [run.seconds / run.multiply_adds(env, batch) for run in (aes, td3)]
        ratios.append(each[0] / each[1])
        print(f"round {seed + 1}: {ratios[-1]:.3f}; {aes}; {td3}", flush=True)
    row: dict[str, object] = {"env": env, "batch_size": batch, "rounds": options.rounds}
    for method, found in runs.items():
        row[f"{method}_seconds_per_1000_env_steps"] = f"{_per_env_step(found, 'seconds'):.2f}"
        for kind in ("actor_steps", "critic_steps"):
            row[f"{method}_{kind}_per_env_step"] = f"{_per_env_step(found, kind) / 1000.0:.3f}"
    row["ratio_median"] = f"{median(ratios):.3f}"
    row["ratio_min"], row["ratio_max"] = f"{min(ratios):.3f}", f"{max(ratios):.3f}"
    write_table(options.out, [{**row, **provenance(range(options.rounds))}])
    print(row)


def _per_env_step(runs: list[Learned], what: str) -> float:
    return 1000.0 * median(getattr(run, what) / run.env_steps for run in runs)


if __name__ == "__main__":
    main()
