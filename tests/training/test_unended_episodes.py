"""A run whose episodes do not end says so, in every kind of run."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import drumline.api.run
from drumline.display.plain import Silent
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.make import known_limit, make_environment
from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.td3 import TD3
from drumline.training import unended_episodes
from drumline.training.stopped import Stopped
from drumline.training.unended_episodes import UnendedEpisodes

ENV = "impure_environment:Endless"
FOREVER = {"hidden": (4,), "total_steps": 10**9, "evaluate_episodes": 1}
CONFIGS: dict[str, Any] = {
    "es": ES(ENV, **FOREVER, population_size=4, noise_table_size=4096),
    "aes": AES(ENV, **FOREVER, replay_size=60, batch_size=4),
    "td3": TD3(ENV, **FOREVER, replay_size=60, batch_size=4, random_steps=10**9),
    "hts": HTS(ENV, **FOREVER, num_envs=4, alpha=4, minibatches=1),
}


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class StopsWhenSaid(Silent):
    """Keeps messages, and types Ctrl-C once an unended episode is said."""

    def __init__(self):
        self.said: list[str] = []

    def message(self, text: str) -> None:
        if "no episode has ended" in text:
            self.said.append(text)
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("method", CONFIGS)
def test_a_run_without_ends_says_so_and_names_the_flag(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unended_episodes, "_SECONDS", 0.5)
    display = StopsWhenSaid()
    with pytest.raises(Stopped):
        drumline.api.run.train(CONFIGS[method], workers=1, out=tmp_path / "run", display=display)
    assert "env steps" in display.said[0]
    assert f"if {ENV} has no time limit, --max-episode-steps N gives it one" in display.said[0]


def test_it_is_said_ever_more_rarely_until_an_episode_ends():
    said: list[str] = []
    clock = Clock()
    unended = UnendedEpisodes("mine:Env", said.append, limited=False, clock=clock)
    for clock.now in range(100):
        unended.going(1_000 * int(clock.now))
    assert [text.split(":")[0] for text in said] == [
        "no episode has ended in 20,000 env steps (20 s)",
        "no episode has ended in 40,000 env steps (40 s)",
        "no episode has ended in 80,000 env steps (80 s)",
    ]
    unended.ended()
    for clock.now in range(100, 125):
        unended.going(7)
    assert len(said) == 4


def test_nothing_is_said_of_an_environment_with_a_limit_or_before_a_step():
    said: list[str] = []
    clock = Clock()
    limited = UnendedEpisodes("CartPole-v1", said.append, limited=True, clock=clock)
    unbegun = UnendedEpisodes("mine:Env", said.append, limited=False, clock=clock)
    clock.now = 1e6
    limited.going(10**9)
    unbegun.going(0)
    assert not said


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        (EnvironmentSpec("Pendulum-v1"), 200),
        (EnvironmentSpec("Pendulum-v1", frame_skip=3), 67),
        (EnvironmentSpec("Pendulum-v1", "envpool"), 200),
        (EnvironmentSpec("CliffWalking-v1"), 0),
        (EnvironmentSpec(ENV), 0),
        (EnvironmentSpec(ENV, frame_skip=2, options={"max_episode_steps": 14}), 7),
    ],
)
def test_a_limit_is_known_where_the_environment_is_registered_with_one(
    spec: EnvironmentSpec, limit: int
):
    assert known_limit(spec) == limit
    made = make_environment(spec)
    assert made.limit == limit
    made.close()
