"""Failures after the last update: a longer run must not count them, and the episode is named."""

from pathlib import Path
from typing import Any

import pytest
from campaigns import FAULTS, cases
from whole_runs import lasting_bytes, run_on

from drumline.api.foreign_code import TRUSTED
from drumline.api.run import resume
from drumline.errors import WorkerError
from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.methods import method_of
from drumline.recipes.td3 import TD3
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunFolder
from drumline.runs.metrics import read_evaluations
from drumline.training.evaluations import evaluation_tasks
from drumline.training.ledger import Ledger

SMALL = {"env": "impure_environment:Collapsing", "hidden": (4,), "evaluate_every": 0}
REPLAY = {**SMALL, "total_steps": 60, "replay_size": 60, "batch_size": 4, "evaluate_episodes": 2}
CONFIGS: dict[str, Any] = {
    "es": ES(
        **SMALL, total_steps=60, population_size=4, noise_table_size=1 << 12, evaluate_episodes=2
    ),
    "aes": AES(**REPLAY, warmup_steps=20),
    "td3": TD3(**REPLAY, steps_per_update=20, random_steps=20),
    "hts": HTS(**SMALL, total_steps=64, num_envs=4, alpha=4, minibatches=1, evaluate_episodes=2),
}
UPDATES = {"es": 3, "hts": 4, "td3": 3}


def last_checkpoint(path: Path) -> tuple[int, set[str], Any]:
    """Of the newest checkpoint: its update, the files that it goes on with, what it has counted."""
    saved = read_checkpoint(RunFolder.open(path), None)
    return saved.update, set(saved.lengths), saved.state.counters


def train(out: Path, config: Any, **layout: Any) -> None:
    run_on(out, config, method_of(config).layout(**layout, tensorboard=False))


@pytest.fixture(autouse=True)
def nothing_collapses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLAPSE_SEED", "none")


@pytest.mark.parametrize("layout", [{"pool": "inline"}, pytest.param({"workers": 1}, marks=FAULTS)])
@pytest.mark.parametrize("method", ["es", "hts", "td3"])
def test_an_episode_of_an_evaluation_that_fails_is_named(
    method: str, layout: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = CONFIGS[method]
    seed = evaluation_tasks(config.seed, UPDATES[method], 2)[1].seed
    monkeypatch.setenv("COLLAPSE_SEED", str(seed))
    with pytest.raises(WorkerError, match="fell off the table") as failure:
        train(tmp_path / "run", config, **layout)
    named = f"it was evaluation episode 1 of update {UPDATES[method]}, episode seed {seed}"
    assert named in failure.value.__notes__
    further = f"the run can go on from checkpoint {UPDATES[method]}, once the cause is mended: "
    assert further + f"drumline resume {tmp_path / 'run'}" in failure.value.__notes__[-1]


@pytest.mark.parametrize("method", cases(CONFIGS, quick=["es", "td3", "hts"]))
def test_a_last_policy_that_cannot_be_written_leaves_the_checkpoint_alone(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = CONFIGS[method]
    train(tmp_path / "whole", config, pool="inline")
    original = Ledger.save_policy

    def failing(self: Ledger, name: str, *rest: Any) -> None:
        if name == "last":
            raise RuntimeError("it cannot be written")
        original(self, name, *rest)

    monkeypatch.setattr(Ledger, "save_policy", failing)
    with pytest.raises(RuntimeError, match="it cannot be written"):
        train(tmp_path / "cut", config, pool="inline")
    assert last_checkpoint(tmp_path / "cut") == last_checkpoint(tmp_path / "whole")


@pytest.mark.parametrize("method", CONFIGS)
def test_a_run_that_ends_before_its_first_update_evaluates_the_policy_that_it_began_with(
    method: str, tmp_path: Path
):
    config, layout = CONFIGS[method], method_of(CONFIGS[method]).layout(pool="inline")
    whole = run_on(tmp_path / "whole", config, layout)
    ended = run_on(tmp_path / "ended", config, layout, last_update=0)
    assert [row.update for row in read_evaluations(ended.evaluations_csv)] == [0]
    assert ended.policy_tensors("best").read_bytes() == ended.policy_tensors("last").read_bytes()
    resume(ended, layout, trust=TRUSTED)
    assert lasting_bytes(ended) == lasting_bytes(whole)
