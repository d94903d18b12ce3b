"""Small trainings of the methods whose actors gradient steps follow, and of `cem`."""

from typing import Any

from drumline.recipes.aes import AES
from drumline.recipes.cem import CEM
from drumline.recipes.cem_rl import CEMRL
from drumline.recipes.p_cem_rl import PCEMRL
from drumline.recipes.td3 import TD3

MEMBERS: dict[str, Any] = {"population_size": 4, "elites": 2, "initial_variance": 1e-2}


def small_configs(of_all: dict[str, Any], **of_replays: Any) -> dict[str, Any]:
    """Method → a config of 120 env steps; `of_replays` are fields of those with a replay."""
    replay = {**of_all, "batch_size": 8, "evaluate_every": 0, **of_replays}
    refined = {**replay, **MEMBERS, "refined_members": 2, "warmup_steps": 20}
    return {
        "td3": TD3(total_steps=120, steps_per_update=40, random_steps=30, **replay),
        "aes": AES(
            total_steps=120,
            concurrency=2,
            warmup_steps=20,
            critic_batches=10,
            mean_evaluations=1,
            critic_lag=0,
            **replay,
        ),
        "cem-rl": CEMRL(total_steps=120, **refined),
        "p-cem-rl": PCEMRL(total_steps=120, concurrency=2, **refined),
        "cem": CEM(total_steps=80, **{**of_all, "evaluate_every": 0}, **MEMBERS),
    }
