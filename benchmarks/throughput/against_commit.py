"""Speed of whole runs against an earlier commit, in turn: processor time per env step.

Each round trains every case once at both commits, in a single process (`--pool inline`), so that
other work on the machine changes waiting times and not what is counted. Start-up is counted at
both alike; a case is long enough to make it a small part. The ratio is old / new: above 1 is
faster than before. Its interval is a bootstrap over the rounds' ratios.

    python benchmarks/throughput/against_commit.py --against COMMIT --rounds 15 \
        --out benchmarks/results/against_commit.csv
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from earlier_commit import TREE, checkout
from provenance import provenance, write_table

from drumline.functional.statistics import bootstrap_interval

PLAIN = ["--pool", "inline", "--quiet", "--no-tensorboard"]
_PONG = (
    "--total-steps 8192 --evaluate-every 0 --evaluate-episodes 1 --evaluate-max-steps 100 "
    "--alpha 128 --epochs 4 --minibatches 4 --clip 0.1 --renew-intervals 256 --learner-threads 2"
)
CASES = {
    "es": "es HalfCheetah-v5 --total-steps 30000 --evaluate-every 0 --evaluate-episodes 1",
    # One shape for all commits: presets have changed.
    "hts": "hts HalfCheetah-v5 --total-steps 16384 --evaluate-every 0 --evaluate-episodes 1 "
    "--alpha 128 --minibatches 32 --renew-intervals 32 --correction auto",
    "hts-gymnasium": "hts HalfCheetah-v5 --engine gymnasium --num-envs 16 --alpha 128 "
    "--minibatches 4 --epochs 4 --correction ppo-ratio --total-steps 65536 --evaluate-every 0 "
    "--evaluate-episodes 1",
    "hts-cartpole": "hts CartPole-v1 --engine gymnasium --num-envs 64 --alpha 32 --minibatches 8 "
    "--epochs 4 --total-steps 262144 --evaluate-every 0 --evaluate-episodes 1",
    "aes": "aes Pendulum-v1 --total-steps 2600 --evaluate-every 0 --evaluate-episodes 1",
    "td3": "td3 Pendulum-v1 --total-steps 3000 --evaluate-every 0 --evaluate-episodes 1",
    "hts-pong": f"hts Pong-v5 {_PONG}",
    "hts-pong-bf16": f"hts Pong-v5 {_PONG} --precision bf16",
}


def processor_seconds(source: Path, words: list[str]) -> float:
    """Train once with the sources of a tree; returns its user and system time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(
            [sys.executable, "-m", "drumline", "train", *words, "--out", f"{place}/run", *PLAIN],
            env={**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "0"},
            check=True,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print and keep the ratio of every case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", required=True, help="the earlier commit")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    seconds: dict[str, list[tuple[float, float]]] = {case: [] for case in options.cases}
    with checkout(options.against) as old:
        for number in range(options.rounds):
            for case in options.cases:
                words = CASES[case].split()
                trees = [old / "src", TREE / "src"]
                order = trees if number % 2 == 0 else trees[::-1]
                took = {tree: processor_seconds(tree, words) for tree in order}
                seconds[case].append((took[trees[0]], took[trees[1]]))
                print(f"round {number + 1}, {case}: {took[trees[0]] / took[trees[1]]:.3f}")
    rows = []
    for case, pairs in seconds.items():
        ratios = [before / after for before, after in pairs]
        low, high = bootstrap_interval(np.array(ratios), seed=0, statistic=np.median)
        print(f"{case}: {median(ratios):.3f} ({low:.3f} … {high:.3f}), {len(ratios)} rounds")
        per_step = 1e6 / int(CASES[case].split("--total-steps ")[1].split()[0])
        rows.append(
            {
                "case": case,
                "against": options.against,
                "rounds": len(ratios),
                "ratio_median": f"{median(ratios):.4f}",
                "ratio_low": f"{low:.4f}",
                "ratio_high": f"{high:.4f}",
                "microseconds_per_env_step_before": f"{per_step * median(b for b, _ in pairs):.1f}",
                "microseconds_per_env_step": f"{per_step * median(a for _, a in pairs):.1f}",
                "run": f"drumline train {CASES[case]} --pool inline",
                **provenance([0]),
            }
        )
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
