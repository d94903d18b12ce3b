"""Speed against Stable-Baselines3 at equal settings: whole training runs, learning included.

In each round every contestant runs in turn, so a ratio is of neighbours in time; each row carries
the load of the machine when its round began.

    python benchmarks/throughput/peers.py --peer-python PEER/bin/python --out hts_peer_speed.csv
"""

import argparse
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from equal_settings import PPO_CONTROL, Peer, our_flags, torch_version
from provenance import provenance, write_table
from rivals import ours

CARTPOLE: dict[str, Any] = {
    **PPO_CONTROL,
    "num_envs": 64,
    "epochs": 4,
    "normalize_observations": False,
    "scale_rewards": False,
}
PEERS: dict[str, dict[str, Any]] = {
    "stable-baselines3 DummyVecEnv": {"processes": False},
    "stable-baselines3 SubprocVecEnv": {"processes": True},
}
OURS: dict[str, tuple[str, list[str]]] = {
    "ppo, one process": ("ppo", []),
    "hts": ("hts", []),
    "ppo, one process, EnvPool": ("ppo", ["--engine=envpool"]),
    "hts, EnvPool": ("hts", ["--engine=envpool"]),
}


@dataclass(frozen=True)
class Case:
    """One task; all contestants have these settings."""

    env: str
    settings: dict[str, Any]
    contestants: tuple[str, ...]


CASES = {
    "HalfCheetah-v5, 16 environments": Case("HalfCheetah-v5", PPO_CONTROL, (*PEERS, *OURS)),
    "HalfCheetah-v5, 4 epochs of 4 minibatches": Case(
        "HalfCheetah-v5", {**PPO_CONTROL, "epochs": 4, "minibatches": 4}, (*PEERS, *OURS)
    ),
    "CartPole-v1, 64 environments": Case(
        "CartPole-v1", CARTPOLE, ("stable-baselines3 DummyVecEnv", *OURS)
    ),
}


def speed(peer: Peer, case: Case, contestant: str, seconds: float, expected: float) -> float:
    """Return env steps per second; ours is told how many steps will last about as long."""
    if contestant in PEERS:
        cores = os.cpu_count() or 1
        told = {
            "env": case.env,
            "seed": 0,
            "seconds": seconds,
            **case.settings,
            **PEERS[contestant],
        }
        # A small network gains or loses by the second thread; each has its better number.
        return max(peer.speed("ppo", {**told, "threads": n}) for n in {1, cores})
    method, more = OURS[contestant]
    interval = case.settings["num_envs"] * case.settings["alpha"]
    steps = max(8 * interval, int(expected * seconds))
    return ours(method, [case.env, *our_flags(case.settings), *more], steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    peer = Peer(options.peer_python)
    peer_versions = peer.versions()
    table: list[dict[str, object]] = []
    rounds: dict[str, list[dict[str, float]]] = {}
    for number in range(options.rounds):
        for name in options.cases:
            load, case = os.getloadavg()[0], CASES[name]
            before = rounds.setdefault(name, [])
            speeds: dict[str, float] = {}
            for contestant in case.contestants[:: 1 if number % 2 == 0 else -1]:
                if before or contestant in PEERS:
                    expected = before[-1][contestant] if before else 0.0
                else:  # a short run says how many steps will last as long as a peer's run
                    expected = speed(peer, case, contestant, options.seconds / 4, _better(speeds))
                speeds[contestant] = speed(peer, case, contestant, options.seconds, expected)
            for contestant, one in speeds.items():
                told = provenance([0])
                told["versions"] = (
                    peer_versions
                    if contestant in PEERS
                    else f"{told['versions']} {torch_version()}"
                )
                table.append(
                    {
                        "case": name,
                        "round": number,
                        "load_when_it_began": f"{load:.1f}",
                        "who": contestant,
                        "env_steps_per_second": f"{one:.0f}",
                        "against_better_peer": f"{one / _better(speeds):.2f}",
                        **told,
                    }
                )
            write_table(options.out, table)
            before.append(speeds)
            print(
                name,
                number,
                {contestant: round(one) for contestant, one in speeds.items()},
                flush=True,
            )
    for name, measured in rounds.items():
        for contestant in CASES[name].contestants:
            ratio = statistics.median(one[contestant] / _better(one) for one in measured)
            median = statistics.median(one[contestant] for one in measured)
            print(f"{name}: {contestant}: {median:.0f} env steps/s, {ratio:.2f} of the better peer")


def _better(speeds: dict[str, float]) -> float:
    return max(one for contestant, one in speeds.items() if contestant in PEERS)


if __name__ == "__main__":
    main()
