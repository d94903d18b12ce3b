"""Members per second of a torch module: noise of low rank with members of one call, and full rank.

    plain      one forward pass of the unperturbed module over the inputs of M members
    low_rank   the same inputs by `ModuleMembers`: factors drawn and stacked, then M members at
               once; parameters are written once for the calls of a generation, as in a worker
    alone      noise of low rank, a member at a time: its weights written, then a forward pass
    full_rank  noise of full rank from counters, a member at a time, as without --noise low-rank

The ways take turns within each of `--turns`, in an order that is drawn for each; processor time of
one process and one thread. A share is the median over turns of (seconds of plain) / (seconds of a
way) in the same turn; beside it stands the 95 % interval of that median by the bootstrap.

    python benchmarks/throughput/low_rank.py --out benchmarks/results/low_rank.csv
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.functional.low_rank import LowRank, LowRankNoise
from drumline.functional.perturbation import counter_reader, generation_keys, perturbed_pieces
from drumline.functional.statistics import bootstrap_interval
from drumline.policies.module_members import Member, ModuleMembers
from drumline.policies.searched_module import SearchedModule

SCALE = 0.01


def place_of(width: int, layers: int) -> str:
    """Return the place of a class of dense layers, in a module that is made here."""

    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = torch.relu(layer(x))
            return x

    made = ModuleType("low_rank_module")
    made.Dense = Dense  # pyright: ignore[reportAttributeAccessIssue]
    sys.modules[made.__name__] = made
    return f"{made.__name__}:Dense"


def ways_of(
    place: str, width: int, rank: int, members: int, rows: int
) -> tuple[dict[str, Callable[[int], Any]], int]:
    """Return each way, as a function of the generation, and the number of parameters."""
    whole, shared = SearchedModule(place, 0), SearchedModule(place, 0)
    theta = whole.vector()
    layout = LowRank(rank, tuple(whole.shapes.values()))
    together = ModuleMembers(shared, layout, LowRankNoise(0, layout))
    thin, full = LowRankNoise(0, layout).read, counter_reader(0)
    inputs = torch.from_numpy(
        np.random.default_rng(0).standard_normal((members, rows, width), np.float32)
    )
    plain = SearchedModule(place, 0).with_parameters(theta)

    def drawn(generation: int) -> list[Member]:
        keys = generation_keys(generation, 0, -(-members // 2))
        return [Member(keys[m // 2], SCALE * (1 - 2 * (m % 2))) for m in range(members)]

    def forward(generation: int) -> Tensor:
        with torch.no_grad():
            return plain(inputs.view(members * rows, width)).view(members, rows, width)

    def low_rank(generation: int) -> Tensor:
        together.publish(generation, theta)
        return together.perturbed(drawn(generation))(inputs)

    def one_by_one(read: Any) -> Callable[[int], Tensor]:
        def call(generation: int) -> Tensor:
            outputs: list[Tensor] = []
            for (key, scale), given in zip(drawn(generation), inputs, strict=True):
                module = whole.with_pieces(perturbed_pieces(theta, read, key, scale))
                with torch.no_grad():
                    outputs.append(module(given))
            return torch.stack(outputs)

        return call

    ways = {
        "plain": forward,
        "low_rank": low_rank,
        "alone": one_by_one(thin),
        "full_rank": one_by_one(full),
    }
    difference = (low_rank(1) - ways["alone"](1)).abs().max().item()
    if not difference < 1e-3 * max(1.0, forward(1).abs().max().item()):
        raise RuntimeError(f"members of one call differ by {difference} from those alone")
    return ways, theta.size


def seconds_of(
    ways: dict[str, Callable[[int], Any]], turns: int, calls: int
) -> dict[str, np.ndarray]:
    """Return the seconds of each way for a generation of `calls`; the first turn is left out."""
    rng = np.random.default_rng(0)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(turns + 1):
        for name in rng.permutation(list(ways)).tolist():
            began = time.process_time()
            for _ in range(calls):
                ways[name](turn + 2)
            seconds[name].append(time.process_time() - began)
    return {name: np.array(each[1:]) for name, each in seconds.items()}


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return the median and the 95 % interval of it."""
    low, high = bootstrap_interval(values, seed=0, statistic=np.median)
    return float(np.median(values)), low, high


def measured(size: int, options: argparse.Namespace, rows: int) -> list[dict[str, Any]]:
    width, members = options.width, options.members
    place = place_of(width, max(1, round(size / width**2)))
    ways, parameters = ways_of(place, width, options.rank, members, rows)
    seconds = seconds_of(ways, options.turns, options.calls)
    table: list[dict[str, Any]] = []
    for name, each in seconds.items():
        speed, slow, fast = interval(options.calls * members / each)
        share, least, most = interval(seconds["plain"] / each)
        table.append(
            {
                "parameters": parameters,
                "width": width,
                "rank": options.rank,
                "members_per_call": members,
                "calls": options.calls,
                "rows_per_member": rows,
                "way": name,
                "turns": options.turns,
                "torch": torch.__version__,
                "members_per_second": f"{speed:.4g}",
                "members_per_second_low": f"{slow:.4g}",
                "members_per_second_high": f"{fast:.4g}",
                "share_of_plain": f"{share:.3g}",
                "share_of_plain_low": f"{least:.3g}",
                "share_of_plain_high": f"{most:.3g}",
            }
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", default="1000000,10000000")
    parser.add_argument("--width", type=int, default=1000)
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--members", type=int, default=32)
    parser.add_argument("--calls", type=int, default=2, help="of a generation")
    parser.add_argument("--rows", default="1,8,32,128", help="inputs of each member")
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    table: list[dict[str, Any]] = []
    for size in map(int, options.sizes.split(",")):
        for rows in map(int, options.rows.split(",")):
            table += measured(size, options, rows)
            for row in table[-4:]:
                print({name: row[name] for name in list(row)[:1] + list(row)[4:]}, flush=True)
    print("load", " ".join(f"{each:.1f}" for each in os.getloadavg()))
    write_table(options.out, [{**row, **provenance([0])} for row in table])


if __name__ == "__main__":
    main()
