"""Throughput of OpenAI-ES against a bare loop, side by side in one run.

The bare loop: Gymnasium's environment as `gymnasium.make` gives it, a 64-64 tanh MLP in NumPy, one
process per core, no library. Both are run in turn, several rounds; the median ratio counts.

    python benchmarks/throughput/es.py --out benchmarks/results/es_throughput.csv
"""

import argparse
import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BARE = """
import sys, time
import gymnasium, numpy as np
env = gymnasium.make(sys.argv[1]); seconds = float(sys.argv[2]); rng = np.random.default_rng(0)
sizes = [env.observation_space.shape[0], 64, 64, env.action_space.shape[0]]
pairs = list(zip(sizes, sizes[1:]))
W = [(rng.standard_normal((a, b)) / np.sqrt(a)).astype(np.float32) for a, b in pairs]
W[-1] *= 0.01
B = [np.zeros(b, np.float32) for b in sizes[1:]]
def act(o):
    h = np.tanh(o.astype(np.float32) @ W[0] + B[0])
    h = np.tanh(h @ W[1] + B[1])
    return h @ W[2] + B[2]
o, _ = env.reset(seed=0)
for _ in range(2000):
    o, r, te, tr, _ = env.step(act(o))
    if te or tr: o, _ = env.reset()
n, t = 0, time.perf_counter()
while time.perf_counter() - t < seconds:
    for _ in range(200):
        o, r, te, tr, _ = env.step(act(o))
        if te or tr: o, _ = env.reset()
    n += 200
print(n / (time.perf_counter() - t))
"""


def bare(env: str, processes: int, seconds: float) -> float:
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", BARE, env, str(seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environ,
        )
        for _ in range(processes)
    ]
    return sum(float(process.communicate()[0]) for process in started)


def ours(env: str, workers: int, steps: int, population: int) -> dict[str, float]:
    """The whole training loop after its first update, everything that is written included."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        flags = [
            f"--total-steps={steps}",
            f"--population-size={population}",
            "--hidden",
            "64",
            "64",
        ]
        more = ["--evaluate-every=0", "--evaluate-episodes=2", "--quiet", f"--workers={workers}"]
        command = [sys.executable, "-m", "drumline", "train", "es", env, *flags, *more]
        subprocess.run([*command, f"--out={out}"], check=True)
        with open(out / "metrics.csv", newline="") as lines:
            rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(lines)]
        updates = sum(row["update_core_seconds"] for row in rows[1:])
        seconds = rows[-1]["wall_seconds"] - rows[0]["wall_seconds"]
        made = rows[-1]["env_steps"] - rows[0]["env_steps"]
        versions = json.loads((out / "config.json").read_text())["versions"]
        assert versions["numpy"]
        return {"speed": made / seconds, "update_share": updates / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--population", type=int, default=40)
    parser.add_argument("--envs", nargs="*", default=["HalfCheetah-v5", "Hopper-v5", "Humanoid-v5"])
    options = parser.parse_args()
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    table = []
    for env in options.envs:
        for processes in (1, 2):
            floors, speeds, shares = [], [], []
            for _ in range(options.rounds):
                floors.append(bare(env, processes, options.seconds))
                steps = int(floors[-1] * options.seconds * 1.5)
                result = ours(
                    env, processes, max(steps, 3 * options.population), options.population
                )
                speeds.append(result["speed"])
                shares.append(result["update_share"])
            ratios = [speed / floor for speed, floor in zip(speeds, floors, strict=True)]
            table.append(
                {
                    "environment": env,
                    "processes": processes,
                    "population_size": options.population,
                    "bare_env_steps_per_second": f"{statistics.median(floors):.0f}",
                    "drumline_env_steps_per_second": f"{statistics.median(speeds):.0f}",
                    "ratio_median": f"{statistics.median(ratios):.3f}",
                    "ratio_min": f"{min(ratios):.3f}",
                    "ratio_max": f"{max(ratios):.3f}",
                    "update_core_share": f"{statistics.median(shares):.4f}",
                    "rounds": options.rounds,
                    "machine": f"{platform.machine()} {os.cpu_count()} cores, shared",
                    "commit": head.stdout.strip(),
                }
            )
            print(table[-1], flush=True)
    with open(options.out, "w", newline="") as lines:
        writer = csv.DictWriter(lines, fieldnames=list(table[0]))
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main()
