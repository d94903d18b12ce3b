"""Groups that own whole shards: hts and lock-step ppo on one and two nodes, in turns.

Every cell is a whole run with the same shards; runs of one method must have equal fingerprints.
Cells take turns, so that load from elsewhere falls on all alike. Env steps/s are those of a run's
median interval from the third on; core seconds are the head's own for its median update. The groups
share one machine here, so a second group adds no core; it shows what gathering costs.

    python benchmarks/throughput/groups.py --out benchmarks/results/groups_throughput.csv
"""

import argparse
import csv
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.api.run import train
from drumline.recipes.hts import HTS
from drumline.recipes.ppo import PPO
from drumline.training.layout import LockstepLayout, RotationLayout

SHARDS = 2
TASKS: dict[str, dict[str, Any]] = {
    "CartPole-v1, steps of 2 ms (exponential)": {
        "env": "CartPole-v1",
        "engine": "gymnasium",
        "step_time": "exponential:2ms",
        "num_envs": 16,
        "alpha": 32,
        "epochs": 4,
        "minibatches": 4,
    },
    "HalfCheetah-v5": {
        "env": "HalfCheetah-v5",
        "engine": "envpool",
        "num_envs": 16,
        "alpha": 64,
        "epochs": 10,
        "minibatches": 16,
        "normalize_observations": True,
        "scale_rewards": True,
    },
}
METHODS = {"hts": (HTS, RotationLayout), "ppo": (PPO, LockstepLayout)}
_BEGUN = 2  # updates until every process has all its code and memory


class Turn(NamedTuple):
    """One run of one cell."""

    env_steps_per_second: float
    core_seconds_per_update: float
    fingerprint: str


def turn(task: str, method: str, nodes: int, updates: int) -> Turn:
    kind, layout = METHODS[method]
    fields = TASKS[task]
    steps = fields["num_envs"] * fields["alpha"] * updates
    config = kind(
        **fields, total_steps=steps, learners=SHARDS, evaluate_every=0, evaluate_episodes=1
    )
    with tempfile.TemporaryDirectory() as place:
        quick = {"tensorboard": False, "checkpoint_minutes": 60.0}
        run = train(config, layout=layout(nodes=nodes, **quick), out=Path(place) / "run")
        with open(run.path / "metrics.csv", newline="") as file:
            rows = [dict(row) for row in csv.DictReader(file)]
        chained = (run.path / "fingerprints.csv").read_text().splitlines()[-1].split(",")[-1]
    counted = rows[_BEGUN:]
    seconds = median(float(row["interval_seconds"]) for row in counted)
    cores = median(float(row["update_core_seconds"]) for row in counted)
    return Turn(fields["num_envs"] * fields["alpha"] / seconds, cores, chained)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--updates", type=int, default=22)
    options = parser.parse_args()
    cells = [(method, nodes) for method in METHODS for nodes in (1, 2)]
    rows: list[dict[str, Any]] = []
    for task in TASKS:
        turns: dict[tuple[str, int], list[Turn]] = {cell: [] for cell in cells}
        for number in range(options.turns):
            for cell in cells if number % 2 else cells[::-1]:
                turns[cell].append(turn(task, *cell, options.updates))
                print(task, *cell, turns[cell][-1], flush=True)
        for method in METHODS:
            prints = {t.fingerprint for nodes in (1, 2) for t in turns[method, nodes]}
            assert len(prints) == 1, f"the runs of {method} differ"
        base = [t.env_steps_per_second for t in turns["hts", 1]]
        for (method, nodes), made in turns.items():
            speeds = [t.env_steps_per_second for t in made]
            ratios = [own / other for own, other in zip(speeds, base, strict=True)]
            rows.append(
                {
                    "task": task,
                    "method": method,
                    "nodes": nodes,
                    "learners": SHARDS,
                    "turns": options.turns,
                    "updates": options.updates,
                    "env_steps_per_second_median": f"{median(speeds):.1f}",
                    "env_steps_per_second_min": f"{min(speeds):.1f}",
                    "env_steps_per_second_max": f"{max(speeds):.1f}",
                    "ratio_to_hts_on_1_node_median": f"{median(ratios):.3f}",
                    "ratio_to_hts_on_1_node_min": f"{min(ratios):.3f}",
                    "ratio_to_hts_on_1_node_max": f"{max(ratios):.3f}",
                    "core_seconds_per_update_median": (
                        f"{median(t.core_seconds_per_update for t in made):.4f}"
                    ),
                    **provenance([0]),
                }
            )
            print(rows[-1], flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
