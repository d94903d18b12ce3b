"""The purity check: a run that failed it cannot be made to promise anything by going on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from impure_environment import OnlyOne

from drumline.api.run import load, train
from drumline.errors import ImpureEnvironment
from drumline.recipes.aes import AES
from drumline.recipes.ars import ARS
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.methods import method_of
from drumline.recipes.ppo import PPO
from drumline.recipes.td3 import TD3
from drumline.runs.checkpoint import checkpoint_numbers
from drumline.training.stopped import Stopped

HIDDEN = "impure_environment:HiddenState"
OFF_POLICY: dict[str, Any] = {"replay_size": 60, "batch_size": 4, "hidden": (4,)}
CONFIGS: list[Any] = [
    ES(env=HIDDEN, total_steps=100, population_size=4, noise_table_size=4096, hidden=(4,)),
    PPO(env=HIDDEN, total_steps=80, num_envs=2, alpha=10, minibatches=2, hidden=(4,)),
    AES(env=HIDDEN, total_steps=100, warmup_steps=20, mean_evaluations=0, **OFF_POLICY),
    TD3(env=HIDDEN, total_steps=80, random_steps=20, steps_per_update=20, **OFF_POLICY),
]


COUNTED = AES(
    objective="objectives:remembers",
    dimensions=5,
    total_steps=40,
    evaluate_episodes=1,
    p_desired=0.0,
)


@pytest.mark.parametrize(
    "config",
    [*CONFIGS, COUNTED],
    ids=lambda config: f"{type(config).__name__}-{config.env or config.objective}",
)
def test_going_on_with_a_refused_environment_is_refused_again(config: Any, tmp_path: Path):
    kind = method_of(config).layout
    layout = kind(pool="inline", checkpoint_minutes=1e-9)  # one is due at any time
    with pytest.raises(ImpureEnvironment):
        train(config, layout=layout, out=tmp_path / "run")
    assert checkpoint_numbers(load(tmp_path / "run").folder) == [0]
    for _ in range(2):
        with pytest.raises(ImpureEnvironment):
            load(tmp_path / "run", trust_code=True).resume(workers="inline")


def test_a_stop_in_the_first_rehearsal_of_an_objective_lets_none_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("INTERRUPTED", str(tmp_path / "flag"))
    config = replace(COUNTED, objective="objectives:interrupted_once")
    with pytest.raises(Stopped):
        train(config, workers="inline", out=tmp_path / "run")
    with pytest.raises(ImpureEnvironment, match="objectives:interrupted_once, called again"):
        load(tmp_path / "run", trust_code=True).resume(workers="inline")


SEARCH: dict[str, Any] = {"dimensions": 5, "total_steps": 40, "evaluate_episodes": 1}
SEARCHES: list[Any] = [
    ES(**SEARCH, population_size=8, noise_table_size=4096, objective="objectives:of_the_process"),
    ARS(**SEARCH, population_size=8, noise_table_size=4096, objective="objectives:of_the_process"),
    AES(**SEARCH, p_desired=0.0, strategy="cma", objective="objectives:of_the_process"),
]


@pytest.mark.parametrize("config", SEARCHES, ids=lambda config: type(config).__name__)
def test_a_value_that_is_another_in_the_next_process_is_refused(config: Any, tmp_path: Path):
    """A quick objective: one worker could take both rehearsals before the other one is there."""
    with pytest.raises(ImpureEnvironment, match="objectives:of_the_process, called again"):
        train(config, workers=2, out=tmp_path / "run")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_first_call_of_another_value_is_refused(workers: int, tmp_path: Path):
    config = replace(SEARCHES[0], objective="objectives:another_first_value")
    with pytest.raises(ImpureEnvironment, match="objectives:another_first_value, called again"):
        train(config, workers=workers, out=tmp_path / "run")


ROTATED = HTS(
    env="impure_environment:SeedsGlobals",
    total_steps=160,
    num_envs=2,
    alpha=10,
    epochs=1,
    minibatches=1,
    hidden=(4,),
    evaluate_every=2,
    evaluate_episodes=2,
)


def test_state_that_environments_share_is_found_where_each_has_its_own_executor(tmp_path: Path):
    with pytest.raises(ImpureEnvironment, match=r"environment 0 of .*, stepped in turn with anoth"):
        train(ROTATED, executors=2, out=tmp_path / "run")


def test_evaluations_in_this_process_leave_the_environments_of_training_their_numbers(
    tmp_path: Path,
):
    """One environment alone repeats, whatever else draws in the process."""
    config = replace(ROTATED, num_envs=1)
    runs = [
        train(config, out=tmp_path / name, **layout)
        for name, layout in (("inline", {"workers": "inline"}), ("processes", {"executors": 1}))
    ]
    first, second = (run.folder.fingerprints_csv.read_bytes() for run in runs)
    assert first == second


@pytest.mark.parametrize("config", CONFIGS[1:], ids=lambda config: type(config).__name__)
def test_an_environment_that_raises_the_second_time_has_failed(
    config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(OnlyOne, "instance", None)
    config = replace(config, env="impure_environment:OnlyOne", evaluate_every=0)
    if hasattr(config, "num_envs"):
        config = replace(config, num_envs=1, minibatches=1)
    layout = method_of(config).layout(pool="inline")
    with pytest.raises(ImpureEnvironment, match="raised OSError: the port is in use: it has"):
        train(config, layout=layout, out=tmp_path / "run")
    assert checkpoint_numbers(load(tmp_path / "run").folder) == [0]
