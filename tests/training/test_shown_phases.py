"""The display's shares of time are of one whole, the session's."""

from pathlib import Path
from typing import Any

import pytest

import drumline.api.run
from drumline.display.plain import Silent
from drumline.display.state import DisplayState
from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.recipes.methods import method_of
from drumline.recipes.ppo import PPO
from drumline.recipes.td3 import TD3

SMALL = {"env": "CartPole-v1", "hidden": (4,), "evaluate_every": 1, "evaluate_episodes": 1}
REPLAY = {**SMALL, "total_steps": 60, "replay_size": 60, "batch_size": 4}
CONFIGS: dict[str, Any] = {
    "es": ES(**SMALL, total_steps=60, population_size=4, noise_table_size=4096),
    "aes": AES(**REPLAY, warmup_steps=20),
    "td3": TD3(**REPLAY, steps_per_update=20, random_steps=20),
    "ppo": PPO(**SMALL, total_steps=64, num_envs=4, alpha=4, minibatches=1, engine="gymnasium"),
}


class Newest(Silent):
    """Keeps the newest state that it is shown."""

    state: DisplayState

    def due(self) -> bool:
        return True

    def update(self, state: DisplayState) -> None:
        self.state = state


@pytest.mark.parametrize("method", CONFIGS)
def test_updates_evaluations_and_checkpoints_share_the_sessions_time(method: str, tmp_path: Path):
    newest, config = Newest(), CONFIGS[method]
    layout = method_of(config).layout(pool="inline")
    run = drumline.api.run.train(config, layout=layout, out=tmp_path / "run", display=newest)
    phases = newest.state.phases
    timed = () if method == "aes" else ("update",)  # its gradient steps are tasks
    assert list(phases) == [*timed, "evaluation", "checkpoints"]
    assert all(0 < share < 1 for share in phases.values())
    assert sum(phases.values()) <= 1
    if method in ("es", "ppo"):
        seconds = sum(row["update_seconds"] for row in run.metrics)
        assert phases["update"] * newest.state.wall_seconds == pytest.approx(seconds, rel=0.05)
