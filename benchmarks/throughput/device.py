"""Throughput with the learner on a GPU, beside each run's sum bound and the plain loop.

Rows of `hts` and of lock-step: env steps per second of a whole run, of its parts alone at the same
sizes (environment on all cores, forward and update on the device), of the sum bound
1 / (1 / environment + 1 / forward + 1 / update), and of one file in CleanRL's shape whose network
is on the same device. Rows of `td3`: the bound is 1 / (1 / environment + 1 / gradient step). A
layout that differs from the default shares the parts and the plain loop of the row before it.

    python benchmarks/throughput/device.py --out benchmarks/results/device_throughput.csv
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hts import measured, started, whole
from printed_config import printed_config
from provenance import one_blas_thread, provenance, write_table

from drumline.functional.torch_devices import described, refuse_absent

HERE = Path(__file__).resolve().parent
_A2C = ["--unroll=5", "--alpha=20"]
_TD3 = ["HalfCheetah-v5", "--random-steps=3000"]  # all are made before the time that counts
CASES: dict[str, tuple[str, list[str]]] = {
    "Pong-v5 ppo, hts": ("hts", ["Pong-v5", "--preset=atari"]),
    "Pong-v5 ppo, lock-step": ("ppo", ["Pong-v5", "--preset=atari"]),
    "Pong-v5 a2c, hts": ("hts", ["Pong-v5", "--learner=a2c", *_A2C]),
    "Pong-v5 a2c, lock-step": ("a2c", ["Pong-v5", *_A2C]),
    "football ppo, hts": ("hts", ["gfootball/academy_empty_goal_close-v1"]),
    "football ppo, lock-step": ("ppo", ["gfootball/academy_empty_goal_close-v1"]),
    "HalfCheetah-v5 td3, 256 rows": ("td3", [*_TD3, "--batch-size=256"]),
    "HalfCheetah-v5 td3, 4096 rows": ("td3", [*_TD3, "--batch-size=4096"]),
}
LAYOUTS: dict[str, tuple[str, list[str]]] = {
    "Pong-v5 ppo, hts, 2 actors": ("Pong-v5 ppo, hts", ["--actors=2"]),
    "Pong-v5 ppo, hts, 8 executors": ("Pong-v5 ppo, hts", ["--executors=8"]),
    "Pong-v5 ppo, lock-step, halves": (
        "Pong-v5 ppo, lock-step",
        ["--executors=8", "--halves=2"],
    ),
}
"""Cases in another layout than the default, with the case that they are otherwise."""
NO_PLAIN = "football"
"""Cases that the plain loop has no network for."""

STEPS = """
import json, sys, time
import gymnasium, numpy as np
from drumline.buffers.replay import TRUNCATED, Replay, ReplayShape, ReplayWriter, one_episode
from drumline.recipes.learned_actor import learned_actor
from drumline.recipes.td3 import TD3
from drumline.recipes.td3_learner import make_learner
config, seconds = json.loads(sys.argv[1]), float(sys.argv[2])
config["hidden"] = tuple(config["hidden"])
config = TD3(**config)
policy = learned_actor(config, config.activation).policy
size, actions, rows = policy.observation_size, policy.head.action_size, 20_000
shape = ReplayShape(rows, size, actions, 1, 30)
replay = Replay(shape, {n: np.zeros(s, k) for n, (s, k) in shape.layout().items()})
writer, rng = ReplayWriter(replay), np.random.default_rng(0)
for _ in range(rows // 1000):
    writer.append(one_episode(rng.standard_normal((1001, size), dtype=np.float32),
        rng.uniform(-1, 1, (1000, actions)).astype(np.float32),
        rng.standard_normal(1000, dtype=np.float32), TRUNCATED))
learner = make_learner(config, policy, replay)
learner.begin(0)
environment = gymnasium.make(config.env)
environment.reset(seed=0)
def act():
    _, _, terminated, truncated, _ = environment.step(environment.action_space.sample())
    if terminated or truncated: environment.reset()
def rate(work):
    for _ in range(200): work()
    learner.metrics()
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(20): work()
        done += 20
    learner.metrics()
    return done / (time.perf_counter() - began)
print(json.dumps({"environment": rate(act), "update": rate(lambda: learner.learn(rows))}))
"""


def answered(*words: str) -> str:
    """Return what a script prints last."""
    done = subprocess.run(
        [sys.executable, *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=one_blas_thread(),
        cwd=HERE,
    )
    return done.stdout.splitlines()[-1]


def parts(method: str, config: dict[str, object], seconds: float) -> dict[str, float]:
    """Return the env steps per second of each part alone, and their sum bound."""
    if method == "td3":
        speeds = json.loads(answered("-c", STEPS, json.dumps(config), str(seconds / 2)))
    else:
        cores = os.cpu_count() or 1
        counts = {"environment": cores, "forward": 1, "update1": 1}
        # all of them import torch at once; each is measured alone
        waiting = {
            what: started(config, what, count, seconds / 3, method)
            for what, count in counts.items()
        }
        speeds = {what.rstrip("1"): measured(processes) for what, processes in waiting.items()}
    return {**speeds, "bound": 1.0 / sum(1.0 / speed for speed in speeds.values())}


def steps_of(method: str, config: dict[str, object], bound: float, seconds: float) -> int:
    """Return the env steps of a run of about so many seconds."""
    if method == "td3":
        block = int(str(config["steps_per_update"]))
        return int(str(config["random_steps"])) + max(8 * block, int(bound * seconds))
    interval = int(str(config["num_envs"])) * int(str(config["alpha"]))
    return max(8 * interval, int(bound * seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    names = [*CASES, *LAYOUTS]
    parser.add_argument("--cases", nargs="*", default=names, choices=names)
    parser.add_argument("--device", default="cuda", help="cpu measures the same on the cores")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=9.0)
    options = parser.parse_args()
    if options.device.startswith("cuda"):
        try:
            refuse_absent(options.device)
        except ValueError as error:
            raise SystemExit(f"nothing can be measured here: {error}") from None
    with ThreadPoolExecutor() as pool:
        words = [_words(name, options.device) for name in options.cases]
        found = pool.map(lambda case: printed_config(*case), words)
        configs = dict(zip(options.cases, found, strict=True))
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in options.cases}
    for _ in range(options.rounds):
        beside: dict[str, dict[str, float]] = {}
        for name in options.cases:
            found = one_round(name, options.device, configs[name], options.seconds, beside)
            rounds[name].append(found)
            table = [
                row(each, options.device, configs[each], done)
                for each, done in rounds.items()
                if done
            ]
            print(name, {key: round(value) for key, value in found.items()}, flush=True)
            write_table(options.out, table)


def _words(name: str, device: str) -> tuple[str, list[str]]:
    """Return the method of a case and its flags, without those of its layout."""
    method, flags = CASES[LAYOUTS.get(name, (name, []))[0]]
    return method, [*flags, f"--device={device}"]


def one_round(
    name: str,
    device: str,
    config: dict[str, object],
    seconds: float,
    beside: dict[str, dict[str, float]],
) -> dict[str, float]:
    """Measure the parts of a case, a whole run and, where there is one, the plain loop.

    `beside`: what was measured in this round for a case that others share, by its name.
    """
    method, flags = _words(name, device)
    same, layout = LAYOUTS.get(name, (name, []))
    speeds = beside.get(same) or parts(method, config, seconds)
    steps = steps_of(method, config, speeds["bound"], seconds)
    run = whole(flags, steps, layout, method=method)
    if same not in beside and not name.startswith(NO_PLAIN):
        script = "plain_td3_loop.py" if method == "td3" else "plain_loop.py"
        given = {"learner": method, "threads": os.cpu_count() or 1, **config}
        words = [json.dumps(given), "--seconds", str(seconds)]
        speeds["plain"] = float(answered(str(HERE / script), *words))
    beside[same] = speeds
    return {**speeds, "speed": run["speed"]}


def row(
    name: str, device: str, config: dict[str, object], rounds: list[dict[str, float]]
) -> dict[str, object]:
    """Return medians over the rounds, and ratios within each."""
    median = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    of_bound = [one["speed"] / one["bound"] for one in rounds]
    of_plain = [one["speed"] / one["plain"] for one in rounds if "plain" in one]
    speeds = {
        f"{key}_env_steps_per_second": f"{median[key]:.0f}" if key in median else ""
        for key in ("environment", "forward", "update", "bound", "speed", "plain")
    }
    return {
        "case": name,
        "device": described(device),
        "inference_rows": config.get("inference_rows", ""),
        **speeds,
        "of_bound_median": f"{statistics.median(of_bound):.3f}",
        "of_bound_min": f"{min(of_bound):.3f}",
        "of_bound_max": f"{max(of_bound):.3f}",
        "of_plain_median": f"{statistics.median(of_plain):.3f}" if of_plain else "",
        "rounds": len(rounds),
        **provenance([0]),
    }


if __name__ == "__main__":
    main()
