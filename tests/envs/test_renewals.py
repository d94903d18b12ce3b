"""The rule that bounds EnvPool's journal, and what it makes of runs."""

import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest

from drumline.api.foreign_code import CodeTrust
from drumline.api.opened_runs import resumed_config
from drumline.api.run import train
from drumline.display.plain import PlainLines
from drumline.envs.renewals import (
    FEWEST_STEPS,
    MOST_STEPS,
    RESTORE_SECONDS,
    intervals_between_renewals,
    steps_per_second,
)
from drumline.recipes.a2c import A2C
from drumline.recipes.hts import HTS
from drumline.recipes.impala import Impala
from drumline.recipes.methods import method_of
from drumline.recipes.ppo import PPO
from drumline.runs.folder import RunFolder
from drumline.training.layout import LockstepLayout

IDS = ["CartPole-v1", "Acrobot-v1", "LunarLander-v2", "CarRacing-v2", "Ant-v4", "Pong-v5"]


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize(("environments", "alpha"), [(1, 5), (16, 128), (16, 1), (64, 20)])
def test_a_restore_by_the_rule_stays_below_a_minute(env_id: str, environments: int, alpha: int):
    every = intervals_between_renewals(env_id, environments, alpha)
    each = every * alpha
    assert each * environments <= MOST_STEPS
    assert each > FEWEST_STEPS - alpha
    if each > FEWEST_STEPS:
        assert each * environments / steps_per_second(env_id) <= RESTORE_SECONDS


@pytest.mark.parametrize("config", [HTS, PPO, A2C, Impala])
def test_every_method_resolves_the_rule_into_the_config_that_a_run_records(config: Any):
    def recorded(env: str, **values: Any) -> int:
        made = config(env=env, hidden=(4,), **values)
        return method_of(made).resolved(made).renew_intervals

    assert recorded("Acrobot-v1", engine="envpool") == intervals_between_renewals(
        "Acrobot-v1", 16, config(env="Acrobot-v1").alpha
    )
    assert recorded("Acrobot-v1", engine="envpool", renew_intervals=0) == 0
    assert recorded("Acrobot-v1", engine="envpool", renew_intervals=7) == 7
    assert recorded("Acrobot-v1", engine="gymnasium") == 0


def test_the_rule_bounds_the_journal_and_a_resumed_run_keeps_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("drumline.envs.renewals.MOST_STEPS", 160)
    monkeypatch.setattr("drumline.envs.renewals.FEWEST_STEPS", 10)
    config = PPO(
        env="Acrobot-v1",
        engine="envpool",
        num_envs=4,
        alpha=10,
        total_steps=440,
        minibatches=1,
        epochs=1,
        hidden=(4,),
        evaluate_every=0,
        evaluate_episodes=1,
    )
    run = train(config, workers="inline", out=tmp_path / "run")
    folder = RunFolder.open(run.path)
    assert folder.document["config"]["renew_intervals"] == 4
    cut = [row["episodes_cut"] for row in run.metrics]
    assert cut[3] == 0
    assert cut[-1] >= 4
    monkeypatch.setattr("drumline.envs.renewals.MOST_STEPS", 320)
    assert (
        method_of(config).resolved(resumed_config(folder, 880, CodeTrust(True))).renew_intervals
        == 4
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"env": "Acrobot-v1", "engine": "envpool"}, "steps up to 4,000 env steps again, about"),
        ({"env": "impure_environment:Counting"}, "no time limit that is known here"),
        ({"env": "CartPole-v1", "engine": "gymnasium"}, ""),
    ],
)
def test_train_says_how_long_a_restore_can_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], words: str
):
    monkeypatch.setattr("drumline.envs.renewals._FAMILIES", {"classic_control": 100.0})
    config = PPO(
        env="",
        num_envs=4,
        alpha=10,
        total_steps=4000,
        minibatches=1,
        epochs=1,
        hidden=(4,),
        evaluate_every=0,
        evaluate_episodes=1,
    )
    lines = io.StringIO()
    layout = LockstepLayout(pool="inline")
    train(
        dataclasses.replace(config, **changes),
        out=tmp_path / "run",
        layout=layout,
        display=PlainLines(lines),
        last_update=1,
    )
    said = [line for line in lines.getvalue().splitlines() if "again" in line]
    assert len(said) == bool(words)
    assert words in "".join(said)
