"""Throughput of OpenAI-ES against a bare loop, side by side in one run.

The bare loop: Gymnasium's environment as `gymnasium.make` gives it, a 64-64 tanh MLP in NumPy, one
process per core, no library; all of them begin at one moment, after their imports. Both sides run
policies perturbed by the preset's σ in every episode, and ours learns next to nothing: a body that
moves takes longer to simulate, and would not move alike otherwise. Every round is bare, ours, bare
for each number of processes; ours is compared with the mean of the two around it. Scaling is
compared within a round, too: ours from 1 to N processes over the bare loop's own. With `--raw`
every round also has raw physics and policy (`raw_physics.py`) in as many processes: the limit.

    python benchmarks/throughput/es.py --out benchmarks/results/es_throughput.csv
"""

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from math import isnan
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import one_blas_thread, provenance, write_table

from drumline.recipes.es import ES

BARE = """
import sys, time
import gymnasium, numpy as np
env = gymnasium.make(sys.argv[1]); seconds = float(sys.argv[2]); rng = np.random.default_rng(0)
space = env.action_space
scores = int(space.n) if hasattr(space, "n") else 0
sizes = [env.observation_space.shape[0], 64, 64, scores or space.shape[0]]
pairs = list(zip(sizes, sizes[1:]))
base = [(rng.standard_normal((a, b)) / np.sqrt(a)).astype(np.float32) for a, b in pairs]
base[-1] *= 0.01
std = np.float32(sys.argv[3])  # the same physics: a policy that moves costs more than one that lies
pool = [[w + std * rng.standard_normal(w.shape, np.float32) for w in base] for _ in range(32)]
W, turn = pool[0], 0
B = [np.zeros(b, np.float32) for b in sizes[1:]]
def output(o):
    h = np.tanh(o.astype(np.float32) @ W[0] + B[0])
    h = np.tanh(h @ W[1] + B[1])
    return h @ W[2] + B[2]
def choice(o):
    return int(output(o).argmax())
act = choice if scores else output
o, _ = env.reset(seed=0)
for _ in range(2000):
    o, r, te, tr, _ = env.step(act(o))
    if te or tr:
        o, _ = env.reset(); turn += 1; W = pool[turn % 32]
print("ready", flush=True)
start = float(input())
while time.perf_counter() < start: pass
n, t = 0, time.perf_counter()
while time.perf_counter() - t < seconds:
    for _ in range(200):
        o, r, te, tr, _ = env.step(act(o))
        if te or tr:
            o, _ = env.reset(); turn += 1; W = pool[turn % 32]
    n += 200
print(n / (time.perf_counter() - t))
"""


class Speed(NamedTuple):
    """Env steps per second, and the update's share of the time where there is one."""

    steps: float
    update_share: float = 0.0


class Round(NamedTuple):
    """One number of processes in one round."""

    bare: float
    drumline: Speed
    raw: float = float("nan")
    """Raw physics and policy, where they are measured."""

    @property
    def ratio(self) -> float:
        return self.drumline.steps / self.bare

    @property
    def share(self) -> float:
        return self.drumline.steps / self.raw


def bare(env: str, processes: int, seconds: float) -> float:
    """Return the steps per second of all bare loops together, over the same stretch of time."""
    return together(["-c", BARE], env, processes, seconds)


def raw(env: str, processes: int, seconds: float) -> float:
    """Return the same for raw physics and policy."""
    script = Path(__file__).with_name("raw_physics.py")
    return together([str(script)], env, processes, seconds)


def together(loop: list[str], env: str, processes: int, seconds: float) -> float:
    std = str(ES.PRESETS.get(env, {}).get("std", ES.std))
    started = [
        subprocess.Popen(
            [sys.executable, *loop, env, str(seconds), std],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=one_blas_thread(),
        )
        for _ in range(processes)
    ]
    pipes = [(process.stdin, process.stdout) for process in started]
    for _, answers in pipes:
        assert answers.readline() == "ready\n", "a loop did not start"
    begin = time.perf_counter() + 0.25
    for orders, _ in pipes:
        orders.write(f"{begin!r}\n")
        orders.flush()
    return sum(float(process.communicate()[0]) for process in started)


