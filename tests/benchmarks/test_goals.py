"""A goal counts where the next evaluation held it, whatever its sign."""

import csv
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import load_script

from drumline import ES, train
from drumline.recipes.methods import find_method

PUBLISHED = Path(__file__).parents[2] / "benchmarks/results/published_es_mujoco.csv"


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


def test_methods_beside_aes_have_its_random_steps_and_minibatches():
    goals = load_script("learning", "aes_goals").GOALS
    told = {name.split()[0]: goal.flags for name, goal in goals.items() if "Hopper-v5 30k" in name}
    methods = {name: find_method(name) for name in ("aes", "td3", "cem-rl")}
    assert set(told) == set(methods)
    assert "--preset=paper" in told["aes"]
    assert methods["aes"].made("Hopper-v5", "paper").batch_size == 256
    assert "--warmup-steps=2000" in told["aes"]
    assert {"--warmup-steps=2000", "--warmup=random", "--batch-size=256"} <= set(told["cem-rl"])
    assert "--random-steps=2000" in told["td3"]
    assert methods["td3"].made("Hopper-v5").batch_size == 256


def test_es_presets_reach_to_the_published_env_steps():
    with open(PUBLISHED, newline="") as lines:
        rows = list(csv.DictReader(lines))
    steps = {row["environment"]: float(row["es_env_steps"]) for row in rows}
    assert len(steps) == 6
    for task, most in steps.items():
        made = find_method("es").made(f"{task}-v5")
        assert made.total_steps >= most, task
