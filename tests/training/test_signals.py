"""Signals at the worst moments: in the middle of a change, and while a run closes."""

import itertools
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import objectives
import pytest
from whole_runs import SMALL_CEM_RL, lasting_bytes

from drumline.api.run import load, resume, train
from drumline.recipes.es import ES
from drumline.recipes.methods import method_of
from drumline.recipes.ppo import PPO
from drumline.recipes.td3 import TD3
from drumline.runtime.inline_pool import InlinePool
from drumline.training import stop_signals
from drumline.training.layout import Layout
from drumline.training.ledger import Ledger
from drumline.training.stopped import Stopped
from drumline.workers.transition_stream import TransitionStream

CONFIGS: dict[str, Any] = {
    "es": ES(
        env="CartPole-v1",
        total_steps=600,
        population_size=4,
        noise_table_size=4096,
        hidden=(4,),
        evaluate_every=3,
        evaluate_episodes=2,
    ),
    "ppo": PPO(
        env="CartPole-v1",
        engine="gymnasium",
        total_steps=200,
        num_envs=2,
        alpha=10,
        epochs=2,
        minibatches=2,
        hidden=(4,),
        evaluate_every=3,
        evaluate_episodes=2,
    ),
    "cem-rl": SMALL_CEM_RL,
    "td3": TD3(
        env="InvertedPendulum-v5",
        total_steps=120,
        random_steps=20,
        steps_per_update=15,
        replay_size=60,
        batch_size=4,
        hidden=(4,),
        evaluate_every=45,
        evaluate_episodes=2,
    ),
}
UPDATE = 3


def inline(config: Any) -> Layout:
    return method_of(config).layout(pool="inline")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    out = tmp_path_factory.mktemp("expected")
    return {
        name: lasting_bytes(train(config, layout=inline(config), out=out / name).folder)
        for name, config in CONFIGS.items()
    }


def interrupt_in_a_change(patch: pytest.MonkeyPatch, times: int) -> None:
    """Send signals when an update is made and not yet written down."""
    original = Ledger.record

    def interrupted(self: Ledger, update: int, *given: Any, **named: Any) -> None:
        if update == UPDATE:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        original(self, update, *given, **named)

    patch.setattr(Ledger, "record", interrupted)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("patient", [True, False])
def test_two_signals_in_the_middle_of_a_change_leave_a_whole_state(
    tmp_path: Path, expected: Any, name: str, patient: bool
):
    config, out = CONFIGS[name], tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        if not patient:
            patch.setattr(stop_signals, "SAME_WISH_SECONDS", 0.0)
        interrupt_in_a_change(patch, 2)
        with pytest.raises(Stopped) as stopped:
            train(config, layout=inline(config), out=out)
    assert stopped.value.midway is not patient
    run = load(out)
    assert len(run.metrics) == (UPDATE if patient else UPDATE - 1)
    resumed = resume(run.folder, inline(config))
    assert lasting_bytes(resumed.folder) == expected[name]


@pytest.mark.parametrize("name", CONFIGS)
def test_signals_while_a_run_closes_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Any, name: str
):
    config, out, original = CONFIGS[name], tmp_path / "run", InlinePool.close

    def interrupted(self: InlinePool) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        original(self)

    monkeypatch.setattr(InlinePool, "close", interrupted)
    with pytest.raises(KeyboardInterrupt):  # the sender's wish, once all is closed
        train(config, layout=inline(config), out=out)
    run = load(out)
    assert lasting_bytes(run.folder) == expected[name]
    assert run.folder.card_md.exists()


def test_a_second_signal_while_a_run_closes_ends_it_and_its_rows_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config, out = CONFIGS["es"], tmp_path / "run"
    monkeypatch.setattr(stop_signals, "SAME_WISH_SECONDS", 0.0)

    def interrupted(self: InlinePool) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(InlinePool, "close", interrupted)
    with pytest.raises(Stopped):
        train(config, layout=inline(config), out=out)
    assert load(out).metrics[-1]["env_steps"] >= config.total_steps
    assert (out / "card.md").exists()


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    interrupt_in_a_change(monkeypatch, 1)
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        config = replace(CONFIGS["es"], total_steps=300)
        run = train(config, layout=inline(config), out=tmp_path / "run")
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, previous)
    assert run.metrics[-1]["env_steps"] >= 300


@pytest.mark.parametrize("name", CONFIGS)
def test_what_a_stopped_run_has_learned_can_be_looked_at(tmp_path: Path, name: str, expected: Any):
    config, out = CONFIGS[name], tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        interrupt_in_a_change(patch, 1)
        with pytest.raises(Stopped):
            train(config, layout=inline(config), out=out)
    run = load(out)
    said = json.loads((out / "policy-last.json").read_text())
    assert (said["update"], said["evaluation_mean"]) == (UPDATE, None)
    assert run.evaluate(1).lengths[0] > 0
    whole = resume(run.folder, inline(config))
    assert json.loads((out / "policy-last.json").read_text())["evaluation_mean"] is not None
    assert lasting_bytes(whole.folder) == expected[name]


def test_a_stop_in_the_middle_of_a_block_leaves_the_policy_of_the_last_whole_one(
    tmp_path: Path, expected: Any
):
    config, out = CONFIGS["td3"], tmp_path / "run"
    whole = train(config, layout=inline(config), out=tmp_path / "whole", last_update=UPDATE)
    left = [UPDATE * config.steps_per_update + 10]
    original = TransitionStream.step

    def interrupted(self: TransitionStream, random: bool) -> Any:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, random)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransitionStream, "step", interrupted)
        with pytest.raises(Stopped):
            train(config, layout=inline(config), out=out)
    run = load(out)
    assert json.loads((out / "policy-last.json").read_text())["update"] == UPDATE
    assert run.parameters().tobytes() == whole.parameters().tobytes()
    resumed = resume(run.folder, inline(config))
    assert lasting_bytes(resumed.folder) == expected["td3"]


def test_what_an_objective_returns_in_place_of_a_signal_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = ES(
        objective="objectives:catches_everything",
        dimensions=6,
        total_steps=60,
        population_size=6,
        noise_table_size=4096,
        evaluate_every=3,
        evaluate_episodes=2,
    )
    monkeypatch.setenv("INTERRUPTED", "")
    whole = train(config, layout=inline(config), out=tmp_path / "whole")
    monkeypatch.setattr(objectives, "_calls", itertools.count())
    monkeypatch.setenv("INTERRUPTED", "yes")
    with pytest.raises(Stopped):
        train(config, layout=inline(config), out=tmp_path / "run")
    assert os.environ["INTERRUPTED"] == ""
    again = load(tmp_path / "run", trust_code=True).resume(layout=inline(config))
    assert lasting_bytes(again.folder) == lasting_bytes(whole.folder)