def ours(env: str, workers: int, steps: int, population: int) -> Speed:
    """The whole training loop after its first update, everything that is written included."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        flags = [f"--total-steps={steps}", f"--population-size={population}"]
        # Learning stands still, or the physics would become another than the bare loop's.
        flags += ["--learning-rate=1e-9", "--weight-decay=0"]
        more = ["--evaluate-every=0", "--evaluate-episodes=2", "--quiet", f"--workers={workers}"]
        command = [sys.executable, "-m", "drumline", "train", "es", env, *flags, *more]
        subprocess.run([*command, "--hidden", "64", "64", f"--out={out}"], check=True)
        with open(out / "metrics.csv", newline="") as lines:
            rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(lines)]
    seconds = rows[-1]["wall_seconds"] - rows[0]["wall_seconds"]
    updates = sum(row["update_core_seconds"] for row in rows[1:])
    return Speed((rows[-1]["env_steps"] - rows[0]["env_steps"]) / seconds, updates / seconds)


def one_round(env: str, processes: int, options: argparse.Namespace) -> Round:
    half, population = options.seconds / 2, options.population
    before = bare(env, processes, half)
    first = options.longest * population
    speed = ours(env, processes, int(before * options.seconds) + first, population)
    limit = raw(env, processes, half) if options.raw else float("nan")
    return Round((before + bare(env, processes, half)) / 2, speed, limit)


def summary(rounds: list[Round], single: list[Round]) -> dict[str, object]:
    """Return the columns of one number of processes; `single` are the rounds of the first."""
    ratios = [one.ratio for one in rounds]
    pairs = list(zip(rounds, single, strict=True))
    floors = [many.bare / one.bare for many, one in pairs]
    scalings = [many.drumline.steps / one.drumline.steps for many, one in pairs]
    relative = [mine / floor for mine, floor in zip(scalings, floors, strict=True)]
    shares = [one.share for one in rounds]
    limits = {
        "raw_env_steps_per_second": f"{median(one.raw for one in rounds):.0f}",
        "raw_share_median": f"{median(shares):.3f}",
        "raw_share_min": f"{min(shares):.3f}",
        "raw_share_max": f"{max(shares):.3f}",
    }
    return {
        "bare_env_steps_per_second": f"{median(one.bare for one in rounds):.0f}",
        "drumline_env_steps_per_second": f"{median(one.drumline.steps for one in rounds):.0f}",
        "ratio_median": f"{median(ratios):.3f}",
        "ratio_min": f"{min(ratios):.3f}",
        "ratio_max": f"{max(ratios):.3f}",
        "bare_scaling_median": f"{median(floors):.3f}",
        "drumline_scaling_median": f"{median(scalings):.3f}",
        "scaling_ratio_median": f"{median(relative):.3f}",
        "scaling_ratio_min": f"{min(relative):.3f}",
        "scaling_ratio_max": f"{max(relative):.3f}",
        "update_core_share": f"{median(one.drumline.update_share for one in rounds):.4f}",
        **({} if isnan(rounds[0].raw) else limits),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30.0, help="of ours; of bare half before")
    parser.add_argument("--population", type=int, default=40)
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--raw", action="store_true", help="measure raw physics and policy, too")
    parser.add_argument(
        "--longest",
        type=int,
        default=1000,
        help="env steps of an episode: the first generation is made beyond --seconds, not counted",
    )
    parser.add_argument("--envs", nargs="*", default=["HalfCheetah-v5", "Hopper-v5", "Humanoid-v5"])
    options = parser.parse_args()
    table = []
    for env in options.envs:
        rounds: dict[int, list[Round]] = {processes: [] for processes in options.processes}
        for _ in range(options.rounds):
            for processes, measured in rounds.items():
                measured.append(one_round(env, processes, options))
        for processes, measured in rounds.items():
            row = {
                "environment": env,
                "processes": processes,
                "population_size": options.population,
                **summary(measured, rounds[options.processes[0]]),
                "rounds": options.rounds,
                "seconds": options.seconds,
                **provenance([0]),
            }
            table.append(row)
            print(row, flush=True)
    write_table(options.out, table)


if __name__ == "__main__":
    main()
