"""Throughput of HTS-RL against the sum bound of the same run.

The sum bound is 1 / (1 / environment + 1 / forward + 1 / update): each part alone on all cores, at
the same sizes, precision and batch; `update` counts a whole update (all epochs) per env step. Bound
and run are measured in turn. `overlap_share` is the time in which simulation and update both ran
over the shorter of the two, from the run's own timeline.

    python benchmarks/throughput/hts.py --out benchmarks/results/hts_throughput.csv
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from printed_config import printed_config
from provenance import one_blas_thread, provenance, write_table

CASES = {
    "CartPole-v1 ppo": ["CartPole-v1", "--num-envs=64", "--alpha=128", "--epochs=4"],
    "HalfCheetah-v5 ppo": ["HalfCheetah-v5", "--preset=paper"],
    "HalfCheetah-v5 ppo gymnasium": ["HalfCheetah-v5", "--preset=paper", "--engine=gymnasium"],
    "Hopper-v5 ppo": ["Hopper-v5", "--preset=paper"],
    "Pong-v5 a2c": ["Pong-v5", "--learner=a2c", "--unroll=5", "--alpha=20", "--learner-threads=1"],
    "Pong-v5 ppo": ["Pong-v5", "--preset=atari"],
    "football ppo": ["gfootball/academy_empty_goal_close-v1"],
}

PART = """
import dataclasses, json, sys, time
import numpy as np, torch
from drumline.commands.train import Output
from drumline.recipes.actor_critic import parts_of
from drumline.recipes.methods import METHODS
from drumline.recipes.learners import make_learner
from drumline.policies.actions import sample
from drumline.types import Rollout
config, what, seconds = json.loads(sys.argv[1]), sys.argv[2], float(sys.argv[3])
method = METHODS[sys.argv[4]].config
config["hidden"] = tuple(config["hidden"])
torch.set_num_threads(1)
config = method(**config)
if what.startswith("update"):
    config = dataclasses.replace(config, learner_threads=int(what[6:]))
recipe = parts_of(config)
n, alpha, shape = config.num_envs, config.alpha, recipe.shape
rng = np.random.default_rng(0)
def observations(*lead):
    dtype = np.dtype(shape.observation_dtype)
    size = (*lead, *shape.observation_shape)
    if dtype == np.uint8: return rng.integers(0, 255, size, np.uint8)
    return rng.standard_normal(size).astype(dtype)
head = recipe.network.head
if what != "environment":  # whose processes would each have a device of their own
    learner = make_learner(recipe, lambda: None)
    arrays = {k: np.array(v) for k, v in learner.published().items()}
if what == "environment":
    lanes = recipe.lanes(); lanes.begin(0)
    noise = rng.random((n, head.noise_size), dtype=np.float32)
    actions, _ = sample(head, np.zeros((n, head.output_size), np.float32), noise)
    def work(): lanes.step(None, actions); return n
elif what == "forward":
    inference = recipe.inference()(); inference.load(arrays)
    batch = observations(n)
    def work(): inference(batch); return n
else:
    actions = np.zeros((alpha, n, *head.action_shape), head.action_dtype)
    flags = np.zeros((alpha, n), bool); numbers = rng.standard_normal((alpha, n)).astype(np.float32)
    count = [0]
    def work():
        rollout = Rollout(count[0], observations_, actions, numbers, flags, flags, -abs(numbers),
            numbers, np.zeros(0, np.int32), np.zeros(0, np.int64), observations(0))
        count[0] += 1
        learner.update(rollout, arrays)
        return alpha * n
    observations_ = observations(alpha + 1, n)
