"""Free running: nothing is promised, and still nothing is lost."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import doubles
import pytest
from doubles import GatherAt, KillAt

from drumline.commands.run import resume, silent, train
from drumline.commands.verify import verify_again
from drumline.recipes.document import NO_PROMISE, run_document
from drumline.recipes.impala import Impala, build
from drumline.recipes.layout import ActorLayout
from drumline.recipes.rotation import RotationRun
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunError, RunFolder

SMALL = Impala(
    env="CartPole-v1",
    engine="gymnasium",
    total_steps=600,
    num_envs=5,
    batch=3,
    alpha=10,
    hidden=(8,),
    normalize_observations=True,
    scale_rewards=True,
    evaluate_every=5,
    evaluate_episodes=2,
)
RENEWED = replace(SMALL, engine="envpool", renew_intervals=3)


def run_on(out: Path, config: Impala, layout: ActorLayout, **options: Any) -> RunFolder:
    folder = RunFolder.create(
        out,
        method="impala",
        env_id=config.env,
        seed=config.seed,
        document=run_document(config, layout, NO_PROMISE),
    )
    RotationRun(build(config, layout), folder, layout, silent(), **options).run()
    return folder


def episode_steps(folder: RunFolder) -> int:
    rows = folder.episodes_csv.read_text().splitlines()[1:]
    return sum(int(row.split(",")[-1]) for row in rows)


@pytest.mark.parametrize(
    ("config", "layout"),
    [
        (SMALL, ActorLayout(pool="inline", executors=2)),
        (SMALL, ActorLayout(executors=2)),
        (RENEWED, ActorLayout(executors=2, actors=1)),
        (replace(SMALL, step_time="exponential:1ms"), ActorLayout(executors=1)),
    ],
    ids=["inline", "own", "central", "slow"],
)
def test_every_layout_learns_from_every_step_once(
    tmp_path: Path, config: Impala, layout: ActorLayout
):
    # Whoever is early could fill every batch alone.
    gathered = layout.executors if layout.pool == "process" else 1
    probe = GatherAt("interval-begun", gathered, tmp_path / "came")
    run = RunFolder.open(run_on(tmp_path / "run", config, layout, probe_factory=probe).path)
    rows = run.metrics_csv.read_text().splitlines()
    assert len(rows) - 1 == 20
    assert 0 < episode_steps(run) <= 600
    processes = run.processes_csv.read_text().splitlines()[1:]
    roles = [row.split(",")[0] for row in processes]
    assert (roles.count("executor"), roles.count("actor")) == (layout.executors, layout.actors)
    assert all(int(row.split(",")[4]) > 0 for row in processes)


def test_the_lag_is_measured_and_bounded_by_the_queue(tmp_path: Path):
    metrics = train(SMALL, workers=2, out=tmp_path / "run").metrics
    # Two unrolls of five environments, taken three at a time.
    assert all(0 <= row["policy_lag"] <= row["policy_lag_max"] <= 10 for row in metrics)
    assert all(row["gradient_step_lag"] == row["policy_lag"] for row in metrics)
    assert metrics[0]["policy_lag_max"] == 0


def test_nothing_is_promised_and_that_is_said_first(tmp_path: Path):
    run = train(SMALL, workers="inline", out=tmp_path / "run")
    assert (run.path / "card.md").read_text().startswith("no promise: free running")
    with pytest.raises(RunError, match="no promise: free running"):
        verify_again(run.folder, None, ActorLayout())


@pytest.mark.parametrize(
    ("config", "point", "actors"),
    [(SMALL, "before-step", 0), (RENEWED, "half-row", 0), (SMALL, "half-answer", 1)],
)
def test_a_killed_role_is_replaced_where_it_stood(
    tmp_path: Path, config: Impala, point: str, actors: int
):
    probe = KillAt(point, tmp_path / "flag")
    layout = ActorLayout(executors=2, actors=actors)
    folder = run_on(tmp_path / "run", config, layout, probe_factory=probe)
    assert (tmp_path / "flag").exists()
    assert folder.metrics_csv.read_text().count("\n") == 21
    assert any(row.endswith(",1") for row in folder.processes_csv.read_text().splitlines())


@pytest.mark.parametrize("config", [SMALL, RENEWED], ids=["gymnasium", "envpool"])
def test_a_resumed_run_goes_on_with_what_was_learned_and_new_episodes(
    tmp_path: Path, config: Impala
):
    folder = run_on(tmp_path / "run", config, ActorLayout(pool="inline"), last_update=7)
    before = read_checkpoint(folder, None)
    assert before.update == 7
    run = resume(folder, ActorLayout(pool="inline", executors=3))
    after = read_checkpoint(folder, None)
    assert [row["update"] for row in run.metrics] == list(range(1, 21))
    assert after.state.counters["gradient_steps"] == 20
    assert after.state.counters["unrolls_begun"] > before.state.counters["unrolls_begun"]
    assert run.metrics[7]["episodes_cut"] >= 1


def test_a_batch_that_no_environments_can_fill_is_refused():
    with pytest.raises(ValueError, match="--batch 6 unrolls is more than the 5 environments"):
        replace(SMALL, batch=6)


def test_a_free_running_run_leaves_no_process_behind(tmp_path: Path):
    folder = run_on(tmp_path / "run", SMALL, ActorLayout(executors=2, actors=1))
    rows = folder.processes_csv.read_text().splitlines()[1:]
    pids = {int(row.split(",")[2]) for row in rows if not row.startswith("learner")}
    assert not any(doubles.is_running(pid) for pid in pids)
