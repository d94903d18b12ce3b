"""`--evaluate-max-steps` bounds the episodes of evaluations, and those alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import drumline
import drumline.api.run
from drumline.display.panel import rows as panel_rows
from drumline.display.plain import Silent, plain_line
from drumline.display.state import DisplayState
from drumline.protocols import Completed
from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.methods import METHODS, method_of, with_late_fields
from drumline.recipes.td3 import TD3
from drumline.runs.metrics import read_evaluations
from drumline.runtime.inline_pool import InlinePool

LONGEST = 3


class Watching(Silent):
    """Keeps every state that it is shown."""

    def __init__(self):
        self.states: list[DisplayState] = []

    def due(self) -> bool:
        return True

    def update(self, state: DisplayState) -> None:
        self.states.append(state)


SMALL = {"env": "CartPole-v1", "hidden": (4,), "evaluate_every": 1, "evaluate_episodes": 2}
REPLAY = {**SMALL, "total_steps": 60, "replay_size": 60, "batch_size": 4}
CONFIGS: dict[str, Any] = {
    "es": ES(**SMALL, total_steps=60, population_size=4, noise_table_size=4096),
    "aes": AES(**REPLAY, warmup_steps=20),
    "td3": TD3(**REPLAY, steps_per_update=20, random_steps=20),
    "hts": HTS(**SMALL, total_steps=64, num_envs=4, alpha=4, minibatches=1, engine="gymnasium"),
}


@pytest.mark.parametrize("method", CONFIGS)
def test_every_episode_of_an_evaluation_is_cut_and_none_of_training(method: str, tmp_path: Path):
    free = drumline.train(CONFIGS[method], workers="inline", out=tmp_path / "free")
    bounded = replace(CONFIGS[method], evaluate_max_steps=LONGEST)
    run = drumline.train(bounded, workers="inline", out=tmp_path / "bounded")
    rows = read_evaluations(run.folder.evaluations_csv)
    assert {length for row in rows for length in row.lengths} == {LONGEST}
    assert min(min(row.lengths) for row in read_evaluations(free.folder.evaluations_csv)) > LONGEST
    for name in ("fingerprints.csv", "episodes.csv"):
        assert (run.path / name).read_bytes() == (free.path / name).read_bytes()
    assert run.evaluate(2).lengths == (LONGEST, LONGEST)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_bound_refuses_a_negative_one_and_reads_older_runs(method: str):
    config: Any = METHODS[method].config
    assert config(env="CartPole-v1").evaluate_max_steps == 0
    assert with_late_fields(method, {"env": "CartPole-v1"})["evaluate_max_steps"] == 0
    with pytest.raises(ValueError, match=r"^--evaluate-max-steps must be 0 or more, got -1$"):
        config(env="CartPole-v1", evaluate_max_steps=-1)


@pytest.mark.parametrize("method", ["es", "td3", "hts"])
def test_the_display_counts_the_episodes_of_an_evaluation_that_the_run_waits_for(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    held: list[Completed] = []
    completed = InlinePool.completed

    def one_by_one(self: InlinePool, timeout: float | None = None) -> list[Completed]:
        held.extend([] if held else completed(self, timeout))
        return [held.pop(0)] if held else []

    monkeypatch.setattr(InlinePool, "completed", one_by_one)
    watching = Watching()
    config = replace(CONFIGS[method], evaluate_episodes=3, evaluate_every=0)
    layout = method_of(config).layout(pool="inline")
    drumline.api.run.train(config, layout=layout, out=tmp_path / "run", display=watching)
    waiting = [state for state in watching.states if state.evaluation_episodes]
    assert {state.evaluated_episodes for state in waiting} == {0, 1, 2}
    assert {state.evaluation_episodes for state in waiting} == {3}
    assert "evaluating: 2 of 3 episodes" in plain_line(waiting[-1])
    assert any("2 of 3 episodes" in row.words for row in panel_rows(waiting[-1], 80, 20))
    assert not watching.states[0].evaluation_episodes
