"""Callbacks change no byte, end a run in order, and leave it resumable when they raise."""

import os
import random
import signal
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from campaigns import cases
from whole_runs import LASTING, SMALL_ERL

import drumline
from drumline.errors import CallbackFailed
from drumline.recipes.a2c import A2C
from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.impala import Impala
from drumline.recipes.methods import method_of
from drumline.recipes.td3 import TD3
from drumline.runs import checkpoint as checkpoint_files
from drumline.runs import run_files
from drumline.runs.checkpoint import checkpoint_numbers
from drumline.schedules import evaluations
from drumline.types import EpisodeRow, EvaluationRow

SMALL: dict[str, Any] = {"hidden": (4,), "evaluate_every": 2, "evaluate_episodes": 2}
REPLAY = {**SMALL, "replay_size": 200, "batch_size": 4}
PENDULUM = "InvertedPendulum-v5"
ROTATION = {**SMALL, "env": "CartPole-v1", "engine": "gymnasium", "num_envs": 4, "alpha": 12}
CONFIGS: dict[str, Any] = {
    "es": ES(env=PENDULUM, total_steps=300, population_size=8, noise_table_size=1 << 12, **SMALL),
    "aes": AES(env=PENDULUM, total_steps=200, warmup_steps=40, **REPLAY),
    "erl": SMALL_ERL,
    "td3": TD3(env=PENDULUM, total_steps=160, steps_per_update=20, random_steps=40, **REPLAY),
    "hts": HTS(**ROTATION, total_steps=480, minibatches=2, learners=2),
    "a2c": A2C(**ROTATION, total_steps=480),
}
QUICK = ["es", "aes", "hts"]


class Meddler:
    """A callback that changes everything that it is given, and the process around it."""

    def __init__(self) -> None:
        self.heard: dict[str, list[Any]] = {}

    def _meddle(self, hook: str, record: Any) -> None:
        self.heard.setdefault(hook, []).append(dict(record) if isinstance(record, dict) else record)
        if isinstance(record, dict):
            for name in [*record]:
                record[name] = -1.0
            record.clear()
        else:
            with pytest.raises(AttributeError):
                record.update = 0
        random.seed(1)
        np.random.seed(1)
        torch.rand(1)
        torch.set_num_threads(2)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.set_flush_denormal(True)
        torch.set_default_device("meta")
        np.seterr(all="raise")

    def on_update(self, metrics: dict[str, float]) -> None:
        self._meddle("on_update", metrics)

    def on_episode(self, episode: EpisodeRow) -> None:
        self._meddle("on_episode", episode)

    def on_evaluation(self, evaluation: EvaluationRow) -> None:
        self._meddle("on_evaluation", evaluation)

    def on_checkpoint(self, checkpoint: Any) -> None:
        assert (checkpoint.path / "manifest.json").exists()
        self._meddle("on_checkpoint", checkpoint)


class Until:
    """A callback that ends the run after an update."""

    def __init__(self, update: int) -> None:
        self.update = update

    def on_update(self, metrics: dict[str, float]) -> bool:
        return bool(metrics["update"] < self.update)


class Breaks:
    """A callback with a fault at an update."""

    def __init__(self, update: int) -> None:
        self.update = update

    def on_update(self, metrics: dict[str, float]) -> None:
        if metrics["update"] == self.update:
            raise ZeroDivisionError("a fault of the user's")


def layout(config: Any, **fields: Any) -> Any:
    """A layout of the method's own kind, of one process if no other is asked for."""
    given = {"pool": "inline", **({} if not fields else {"pool": "process", **fields})}
    return method_of(config).layout(**given, tensorboard=False, checkpoint_minutes=0.0001)


def lasting(run: drumline.Run) -> dict[str, bytes]:
    """Files of a run that wall-clock time has no part in."""
    return {name: (run.path / name).read_bytes() for name in LASTING}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, drumline.Run]:
    """Every config trained without callbacks."""
    out = tmp_path_factory.mktemp("plain")
    return {
        name: drumline.train(config, layout=layout(config), out=out / name)
        for name, config in CONFIGS.items()
    }


@pytest.mark.parametrize("name", CONFIGS)
def test_a_callback_that_changes_all_that_it_gets_changes_no_byte(
    name: str, plain: dict[str, drumline.Run], tmp_path: Path
):
    config, meddler = CONFIGS[name], Meddler()
    threads = torch.get_num_threads()
    run = drumline.train(config, layout=layout(config), out=tmp_path / "run", callbacks=[meddler])
    assert lasting(run) == lasting(plain[name])
    assert torch.get_num_threads() == threads
    heard = meddler.heard
    assert [row["update"] for row in heard["on_update"]] == [row["update"] for row in run.metrics]
    np.testing.assert_equal(heard["on_update"], run.metrics)
    assert len(heard["on_episode"]) == run.metrics[-1]["episodes"]
    evaluated = (run.path / "evaluations.csv").read_text().splitlines()[1:]
    assert [row.update for row in heard["on_evaluation"]] == [
        int(line.split(",")[0]) for line in evaluated
    ]
    assert heard["on_checkpoint"][-1].update == checkpoint_numbers(run.folder)[-1]


