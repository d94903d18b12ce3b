"""Throughput of HTS-RL's rivals: lock-step against a plain loop, free running against the barrier.

Everything runs side by side: in each round the plain loop (`plain_loop.py`, at its better number
of threads) and each method in turn, at equal sizes and epochs, in fp32 unless bf16 is named; ratios
are of medians.

    python benchmarks/throughput/rivals.py --out benchmarks/results/rivals_throughput.csv
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from printed_config import printed_config
from provenance import provenance, write_table

HERE = Path(__file__).resolve().parent
PONG_PPO = ["Pong-v5", "--preset=atari"]
PONG_A2C = ["--learner=a2c", "--unroll=5", "--alpha=20", "--learner-threads=1"]
VTRACE = ["--learner=a2c", "--alpha=20", "--correction=vtrace"]
PPO_128 = ["--alpha=128", "--minibatches=32", "--renew-intervals=32"]
CASES: dict[str, dict[str, list[str]]] = {
    "CartPole-v1 ppo": {"ppo": ["CartPole-v1"]},
    "CartPole-v1 a2c": {"a2c": ["CartPole-v1"]},
    "HalfCheetah-v5 ppo": {"ppo": ["HalfCheetah-v5", *PPO_128]},
    "Pong-v5 ppo": {"ppo": PONG_PPO},
    "Pong-v5 a2c": {"a2c": ["Pong-v5"]},
    "Pong-v5 ppo, concurrent": {
        "ppo": PONG_PPO,
        "hts": PONG_PPO,
        "hts bf16": [*PONG_PPO, "--precision=bf16"],
    },
    "Pong-v5 a2c, concurrent": {
        "a2c": ["Pong-v5", "--alpha=20", "--unroll=5"],
        "hts": ["Pong-v5", *PONG_A2C],
        "hts bf16": ["Pong-v5", *PONG_A2C, "--precision=bf16"],
    },
    "Pong-v5 free running": {
        "hts": ["Pong-v5", *VTRACE, "--barrier=hard"],
        "impala": ["Pong-v5", "--batch=16"],
    },
    "HalfCheetah-v5 free running": {
        "hts": ["HalfCheetah-v5", *VTRACE, "--barrier=hard"],
        "impala": ["HalfCheetah-v5", "--batch=16"],
    },
}
"""Case → method → what is typed after `drumline train METHOD`; the first is also the loop's.

What follows a method's name is for the table alone.
"""


def plain(method: str, config: dict[str, Any], threads: int, seconds: float) -> float:
    told = json.dumps({"learner": method, **config, "threads": threads})
    command = [sys.executable, str(HERE / "plain_loop.py"), told, f"--seconds={seconds}"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def ours(method: str, words: list[str], steps: int) -> float:
    with tempfile.TemporaryDirectory() as place:
        flags = [f"--total-steps={steps}", "--evaluate-every=0", "--evaluate-episodes=1"]
        command = [sys.executable, "-m", "drumline", "train", method, *words, *flags, "--quiet"]
        subprocess.run([*command, f"--out={place}/run"], check=True)
        with open(Path(place) / "run/metrics.csv", newline="") as lines:
            rows = list(csv.DictReader(lines))
    first = min(3, len(rows) - 2)
    made, seconds = (
        float(rows[-1][name]) - float(rows[first][name]) for name in ("env_steps", "wall_seconds")
    )
    return made / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    table: list[dict[str, object]] = []
    for name in options.cases:
        methods = CASES[name]
        method, words = next(iter(methods.items()))
        config = printed_config(method, [w for w in words if not w.startswith("--barrier")])
        speeds: dict[str, list[float]] = {"plain loop": [], **{m: [] for m in methods}}
        threads, interval = {1, os.cpu_count() or 1}, config["num_envs"] * config["alpha"]
        for number in range(options.rounds):
            for other in list(speeds)[:: 1 if number % 2 == 0 else -1]:
                if other == "plain loop":
                    each = (plain(method, config, n, options.seconds) for n in threads)
                    speeds[other].append(max(each))
                    continue
                steps = max(8 * interval, int(speeds["plain loop"][-1] * options.seconds))
                speeds[other].append(ours(other.split()[0], methods[other], steps))
        medians = {what: statistics.median(values) for what, values in speeds.items()}
        for what, values in speeds.items():
            table.append(
                {
                    "case": name,
                    "what": what,
                    "precision": "bf16" if what.endswith("bf16") else config["precision"],
                    "num_envs": config["num_envs"],
                    "alpha": config["alpha"],
                    "env_steps_per_second": f"{medians[what]:.0f}",
                    "min": f"{min(values):.0f}",
                    "max": f"{max(values):.0f}",
                    "against_plain_loop": f"{medians[what] / medians['plain loop']:.3f}",
                    "rounds": options.rounds,
                    **provenance([0]),
                }
            )
            print(table[-1], flush=True)
        write_table(options.out, table)


if __name__ == "__main__":
    main()
