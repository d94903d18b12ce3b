"""Returns of random actions and of each action alone, on games: what a score has to beat.

    python benchmarks/learning/constant_actions.py --out benchmarks/results/constant_actions.csv

Ten episodes of each game for each of them, of up to 5,000 env steps, as the evaluations of `es`.
"""

import argparse
import copy
import sys
from contextlib import closing
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.envs.environment import EnvironmentSpec
from drumline.envs.make import make_environment

EPISODES = 10
STEPS = 5000
GAMES = ("Freeway-v5", "Pong-v5", "Boxing-v5")


def returns(env_id: str, action: int | None, episodes: int) -> np.ndarray:
    """Return the return of each episode, with one action or (None) random ones.

    Episode i has seed i.
    """
    found = np.zeros(episodes)
    made = make_environment(EnvironmentSpec(env_id, engine="envpool"))
    with closing(made):
        for seed in range(episodes):
            made.environment.reset(seed=seed)
            space = copy.deepcopy(made.environment.action_space)
            space.seed(seed)
            for _ in range(STEPS):
                chosen = space.sample() if action is None else action
                _, reward, terminated, truncated, _ = made.environment.step(chosen)
                found[seed] += float(reward)
                if terminated or truncated:
                    break
    return found


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--games", nargs="+", default=GAMES)
    options = parser.parse_args()
    made = {**provenance([], "envpool"), "seeds": f"0 to {EPISODES - 1}"}
    rows: list[dict[str, str | int]] = []
    for env_id in options.games:
        environment = make_environment(EnvironmentSpec(env_id, engine="envpool"))
        with closing(environment):
            count = int(environment.environment.action_space.n)
        for action in (None, *range(count)):
            mean = returns(env_id, action, EPISODES).mean()
            name = "random" if action is None else action
            rows.append({"env": env_id, "action": name, "episodes": EPISODES, "mean": f"{mean:g}"})
    write_table(options.out, [{**row, **made} for row in rows])


if __name__ == "__main__":
    main()