work()
print("ready", flush=True)
start = float(input())
while time.monotonic() < start: time.sleep(0.001)
done, began = 0, time.perf_counter()
while time.perf_counter() - began < seconds: done += work()
print(done / (time.perf_counter() - began))
"""


def part(
    config: dict[str, object], what: str, processes: int, seconds: float, method: str = "hts"
) -> float:
    """Return the env steps per second of one part alone, in so many processes."""
    return measured(started(config, what, processes, seconds, method))


def started(
    config: dict[str, object], what: str, processes: int, seconds: float, method: str
) -> "list[subprocess.Popen[str]]":
    """Start the processes of a part, which wait to be measured."""
    words = [sys.executable, "-c", PART, json.dumps(config), what, str(seconds), method]
    pipe = subprocess.PIPE
    return [
        subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=one_blas_thread())
        for _ in range(processes)
    ]


def measured(processes: "list[subprocess.Popen[str]]") -> float:
    """Return the env steps per second of these processes at once, after which they end."""
    pipes = [(process.stdin, process.stdout) for process in processes]
    for _, answers in pipes:
        while (line := answers.readline()) != "ready\n":
            assert line, "a part did not start"
    begin = time.monotonic() + 0.25
    for orders, _ in pipes:
        orders.write(f"{begin!r}\n")
        orders.flush()
    return sum(float(process.communicate()[0]) for process in processes)


def parts(config: dict[str, object], seconds: float, method: str = "hts") -> dict[str, float]:
    """Return the env steps per second of each part alone on all cores, and their sum bound."""
    cores, names = os.cpu_count() or 1, ("environment", "forward")
    speeds = {what: part(config, what, cores, seconds / 3, method) for what in names}
    speeds["update"] = update_speed(config, seconds / 2, method)
    return {**speeds, "bound": 1.0 / sum(1.0 / speed for speed in speeds.values())}


def update_speed(config: dict[str, object], seconds: float, method: str = "hts") -> float:
    """Return the env steps per second of updates alone: a process a core, or one with threads."""
    cores = os.cpu_count() or 1
    ways = (("update1", cores), (f"update{cores}", 1))
    return max(part(config, what, count, seconds, method) for what, count in ways)


def whole(
    case: list[str],
    steps: int,
    layout: list[str],
    drumline: Sequence[str] = ("-m", "drumline"),
    method: str = "hts",
) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        flags = [f"--total-steps={steps}", "--evaluate-every=0", "--evaluate-episodes=1"]
        flags += ["--evaluate-max-steps=200", "--quiet"]  # no speed is taken from an evaluation
        command = [sys.executable, *drumline, "train", method, *case, *flags, *layout]
        subprocess.run([*command, f"--out={out}"], check=True)
        with open(out / "metrics.csv", newline="") as lines:
            rows = [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(lines)]
        first = min(3, len(rows) - 2)
        seconds = rows[-1]["wall_seconds"] - rows[first]["wall_seconds"]
        made = rows[-1]["env_steps"] - rows[first]["env_steps"]
        updates = sum(row.get("update_seconds", 0.0) for row in rows[first + 1 :])
        timeline = json.loads((out / "timeline.json").read_text())
        config = json.loads((out / "config.json").read_text())["config"]
        return {
            "inference_rows": config.get("inference_rows", 0),
            "speed": made / seconds,
            "update_share": updates / seconds,
            "overlap": overlap_share(timeline),
        }


def overlap_share(timeline: dict[str, list[dict[str, float]]]) -> float:
    """Time in which executors and learner both worked, over the shorter of the two."""
    spans: dict[str, list[tuple[float, float]]] = {"executor": [], "learner": []}
    for event in timeline["traceEvents"]:
        role = str(event.get("cat", ""))
        if role in spans and event.get("ph") == "X":
            spans[role].append((event["ts"], event["ts"] + event["dur"]))
    works = {role: merged(sorted(parts)) for role, parts in spans.items()}
    totals = [sum(end - begin for begin, end in parts) for parts in works.values()]
    both = sum(
        max(0.0, min(end, other_end) - max(begin, other_begin))
        for begin, end in works["executor"]
        for other_begin, other_end in works["learner"]
    )
    return both / min(totals) if min(totals) > 0 else float("nan")


def merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    joined: list[tuple[float, float]] = []
    for begin, end in spans:
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--precisions", nargs="*", default=["fp32"], choices=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--layout", nargs="*", default=[], help="layout flags, without dashes")
    options = parser.parse_args()
    layout = [f"--{word}" for word in options.layout]
    table: list[dict[str, object]] = []
    for name, precision in product(options.cases, options.precisions):
        case = [*CASES[name], f"--precision={precision}"]
        config = printed_config("hts", case)
        rounds: list[dict[str, float]] = []
        for _ in range(options.rounds):
            speeds = parts(config, options.seconds)
            interval = int(str(config["num_envs"])) * int(str(config["alpha"]))
            steps = max(8 * interval, int(speeds["bound"] * options.seconds))
            measured = whole(case, steps, layout)
            rounds.append({**speeds, **measured})
        median = {key: statistics.median(row[key] for row in rounds) for key in rounds[0]}
        ratios = [row["speed"] / row["bound"] for row in rounds]
        table.append(
            {
                "case": name,
                "precision": config["precision"],
                "num_envs": config["num_envs"],
                "alpha": config["alpha"],
                "layout": " ".join(layout) or "default",
                "environment_env_steps_per_second": f"{median['environment']:.0f}",
                "forward_env_steps_per_second": f"{median['forward']:.0f}",
                "update_env_steps_per_second": f"{median['update']:.0f}",
                "sum_bound_env_steps_per_second": f"{median['bound']:.0f}",
                "hts_env_steps_per_second": f"{median['speed']:.0f}",
                "ratio_median": f"{statistics.median(ratios):.3f}",
                "ratio_min": f"{min(ratios):.3f}",
                "ratio_max": f"{max(ratios):.3f}",
                "update_share": f"{median['update_share']:.3f}",
                "overlap_share": f"{median['overlap']:.3f}",
                "rounds": options.rounds,
                **provenance([0]),
            }
        )
        print(table[-1], flush=True)
        write_table(options.out, table)


if __name__ == "__main__":
    main()
