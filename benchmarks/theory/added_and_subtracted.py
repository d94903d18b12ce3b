"""Weights after noise was added and subtracted again, and after it was written from a master copy.

Scripts that search over large modules add σ·ε to the module's own weights, evaluate, and subtract
it again. In floating point θ + σε − σε is not θ. Each round trip here uses another ε; the weights
are drawn with a std of 0.02, as those of a transformer are. Kept beside: the same tensor written
from a float32 master for each member, as `drumline.policies.searched_module` does.

    python benchmarks/theory/added_and_subtracted.py --out \\
        benchmarks/results/added_and_subtracted.csv
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline import seeding

SIZE = 1_000_000
TRIPS = (1, 4, 30, 300)
KINDS = {"bf16": torch.bfloat16, "fp32": torch.float32}


def changed(kind: str, std: float, trips: int) -> dict[str, Any]:
    """Share of changed weights after some round trips, and their distance from where they were."""
    seeding.seed_torch(0)
    master = torch.randn(SIZE) * 0.02
    first = master.to(KINDS[kind])
    weights = first.clone()
    for _ in range(trips):
        noise = (torch.randn(SIZE) * std).to(KINDS[kind])
        weights += noise
        weights -= noise
    written = torch.empty_like(first)
    for member in range(2):
        written.copy_(master + std * member * torch.randn(SIZE))
    written.copy_(master)
    moved = (weights.double() - first.double()).norm() / first.double().norm()
    return {
        "precision": kind,
        "std": std,
        "round_trips": trips,
        "share_changed": round(float((weights != first).float().mean()), 4),
        "relative_distance": f"{float(moved):.2e}",
        "share_changed_if_written": float((written != first).float().mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = [changed(k, std, n) for k in KINDS for std in (1e-3, 1e-2) for n in TRIPS]
    for row in rows:
        print(row)
    write_table(options.out, [{**row, **provenance([0])} for row in rows])


if __name__ == "__main__":
    main()
