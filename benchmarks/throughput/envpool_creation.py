"""Share of an episode that making its EnvPool pool takes: `es` makes one pool per episode.

python benchmarks/throughput/envpool_creation.py --out benchmarks/results/envpool_creation.csv
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.envs.environment import EnvironmentSpec
from drumline.envs.make import make_environment


def shares(env_id: str, episodes: int) -> tuple[float, float, float]:
    """Medians over episodes of random actions: milliseconds per pool, steps, share of the time."""
    made = make_environment(EnvironmentSpec(env_id, engine="envpool"))
    environment = made.environment
    environment.action_space.seed(0)
    rows: list[tuple[float, int, float]] = []
    for seed in range(episodes):
        begun = time.perf_counter()
        environment.reset(seed=seed)
        created = time.perf_counter() - begun
        steps, ended = 0, False
        while not ended and steps != made.limit:
            _, _, terminated, truncated, _ = environment.step(environment.action_space.sample())
            steps, ended = steps + 1, terminated or truncated
        rows.append((created * 1e3, steps, created / (time.perf_counter() - begun)))
    environment.close()
    milliseconds, steps, share = (statistics.median(column) for column in zip(*rows, strict=True))
    return milliseconds, steps, share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--envs", nargs="+", default=["CartPole-v1", "Hopper-v4", "HalfCheetah-v4"])
    parser.add_argument("--episodes", type=int, default=40)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    for env_id in options.envs:
        milliseconds, steps, share = shares(env_id, options.episodes)
        rows.append(
            {
                "environment": env_id,
                "pool_milliseconds": f"{milliseconds:.2f}",
                "env_steps": f"{steps:.0f}",
                "pool_share": f"{share:.3f}",
                "episodes": options.episodes,
                **provenance(range(options.episodes), "envpool"),
            }
        )
        print(rows[-1], flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
