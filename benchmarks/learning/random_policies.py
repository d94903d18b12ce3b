"""Returns of random actions, from which ratios of scores are counted.

    python benchmarks/learning/random_policies.py --out benchmarks/results/random_policies.csv

100 episodes of each environment, with actions drawn from its action space; EnvPool's Pong as the
methods train on it, in 100 environments. `--envs` measures some, and the others' rows stay.
"""

import argparse
import csv
import sys
from pathlib import Path

import envpool
import gymnasium
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

EPISODES = 100
ENVIRONMENTS = (
    *("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "CartPole-v1"),
    *("InvertedDoublePendulum-v5", "Swimmer-v5", "Pong-v5"),
)


def returns(env_id: str, episodes: int) -> np.ndarray:
    """Return the return of each episode; episode i has seed i."""
    if env_id not in gymnasium.registry:
        return pooled_returns(env_id, episodes)
    env = gymnasium.make(env_id)
    found = np.zeros(episodes)
    for seed in range(episodes):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        over = False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            found[seed] += float(reward)
            over = terminated or truncated
    env.close()
    return found


def pooled_returns(env_id: str, episodes: int) -> np.ndarray:
    """Return the return of the first episode of each environment in a pool."""
    pool = envpool.make_gymnasium(env_id, num_envs=episodes, seed=0)
    rng = np.random.default_rng(0)
    pool.reset()
    found, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        actions = rng.integers(pool.action_space.n, size=episodes)
        _, rewards, terminated, truncated, _ = pool.step(actions.astype(np.int32))
        found[running] += rewards[running]
        running &= ~(terminated | truncated)
    pool.close()
    return found


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--envs", nargs="*", default=ENVIRONMENTS)
    options = parser.parse_args()
    kept: list[dict[str, str]] = []
    if options.out.exists():
        with open(options.out, newline="") as lines:
            kept = [row for row in csv.DictReader(lines) if row["env"] not in options.envs]
    made = {**provenance([]), "seeds": f"0 to {EPISODES - 1}"}
    rows = [
        {"env": env_id, "episodes": EPISODES, "mean": f"{returns(env_id, EPISODES).mean():.6g}"}
        for env_id in options.envs
    ]
    write_table(options.out, [*kept, *({**row, **made} for row in rows)])


if __name__ == "__main__":
    main()
