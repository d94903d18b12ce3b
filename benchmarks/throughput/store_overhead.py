"""Cost of `--store` for a training: the same run with and without a copy, in turns.

The run is td3 in one process, whose environment, learner and uploads share an interpreter. Its
checkpoints are far closer than the default of two minutes, so that uploads never pause for long. A
store is a directory, or moto's S3 server in a process of its own, which takes time of the same
cores.

    wall       seconds up to the last row of metrics.csv: training alone
    processor  CPU seconds of the whole driver, start and last upload included

    python benchmarks/throughput/store_overhead.py --out benchmarks/results/store_overhead.csv
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from provenance import provenance, write_table
from s3_server import BUCKET, environ, s3_server

from drumline.runs.fingerprints import read_chain

CHECKPOINT_MINUTES = 0.02


class Turn(NamedTuple):
    """One training."""

    wall: float
    processor: float
    chained: str


def turn(place: Path, store: str, env: str, steps: int, port: int) -> Turn:
    words = [sys.executable, "-m", "drumline", "train", "td3", env, f"--out={place}", "--quiet"]
    words += [
        "--pool=inline",
        f"--total-steps={steps}",
        f"--checkpoint-minutes={CHECKPOINT_MINUTES}",
    ]
    words += ["--evaluate-every=0", "--evaluate-episodes=1", "--random-steps=200"]
    words += [f"--store={store}"] if store else []
    before = os.times()
    subprocess.run(words, check=True, env={**os.environ, **environ(port)})
    after = os.times()
    with (place / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    last = read_chain(place / "fingerprints.csv").last()
    assert last is not None
    return Turn(
        float(rows[-1]["wall_seconds"]),
        after.children_user + after.children_system - before.children_user - before.children_system,
        last.chained,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    turns: dict[str, list[Turn]] = {"none": [], "file": [], "s3": []}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(s3_server(place))
        for number in range(options.turns):
            order = list(turns) if number % 2 else list(turns)[::-1]
            for name in order:
                stem = f"{name}-{number}"
                urls = {"file": f"file://{place}/objects/{stem}", "s3": f"s3://{BUCKET}/{stem}"}
                args = (urls.get(name, ""), options.env, options.steps, port)
                turns[name].append(turn(place / stem, *args))
                print(stem, turns[name][-1], flush=True)
    assert len({t.chained for made in turns.values() for t in made}) == 1, "the results differ"
    rows = []
    for store in ("file", "s3"):
        for what in ("wall", "processor"):
            seconds = {name: [getattr(t, what) for t in made] for name, made in turns.items()}
            ratios = [a / b for a, b in zip(seconds[store], seconds["none"], strict=True)]
            rows.append(
                {
                    "environment": options.env,
                    "store": store,
                    "env_steps": options.steps,
                    "turns": options.turns,
                    "checkpoint_seconds": 60 * CHECKPOINT_MINUTES,
                    "seconds": what,
                    "without_median": f"{median(seconds['none']):.4f}",
                    "with_median": f"{median(seconds[store]):.4f}",
                    "ratio_of_pairs_median": f"{median(ratios):.4f}",
                    "ratio_of_pairs_min": f"{min(ratios):.4f}",
                    "ratio_of_pairs_max": f"{max(ratios):.4f}",
                    **provenance([0]),
                }
            )
            print(rows[-1], flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
