"""The promise with noise of low rank: workers, kills, threads and resumes change no byte."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from campaigns import cases
from doubles import KillAt
from whole_runs import lasting_bytes, run_on

from drumline.api.foreign_code import TRUSTED
from drumline.api.lone_episode import LoneEpisode
from drumline.api.run import resume, train
from drumline.commands.rebuild import rebuild
from drumline.commands.verify import verify_again
from drumline.errors import ObjectiveProblem
from drumline.recipes.es import ES
from drumline.runs.folder import RunFolder
from drumline.training.layout import SearchLayout

SMALL = {"seed": 3, "population_size": 8, "evaluate_every": 4, "evaluate_episodes": 3}
RUNS = {
    "a module": ES(
        objective="torch_objectives:fit",
        policy="torch_objectives:Regressor",
        noise="low-rank:1",
        std=0.1,
        total_steps=80,
        **SMALL,
    ),
    "a module in bf16": ES(
        objective="torch_objectives:near_ones",
        policy="torch_objectives:Regressor",
        noise="low-rank:2",
        trainable="inner.weight",
        working_precision="bf16",
        std=0.1,
        total_steps=80,
        **SMALL,
    ),
    "members of one call": ES(
        objective="torch_objectives:fit_members",
        policy="torch_objectives:Regressor",
        noise="low-rank:1",
        members_per_call=3,
        seeds_per_call=2,
        std=0.1,
        total_steps=160,
        **SMALL,
    ),
    "an environment": ES(
        env="CartPole-v1", hidden=(9, 7), noise="low-rank:2", std=0.2, total_steps=900, **SMALL
    ),
    "images": ES(
        env="pixel_environment:make",
        policy="a3c-cnn",
        noise="low-rank:1",
        total_steps=500,
        **{**SMALL, "population_size": 4, "evaluate_every": 0},
    ),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, bytes]]:
    @cache
    def bytes_of(name: str) -> dict[str, bytes]:
        out = tmp_path_factory.mktemp("expected") / "run"
        return lasting_bytes(train(RUNS[name], workers="inline", out=out).folder)

    return bytes_of


WORKERS = [(name, workers) for name in RUNS for workers in (1, 2, 3)]


@pytest.mark.parametrize(
    ("name", "workers"), cases(WORKERS, quick=[("members of one call", 2), ("an environment", 3)])
)
def test_workers_one_of_them_killed_change_no_byte(
    tmp_path: Path, expected: Any, name: str, workers: int
):
    probe = KillAt("episode-ended", tmp_path / "flag")
    layout = SearchLayout(workers=workers, update_threads=workers)
    folder = run_on(tmp_path / "run", RUNS[name], layout, probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder) == expected(name)


@pytest.mark.parametrize("name", cases(RUNS, quick=["members of one call"]))
def test_a_stop_and_a_resume_change_no_byte_and_verify_agrees(
    tmp_path: Path, expected: Any, name: str
):
    train(RUNS[name], workers="inline", out=tmp_path / "run", last_update=3)
    folder = RunFolder.open(tmp_path / "run")
    assert folder.document["config"]["noise"] == RUNS[name].noise
    resume(folder, SearchLayout(workers=2), trust=TRUSTED)
    assert lasting_bytes(folder) == expected(name)
    done, difference = verify_again(
        RunFolder.open(folder.path), None, SearchLayout(pool="inline"), TRUSTED
    )
    assert done >= 3
    assert difference is None


def test_members_of_one_call_are_evaluated_again_alone(tmp_path: Path):
    """One of a run's files names a member; its number has the bits of the whole call."""
    config = replace(RUNS["members of one call"], total_steps=32)
    run = train(config, workers="inline", out=tmp_path / "run")
    rows = [row.split(",") for row in (run.path / "episodes.csv").read_text().splitlines()[1:]]
    told = {int(row[1]): float(row[3]) for row in rows if row[0] == "1"}
    for member in (0, 4, 7):
        lone = LoneEpisode(run.folder, member, 0, TRUSTED, evaluation=False)
        assert lone.run().episode_return == told[member]
    evaluated = run.evaluate(episodes=4)
    assert len(evaluated.returns) == 4
    assert evaluated.returns == run.evaluate(episodes=4).returns


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ("one_number", r"instead of 3 numbers, one for each member \(--members-per-call 3\)"),
        ("without_members", r"inputs \[3, …\], one row for each member, and got"),
    ],
)
def test_a_function_for_one_member_is_refused(tmp_path: Path, objective: str, said: str):
    config = replace(RUNS["members of one call"], seeds_per_call=1, promise=False)
    config = replace(config, objective=f"torch_objectives:{objective}")
    with pytest.raises(ObjectiveProblem, match=said):
        train(config, workers="inline", out=tmp_path / "run")


def test_a_generation_is_made_again_from_scalars(tmp_path: Path):
    layout = SearchLayout(pool="inline", keep_scalars=True, tensorboard=False)
    run = train(RUNS["a module"], layout=layout, out=tmp_path / "run")
    assert all(rebuild(run.folder, generation, TRUSTED).compared for generation in (1, 4, 10))
