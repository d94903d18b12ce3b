"""A run folder is only ever taken for the run of a command with its settings."""

import csv
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import in_this_process, load_script

from drumline.api.run import train
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS

TINY = ("--num-envs=4", "--alpha=16", "--minibatches=1", "--epochs=1", "--total-steps=128")
MORE = ("--evaluate-episodes=1", "--evaluate-every=1")


@pytest.fixture(scope="module")
def folders() -> Any:
    return load_script("learning", "run_folders")


@pytest.fixture(scope="module")
def goals() -> Any:
    return load_script("learning", "goals")


def stopped_run(folder: Path, method: str, **config: Any) -> Path:
    folder.mkdir(parents=True)
    document = {"format": 1, "method": method, "config": config}
    (folder / "config.json").write_text(json.dumps(document))
    return folder


def test_what_a_run_finds_itself_is_no_difference(
    folders: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    in_this_process(folders, monkeypatch)
    asked = {"num_envs": 4, "alpha": 16, "minibatches": 1, "epochs": 1, "total_steps": 128}
    config = HTS(**{"env": "CartPole-v1", **HTS.PRESETS["CartPole-v1"], **asked})
    run = train(config, workers="inline", out=tmp_path / "run")
    assert (config.inference_rows, config.correction) == (-1, "auto")
    assert run.config.inference_rows != -1
    assert run.config.correction == "truncated-is"
    assert folders.differences(run.path, "hts", "CartPole-v1", TINY) == []
    other = folders.differences(run.path, "hts", "CartPole-v1", [*TINY, "--correction=vtrace"])
    assert other == ['correction is "truncated-is" there and "vtrace" here']


def test_settings_that_an_older_run_lacks_are_what_they_were_before(
    folders: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    in_this_process(folders, monkeypatch)
    config = asdict(ES(**{"env": "CartPole-v1", **ES.PRESETS["CartPole-v1"]}))
    del config["evaluate_episodes"]
    folder = stopped_run(tmp_path / "run", "es", **config)
    assert folders.differences(folder, "es", "CartPole-v1", []) == []
    assert folders.differences(folder, "es", "CartPole-v1", ["--evaluate-episodes=77"]) == [
        "evaluate_episodes is 20 there and 77 here"
    ]


def test_a_run_of_another_method_or_environment_is_refused(folders: Any, tmp_path: Path):
    folder = stopped_run(tmp_path / "run", "es", env="CartPole-v1")
    with pytest.raises(SystemExit, match="it is of es, not ars"):
        folders.bring_to_end(folder, "ars", "CartPole-v1", [], [])
    with pytest.raises(SystemExit, match='env is "CartPole-v1" there and "Pendulum-v1" here'):
        folders.bring_to_end(folder, "es", "Pendulum-v1", [], [])


def test_a_stopped_run_of_an_environment_of_ones_own_goes_on(
    folders: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    env = "lane_environments:counting"
    folder = stopped_run(tmp_path / "run", "es", env=env)
    commands: list[list[str]] = []
    monkeypatch.setattr(folders, "differences", lambda *_: [])
    monkeypatch.setattr(folders.subprocess, "run", lambda command, **_: commands.append(command))
    folders.bring_to_end(folder, "es", env, ["--seed=1"], ["--pool=inline"])
    resume = ["resume", str(folder), "--trust-code", "--pool=inline", "--quiet"]
    assert commands == [[*folders.DRUMLINE, *resume]]


def test_a_goal_of_another_budget_is_not_read_from_a_run_that_is_there(
    goals: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    in_this_process(sys.modules["run_folders"], monkeypatch)
    out = tmp_path / "goals.csv"
    words = [f"--runs={tmp_path / 'runs'}", f"--out={out}", "--seeds", "0"]
    monkeypatch.setattr(sys, "argv", [goals.__file__, *words])

    def bring(*flags: str) -> list[dict[str, str]]:
        told = {"tiny": goals.Goal("ppo", "CartPole-v1", None, 128, (*TINY, *MORE, *flags))}
        goals.main(told, None)
        return [*csv.DictReader(out.read_text().splitlines())]

    first = bring()
    made = (tmp_path / "runs" / "tiny-s0" / "metrics.csv").stat().st_mtime_ns
    assert bring() == first
    with pytest.raises(SystemExit, match="total_steps is 128 there and 256 here"):
        bring("--total-steps=256")
    assert (tmp_path / "runs" / "tiny-s0" / "metrics.csv").stat().st_mtime_ns == made
