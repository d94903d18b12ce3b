"""Learning against Stable-Baselines3 at equal settings, env steps and evaluations.

Every run is a process of its own on one thread; ours and the peer take turns. A row is a run's
evaluation at one of its budgets. Runs whose rows of all budgets are in the file already are not
made again; the summary beside it is of all its rows.

    python benchmarks/learning/peers.py --peer-python PEER/bin/python --out hts_peers.csv
"""

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from equal_settings import (
    A2C_CARTPOLE,
    PPO_CARTPOLE,
    PPO_CONTROL,
    TD3_CONTROL,
    Peer,
    our_flags,
    torch_version,
)
from goals import evaluations
from peer_summary import summary
from provenance import one_blas_thread, provenance, write_table

PEER = "stable-baselines3"
BUDGETS = 4


@dataclass(frozen=True)
class Case:
    """One task and what is compared on it."""

    env: str
    peer: str
    """The peer's method."""
    ours: dict[str, list[str]]
    """Our methods, and what each is told besides."""
    settings: dict[str, Any]
    updates: int
    """From one budget to the next."""
    episodes: int
    seeds: int
    budget_count: int = BUDGETS

    @property
    def env_steps(self) -> int:
        """Return the env steps from one budget to the next."""
        per_update = self.settings.get("num_envs", 1) * self.settings.get("alpha", _TD3_BLOCK)
        return self.updates * per_update

    @property
    def budgets(self) -> list[int]:
        return [self.env_steps * (number + 1) for number in range(self.budget_count)]


_TD3_BLOCK = 500
CASES = {
    "CartPole-v1 ppo": Case(
        "CartPole-v1",
        "ppo",
        {"ppo": [], "hts": ["--correction=truncated-is"]},
        PPO_CARTPOLE,
        updates=40,
        episodes=20,
        seeds=10,
    ),
    "CartPole-v1 a2c": Case(
        "CartPole-v1", "a2c", {"a2c": []}, A2C_CARTPOLE, updates=750, episodes=20, seeds=10
    ),
    "HalfCheetah-v5 ppo": Case(
        "HalfCheetah-v5",
        "ppo",
        {"ppo": [], "hts": ["--correction=truncated-is"]},
        PPO_CONTROL,
        updates=24,
        episodes=10,
        seeds=5,
    ),
    "Hopper-v5 td3": Case(
        "Hopper-v5",
        "td3",
        {"td3": [f"--steps-per-update={_TD3_BLOCK}"]},
        TD3_CONTROL,
        updates=15,
        episodes=10,
        seeds=5,
    ),
}


def our_run(case: Case, method: str, seed: int) -> list[float]:
    """Return the mean return at each budget."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        words = [
            *our_flags(case.settings),
            *case.ours[method],
            f"--seed={seed}",
            f"--total-steps={case.budgets[-1]}",
            f"--evaluate-every={case.updates}",
            f"--evaluate-episodes={case.episodes}",
        ]
        command = [sys.executable, "-m", "drumline", "train", method, case.env, *words]
        layout = ["--pool=inline", "--no-tensorboard", "--quiet"]
        subprocess.run([*command, *layout, f"--out={out}"], check=True, env=one_blas_thread())
        means = {int(row["env_steps"]): float(row["mean"]) for row in evaluations(out)}
    return [means[budget] for budget in case.budgets]


def peer_run(peer: Peer, case: Case, seed: int) -> list[float]:
    """Return the mean return at each budget."""
    told = {"env": case.env, "seed": seed, "budgets": case.budgets, **case.settings}
    returns = peer.learn(case.peer, {**told, "evaluate_episodes": case.episodes})
    return [float(np.mean(each)) for each in returns]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--seeds", nargs="*", type=int, help="default: as many as the case has")
    parser.add_argument("--budgets", type=int, default=BUDGETS, help="runs end at this one of them")
    options = parser.parse_args()
    peer = Peer(options.peer_python)
    peer_versions = peer.versions()
    table = read_table(options.out)
    for name in options.cases:
        case = replace(CASES[name], budget_count=options.budgets)
        for seed in range(case.seeds) if options.seeds is None else options.seeds:
            for who in (PEER, *case.ours):
                wanted = {(name, who, str(seed), str(budget)) for budget in case.budgets}
                if wanted <= {identity(row) for row in table}:
                    continue
                began = time.perf_counter()
                ours = who != PEER
                means = our_run(case, who, seed) if ours else peer_run(peer, case, seed)
                told = provenance([seed])
                told["versions"] = (
                    f"{told['versions']} {torch_version()}" if ours else peer_versions
                )
                table = [row for row in table if identity(row) not in wanted]
                table += [
                    {
                        "case": name,
                        "who": who,
                        "seed": str(seed),
                        "env_steps": str(budget),
                        "return_mean": f"{mean:.2f}",
                        "evaluation_episodes": str(case.episodes),
                        "run_seconds": f"{time.perf_counter() - began:.0f}",
                        **told,
                    }
                    for budget, mean in zip(case.budgets, means, strict=True)
                ]
                print(name, who, seed, means, f"{time.perf_counter() - began:.0f} s", flush=True)
                write_table(options.out, table)
    if rows := summary(table, PEER):
        write_table(options.out.with_stem(f"{options.out.stem}_summary"), rows)


def identity(row: dict[str, Any]) -> tuple[str, ...]:
    """Return which run's evaluation a row is, and at which budget."""
    return row["case"], row["who"], row["seed"], row["env_steps"]


def read_table(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with open(path, newline="") as lines:
        return list(csv.DictReader(lines))


if __name__ == "__main__":
    main()
