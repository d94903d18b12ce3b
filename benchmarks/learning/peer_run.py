"""A run of Stable-Baselines3's PPO at the settings of a run of `ppo`, as a run folder.

    python benchmarks/learning/peer_run.py stable-baselines3-ppo Hopper-v5 --seed=5 \\
        --total-steps=196608 --no-anneal --evaluate-every=48 --evaluate-episodes=10 \\
        --peer-python=PEER/bin/python --out=FOLDER

All other flags are those of `drumline train ppo`. Training stops for each evaluation: episodes of
an environment of its own with the most likely action. The environments are Gymnasium's. A run that
was killed begins again.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from equal_settings import Peer, peer_settings
from provenance import write_table
from run_folders import resolved

METHOD = "stable-baselines3-ppo"


def main() -> None:
    """Train, and write what a campaign records of a run folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("method", choices=(METHOD,))
    parser.add_argument("env")
    parser.add_argument("--peer-python", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options, flags = parser.parse_known_args()
    config = resolved("ppo", options.env, flags)
    budgets = budgets_of(config)
    peer = Peer(options.peer_python)
    told = {**peer_settings(config), "budgets": budgets}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "config.json").write_text(json.dumps(described(config, peer.versions())))
    returns = peer.learn("ppo", {**told, "evaluate_episodes": config["evaluate_episodes"]})
    write_curve(options.out, budgets, returns, config["evaluate_every"])


def budgets_of(config: dict[str, Any]) -> list[int]:
    """Return the env steps at which the run of `ppo` is evaluated."""
    interval = config["num_envs"] * config["alpha"]
    every, total = config["evaluate_every"] * interval, config["total_steps"]
    if not every or total % every:
        raise ValueError(f"{total} env steps are no multiple of the {every} between evaluations")
    return list(range(every, total + 1, every))


def described(config: dict[str, Any], versions: str) -> dict[str, Any]:
    """Return config.json: the settings that both sides have."""
    return {
        "method": METHOD,
        "promise": "no promise: Stable-Baselines3",
        "versions": dict(word.split("=", 1) for word in versions.split()),
        "config": {**config, "engine": "gymnasium"},
    }


def write_curve(
    folder: Path, budgets: Sequence[int], returns: Sequence[Sequence[float]], every: int
) -> None:
    """Write the evaluations as a run folder has them; the last file says that it is whole."""
    rows = [
        {"update": every * (number + 1), "env_steps": budget, "mean": float(np.mean(each))}
        for number, (budget, each) in enumerate(zip(budgets, returns, strict=True))
    ]
    write_table(folder / "evaluations.csv", rows)
    # Returns of training are not compared.
    write_table(folder / "metrics.csv", [{**row, "episode_return_mean": "nan"} for row in rows])
    last = {"evaluation_mean": rows[-1]["mean"]}
    (folder / "policy-last.json").write_text(json.dumps(last))


if __name__ == "__main__":
    main()
