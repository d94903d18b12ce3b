"""Returns of random actions, from which ratios of scores are counted.

    python benchmarks/learning/random_policies.py --out benchmarks/results/random_policies.csv

100 episodes of each environment, with actions drawn from its action space.
"""

import argparse
import sys
from pathlib import Path

import gymnasium
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

EPISODES = 100
ENVIRONMENTS = (
    *("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "CartPole-v1"),
    *("InvertedDoublePendulum-v5", "Swimmer-v5"),
)


def returns(env_id: str, episodes: int) -> np.ndarray:
    """Return the return of each episode; episode i has seed i."""
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


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    made = {**provenance([]), "seeds": f"0 to {EPISODES - 1}"}
    rows = [
        {"env": env_id, "episodes": EPISODES, "mean": f"{returns(env_id, EPISODES).mean():.6g}"}
        for env_id in ENVIRONMENTS
    ]
    write_table(options.out, [{**row, **made} for row in rows])


if __name__ == "__main__":
    main()
