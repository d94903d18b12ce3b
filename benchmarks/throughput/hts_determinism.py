"""Cost of fixed batches in HTS-RL: env steps per second with them, over those with free batching.

On processors where a network's rows do not keep their bits in batches of any size, every forward
pass when acting is cut into calls of the rows that the self-check found (`inference_rows`). Free
batching passes whatever has come in one call and promises nothing. Both in turn, round by round.

    python benchmarks/throughput/hts_determinism.py --out benchmarks/results/hts_determinism.csv
"""

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from hts import CASES, whole
from printed_config import printed_config
from provenance import provenance, write_table

FREE = """
import sys
from drumline.cli import run
from drumline.policies import invariance

# A run refuses rows that do not keep their bits, so free batching is not to be had by a flag.
invariance.choose_rows = lambda *_: 0
sys.exit(run(sys.argv[1:]))
"""
WAYS = {"fixed": ["-m", "drumline"], "free": ["-c", FREE]}
LAYOUTS = {"own": [], "central": ["--executors=2", "--actors=1"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", nargs="*", default=["Pong-v5 a2c"], choices=list(CASES))
    parser.add_argument("--layouts", nargs="*", default=list(LAYOUTS), choices=list(LAYOUTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8_000)
    options = parser.parse_args()
    table: list[dict[str, object]] = []
    for name in options.cases:
        config = printed_config("hts", CASES[name])
        for inference in options.layouts:
            layout = LAYOUTS[inference]
            fixed, free, rows = [], [], 0
            for number in range(options.rounds):
                made: dict[str, dict[str, float]] = {}
                for way in list(WAYS)[:: 1 if number % 2 == 0 else -1]:
                    made[way] = whole(CASES[name], options.steps, layout, WAYS[way])
                rows = int(made["fixed"]["inference_rows"])
                fixed.append(made["fixed"]["speed"])
                free.append(made["free"]["speed"])
            ratios = [one / other for one, other in zip(fixed, free, strict=True)]
            table.append(
                {
                    "case": name,
                    "precision": config["precision"],
                    "inference": inference,
                    "inference_rows": rows,
                    "fixed_env_steps_per_second": f"{statistics.median(fixed):.0f}",
                    "free_env_steps_per_second": f"{statistics.median(free):.0f}",
                    "ratio_median": f"{statistics.median(ratios):.3f}",
                    "ratio_min": f"{min(ratios):.3f}",
                    "ratio_max": f"{max(ratios):.3f}",
                    "rounds": options.rounds,
                    **provenance([0]),
                }
            )
            print(table[-1], flush=True)
            write_table(options.out, table)


if __name__ == "__main__":
    main()