def test_a_checkpoint_is_there_while_callbacks_hear_of_it_on_a_slow_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    write = run_files.write_checkpoint

    def slowly(*arguments: Any, **more: Any) -> str:
        time.sleep(0.05)
        return write(*arguments, **more)

    told: list[int] = []

    def on_update(metrics: dict[str, float]) -> None:
        time.sleep(0.5 if metrics["update"] % 8 == 0 else 0.01)  # the disk catches up meanwhile

    def on_checkpoint(checkpoint: Any) -> None:
        assert (checkpoint.path / "manifest.json").exists()
        told.append(checkpoint.update)

    monkeypatch.setattr(run_files, "write_checkpoint", slowly)
    callbacks = drumline.Callbacks(on_update=on_update, on_checkpoint=on_checkpoint)
    config = replace(CONFIGS["es"], total_steps=1500)
    run = drumline.train(config, layout=layout(config), out=tmp_path / "run", callbacks=[callbacks])
    assert len(run.metrics) > 8
    assert told == sorted(set(told))
    assert told[-1] == checkpoint_numbers(run.folder)[-1]


def test_a_checkpoint_is_not_replaced_by_one_of_its_update_while_callbacks_hear_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Individuals of a generation end one by one: checkpoints between them are of one update."""
    put, name = checkpoint_files._put_in_place, "_put_in_place"
    told, replaced = list[int](), list[Path]()

    def slowly(aside: Path, path: Path) -> None:
        if path.exists():
            replaced.append(path)
            path.rename(path.with_name("moved"))
            time.sleep(0.03)
            path.with_name("moved").rename(path)
        put(aside, path)

    def on_checkpoint(checkpoint: Any) -> None:
        told.append(checkpoint.update)
        for _ in range(8):
            assert (checkpoint.path / "manifest.json").exists()
            time.sleep(0.005)

    monkeypatch.setattr(checkpoint_files, name, slowly)
    callbacks = drumline.Callbacks(on_checkpoint=on_checkpoint)
    config = CONFIGS["erl"]
    run = drumline.train(config, layout=layout(config), out=tmp_path / "run", callbacks=callbacks)
    assert run.metrics
    assert told
    assert replaced


@pytest.mark.parametrize("name", cases(CONFIGS, quick=QUICK))
def test_a_run_that_a_callback_ends_goes_on_to_the_same_bytes(
    name: str, plain: dict[str, drumline.Run], tmp_path: Path
):
    config = CONFIGS[name]
    run = drumline.train(config, layout=layout(config), out=tmp_path / "run", callbacks=Until(2))
    assert [row["update"] for row in run.metrics][-1] == 2
    assert checkpoint_numbers(run.folder)[-1] == 2
    assert (run.path / "card.md").exists()
    assert run.evaluate(episodes=2).returns
    last = (run.path / "evaluations.csv").read_text().splitlines()[-1]
    assert last.startswith("2,")
    again = drumline.load(run.path).resume(workers="inline")
    assert lasting(again) == lasting(plain[name])


@pytest.mark.parametrize("name", cases(QUICK, quick=["hts"]))
def test_a_run_in_processes_ends_where_a_callback_says(
    name: str, plain: dict[str, drumline.Run], tmp_path: Path
):
    config = CONFIGS[name]
    processes = layout(config, workers=2)
    run = drumline.train(config, layout=processes, out=tmp_path / "run", callbacks=Until(2))
    assert run.metrics[-1]["update"] == 2
    assert lasting(run.resume(workers="inline")) == lasting(plain[name])


@pytest.mark.faults
def test_groups_end_where_a_callback_says(plain: dict[str, drumline.Run], tmp_path: Path):
    config = CONFIGS["hts"]
    groups = layout(config, workers=1, nodes=2)
    run = drumline.train(config, layout=groups, out=tmp_path / "run", callbacks=Until(2))
    assert run.metrics[-1]["update"] == 2
    assert lasting(run.resume(workers="inline")) == lasting(plain["hts"])


def test_a_free_running_method_ends_where_a_callback_says(tmp_path: Path):
    config = Impala(**ROTATION, batch=4, total_steps=960)
    run = drumline.train(config, workers="inline", out=tmp_path / "run", callbacks=Until(3))
    assert run.metrics[-1]["update"] == 3


@pytest.mark.parametrize("name", cases(CONFIGS, quick=QUICK))
def test_a_callback_that_raises_is_named_and_leaves_a_run_that_goes_on(
    name: str, plain: dict[str, drumline.Run], tmp_path: Path
):
    config = CONFIGS[name]
    with pytest.raises(
        CallbackFailed, match=r"Breaks\.on_update.*ZeroDivisionError: a fault"
    ) as at:
        drumline.train(config, layout=layout(config), out=tmp_path / "run", callbacks=Breaks(2))
    assert isinstance(at.value.__cause__, ZeroDivisionError)
    assert f"drumline resume {tmp_path / 'run'}" in at.value.__notes__[0]
    run = drumline.load(tmp_path / "run")
    assert checkpoint_numbers(run.folder)[-1] == 2
    assert lasting(run.resume(workers="inline")) == lasting(plain[name])


def test_an_evaluation_ends_a_run_and_a_resume_has_callbacks_too(tmp_path: Path):
    config = replace(CONFIGS["es"], evaluate_every=1, total_steps=2000)
    stop = drumline.Callbacks(on_evaluation=lambda row: row.mean < 0)
    run = drumline.train(config, workers="inline", out=tmp_path / "run", callbacks=stop)
    ended = run.metrics[-1]["update"]
    assert ended == 2  # the evaluation of update 1 is recorded with update 2
    run = run.resume(workers="inline", callbacks=[Until(3)])
    assert run.metrics[-1]["update"] == 3


@pytest.mark.parametrize("name", ["aes", "hts", "td3"])
def test_a_stop_within_an_evaluation_hides_no_update_from_callbacks(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    collect, calls = evaluations.collect, count(1)

    def stopping(*arguments: Any) -> Any:
        if next(calls) == 1:
            signal.raise_signal(signal.SIGINT)  # kept until the next wait, which is for episodes
        return collect(*arguments)

    monkeypatch.setattr(evaluations, "collect", stopping)
    heard: dict[str, list[Any]] = {"on_update": [], "on_episode": []}
    config = CONFIGS[name]
    callbacks = drumline.Callbacks(**{hook: rows.append for hook, rows in heard.items()})
    with pytest.raises(drumline.Stopped):
        drumline.train(config, layout=layout(config), out=tmp_path / "run", callbacks=callbacks)
    stopped = len(heard["on_update"])
    run = drumline.load(tmp_path / "run").resume(workers="inline", callbacks=callbacks)
    assert 0 < stopped < len(run.metrics)
    updates = [row["update"] for row in heard["on_update"]]
    assert updates == [row["update"] for row in run.metrics]
    assert len(heard["on_episode"]) == run.metrics[-1]["episodes"]


@pytest.mark.parametrize("name", ["aes", "hts", "td3"])
def test_an_evaluation_ends_a_run_at_the_same_update_after_a_stop_within_it(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    ends = drumline.Callbacks(on_evaluation=lambda row: False)
    config, where = CONFIGS[name], layout(CONFIGS[name])
    whole = drumline.train(config, layout=where, out=tmp_path / "whole", callbacks=ends)
    collect, calls = evaluations.collect, count(1)

    def stopping(*arguments: Any) -> Any:
        if next(calls) == 1:
            signal.raise_signal(signal.SIGINT)
        return collect(*arguments)

    monkeypatch.setattr(evaluations, "collect", stopping)
    with pytest.raises(drumline.Stopped):
        drumline.train(config, layout=where, out=tmp_path / "cut", callbacks=ends)
    cut = drumline.load(tmp_path / "cut").resume(workers="inline", callbacks=ends)
    assert lasting(cut) == lasting(whole)
    assert len(cut.metrics) < len(
        drumline.train(config, layout=where, out=tmp_path / "all").metrics
    )


def test_a_callback_is_asked_before_the_first_step_whether_it_can_be_called(tmp_path: Path):
    class Misnamed:
        def on_step(self, record: Any) -> None: ...

    class Later:
        async def on_update(self, metrics: dict[str, float]) -> None: ...

    class Called:
        async def __call__(self, metrics: dict[str, float]) -> None: ...

    def piecewise(metrics: dict[str, float]) -> Any:
        yield metrics

    for callbacks, words in (
        (Misnamed(), "has on_step: there are on_update"),
        (Meddler, "Meddler is a class: give one of its instances"),
        ([object()], "has no hook"),
        (drumline.Callbacks(on_update=3), "cannot be called"),  # pyright: ignore
        (Later(), "Later: on_update is a coroutine or generator function"),
        (drumline.Callbacks(on_update=Later().on_update), "is a coroutine or generator function"),
        (drumline.Callbacks(on_update=Called()), "is a coroutine or generator function"),
        (drumline.Callbacks(on_update=piecewise), "is a coroutine or generator function"),
    ):
        with pytest.raises(ValueError, match=words):
            drumline.train(CONFIGS["es"], out=tmp_path / "run", callbacks=callbacks)
    assert not os.path.exists(tmp_path / "run")
