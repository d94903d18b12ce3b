"""Random actions in EnvPool's and Gymnasium's environments: whether the tasks are the same.

    python benchmarks/learning/engines_alike.py --out benchmarks/results/engines_alike.csv

For each task 64 environments make 1,000 steps each with uniformly drawn actions, through the lanes
that `hts`, `a2c`, `ppo` and `impala` train with. Differences are in standard errors, where the
environments are the sample for rewards, and episodes for their lengths and first observations.
"""

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.envs.environment import EnvironmentSpec
from drumline.envs.lanes_spec import LanesSpec

ENVIRONMENTS, STEPS, SEED = 64, 1_000, 0
TASKS = (
    *("CartPole-v1", "Pendulum-v1", "InvertedPendulum-v5", "InvertedDoublePendulum-v5"),
    *("Swimmer-v5", "HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5"),
)


class Play(NamedTuple):
    """Samples of random play in one engine."""

    rewards: np.ndarray
    """`[environments]`: mean reward of a step."""
    lengths: np.ndarray
    """`[episodes]`: env steps of the episodes that ended."""
    first: np.ndarray
    """`[episodes, size]`: first observations."""


def play(env_id: str, engine: Any, environments: int, steps: int, seed: int) -> Play:
    """Step environments with drawn actions, which are not those of another engine or seed."""
    lanes = LanesSpec(EnvironmentSpec(env_id, engine), seed, 0, environments)()
    space: Any = lanes.action_space
    draw = np.random.default_rng([seed, engine == "envpool"])
    first = [np.array(lanes.begin(0))]
    rewards, running = np.zeros(environments), np.zeros(environments, int)
    lengths: list[int] = []
    for _ in range(steps):
        if hasattr(space, "n"):
            actions = draw.integers(space.n, size=environments)
        else:
            actions = draw.uniform(space.low, space.high, (environments, *space.shape))
        step = lanes.step(None, actions)
        rewards += step.rewards
        running += 1
        over = step.terminated | step.truncated
        lengths += running[over].tolist()
        running[over] = 0
        first.append(np.array(step.observations[over]))
    lanes.close()
    return Play(rewards / steps, np.array(lengths, float), np.concatenate(first))


def errors_apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return by how many standard errors the means of two samples differ; 0 where both are equal.

    Samples that vary in no value and differ are infinitely far apart.
    """
    difference = np.abs(one.mean(0) - other.mean(0))
    error = np.sqrt(one.var(0) / len(one) + other.var(0) / len(other))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference > 0, difference / error, 0.0)


def row(env_id: str, environments: int, steps: int, seed: int) -> dict[str, str | int]:
    """Return both engines' means beside each other."""
    gymnasium, envpool = (
        play(env_id, engine, environments, steps, seed) for engine in ("gymnasium", "envpool")
    )
    ended = bool(len(gymnasium.lengths) and len(envpool.lengths))
    return {
        "env": env_id,
        "env_steps": environments * steps,
        "gymnasium_reward": f"{gymnasium.rewards.mean():.4g}",
        "envpool_reward": f"{envpool.rewards.mean():.4g}",
        "reward_errors_apart": f"{errors_apart(gymnasium.rewards, envpool.rewards):.2f}",
        "gymnasium_length": f"{gymnasium.lengths.mean():.4g}" if ended else "",
        "envpool_length": f"{envpool.lengths.mean():.4g}" if ended else "",
        "length_errors_apart": (
            f"{errors_apart(gymnasium.lengths, envpool.lengths):.2f}" if ended else ""
        ),
        "first_observations": len(gymnasium.first) + len(envpool.first),
        "first_observation_errors_apart": (
            f"{errors_apart(gymnasium.first, envpool.first).max():.2f}"
        ),
    }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    made = provenance([SEED], "envpool")
    rows = [row(env_id, ENVIRONMENTS, STEPS, SEED) for env_id in TASKS]
    write_table(options.out, [{**one, **made} for one in rows])


if __name__ == "__main__":
    main()
