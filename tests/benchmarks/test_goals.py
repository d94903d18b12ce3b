"""A goal counts where the next evaluation held it, whatever its sign."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import load_script

from drumline import ES, train


@pytest.fixture(scope="module")
def goals() -> Any:
    return load_script("learning", "goals")


@pytest.mark.parametrize(
    ("means", "goal", "met"),
    [
        ([900, 1000, 899, 1000, 900], 1000.0, 3),
        ([1000, 899, 1000], 1000.0, None),
        ([-199, -221, -200, -220, -100], -200.0, 2),
        ([-201, -150, -190], -200.0, 1),
        ([], -200.0, None),
    ],
)
def test_a_goal_is_met_where_the_next_evaluation_is_short_of_it_by_a_tenth_at_most(
    goals: Any, means: list[int], goal: float, met: int | None
):
    rows = [{"mean": str(mean), "env_steps": str(at)} for at, mean in enumerate(means)]
    found = goals.reached(rows, goal)
    assert (None if found is None else int(found["env_steps"])) == met


def test_a_score_first_met_at_the_end_is_confirmed_by_one_more_evaluation(
    goals: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = ES("CartPole-v1", total_steps=1, population_size=2, evaluate_every=0, hidden=(2,))
    run = train(config, workers="inline", out=tmp_path / "run")
    (only,) = goals.evaluations(run.path)
    at_the_end = goals.Goal("es", "CartPole-v1", float(only["mean"]), 1)
    again = goals.confirming(run.path)
    assert again == goals.confirming(run.path) != float(only["mean"])
    monkeypatch.setattr(goals, "confirming", lambda folder: again)
    held = again >= 0.9 * at_the_end.score
    assert goals.met_at(run.path, at_the_end) == (only if held else None)
    monkeypatch.setattr(goals, "confirming", lambda folder: 0.0)
    assert goals.met_at(run.path, at_the_end) is None
    unreachable = goals.Goal("es", "CartPole-v1", 501.0, 1)
    monkeypatch.setattr(goals, "confirming", pytest.fail)
    assert goals.met_at(run.path, unreachable) is None
