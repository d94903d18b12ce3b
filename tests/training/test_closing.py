"""Every environment of a run is closed, in whatever process it worked; none is waited for long.

Simulators with windows, licences, sockets or shared memory of their own rely on `close`.
"""

import dataclasses
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import FAULTS, cases
from whole_runs import lasting_bytes, run_on

from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.methods import method_of
from drumline.recipes.td3 import TD3
from drumline.runtime import child_process

MARKED = "impure_environment:Marked"
SMALL = {"hidden": (4,), "evaluate_every": 2, "evaluate_episodes": 2}
REPLAY = {**SMALL, "replay_size": 60, "batch_size": 4}
CONFIGS: dict[str, Any] = {
    "es": ES(env=MARKED, total_steps=60, population_size=4, noise_table_size=1 << 12, **SMALL),
    "aes": AES(env=MARKED, total_steps=60, warmup_steps=20, **REPLAY),
    "td3": TD3(env=MARKED, total_steps=60, steps_per_update=20, random_steps=20, **REPLAY),
    "hts": HTS(env=MARKED, total_steps=64, num_envs=4, alpha=4, minibatches=1, **SMALL),
}


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder in which the environments of a test leave their marks."""
    monkeypatch.setenv("MARKS", str(tmp_path / "marks"))
    return tmp_path / "marks"


def marked(marks: Path, word: str) -> list[str]:
    """The environments that left this mark, each as its process and a number."""
    lines = [line.split(maxsplit=1) for line in marks.read_text().splitlines()]
    return sorted(name for left, name in lines if left == word)


def train(out: Path, config: Any, **layout: Any) -> None:
    run_on(out, config, method_of(config).layout(**layout, tensorboard=False))


@pytest.mark.parametrize("method", CONFIGS)
def test_every_environment_of_one_process_is_closed_once(method: str, marks: Path, tmp_path: Path):
    train(tmp_path / "run", CONFIGS[method], pool="inline")
    assert marked(marks, "closed") == marked(marks, "made")


@pytest.mark.parametrize("method", cases(["es", "td3", "hts"], quick=["hts"]))
def test_every_environment_that_worked_in_any_process_is_closed_once(
    method: str, marks: Path, tmp_path: Path
):
    """AES always ends with individuals in flight; a worker that does not stop soon is killed."""
    train(tmp_path / "run", CONFIGS[method], workers=2)
    closed = marked(marks, "closed")
    assert len(closed) == len(set(closed))
    assert set(closed) >= set(marked(marks, "used"))
    assert len({name.split()[0] for name in closed}) > 1


@pytest.mark.parametrize("layout", [{"pool": "inline"}, pytest.param({"workers": 2}, marks=FAULTS)])
def test_an_environment_that_fails_to_close_costs_the_run_nothing(
    layout: dict[str, Any], marks: Path, tmp_path: Path
):
    config = dataclasses.replace(CONFIGS["hts"], env="impure_environment:FailingToClose")
    train(tmp_path / "run", config, **layout)
    assert set(marked(marks, "closed")) >= set(marked(marks, "used"))


@FAULTS
def test_an_environment_that_closes_slowly_is_given_the_time(marks: Path, tmp_path: Path):
    config = dataclasses.replace(CONFIGS["hts"], env="impure_environment:ClosingSlowly")
    train(tmp_path / "run", config, workers=2)
    assert set(marked(marks, "closed")) >= set(marked(marks, "used"))


@FAULTS
def test_an_environment_that_never_closes_ends_with_the_run(
    marks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(child_process, "_CLOSING_SECONDS", 0.5)
    monkeypatch.setenv("CLOSES_IN", str(os.getpid()))
    config = dataclasses.replace(CONFIGS["hts"], env="impure_environment:NeverClosing")
    train(tmp_path / "run", config, workers=2)
    elsewhere = set(marked(marks, "used")) - set(marked(marks, "closed"))
    assert len(elsewhere) >= config.num_envs
    for pid in {int(name.split()[0]) for name in elsewhere}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("method", cases(["es", "aes", "td3"], quick=["es", "td3"]))
def test_draws_from_global_generators_follow_from_the_seed_of_the_episode(
    method: str, tmp_path: Path
):
    """In whatever process it runs, and whatever has been drawn there before."""
    config = dataclasses.replace(CONFIGS[method], env="impure_environment:GlobalNoise")
    found = []
    for number, layout in enumerate(({"pool": "inline"}, {"workers": 2})):
        np.random.seed(number)
        random.seed(number)
        kind = method_of(config).layout(**layout, tensorboard=False)
        found.append(lasting_bytes(run_on(tmp_path / str(number), config, kind)))
    assert found[0] == found[1]
