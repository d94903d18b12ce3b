"""Free running: nothing is promised, and still nothing is lost."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import doubles
import numpy as np
import pytest
from campaigns import FAULTS
from doubles import GatherAt, KillAt

from drumline.algorithms.a2c import A2C
from drumline.api.foreign_code import TRUSTED
from drumline.api.opened_runs import silent
from drumline.api.run import resume, train
from drumline.api.run_document import NO_PROMISE, run_document
from drumline.commands.verify import verify_again
from drumline.recipes import learners
from drumline.recipes.impala import Impala
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunError, RunFolder
from drumline.training import free_course
from drumline.training.layout import ActorLayout
from drumline.training.run_request import RunRequest
from drumline.training.unroll_queue import UnrollQueue
from drumline.types import Rollout

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
NUMBERED = replace(SMALL, env="recipes.numbered_environment:Numbered", evaluate_every=0)


def run_on(out: Path, config: Impala, layout: ActorLayout, **options: Any) -> RunFolder:
    folder = RunFolder.create(
        out,
        method="impala",
        env_id=config.env,
        seed=config.seed,
        document=run_document(config, layout, NO_PROMISE),
    )
    config.build(layout).opened(RunRequest(folder, layout, silent(), **options)).run()
    return folder


def episode_steps(folder: RunFolder) -> int:
    rows = folder.episodes_csv.read_text().splitlines()[1:]
    return sum(int(row.split(",")[-1]) for row in rows)


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[Rollout]:
    """Every rollout that is learned from, in order."""
    rollouts: list[Rollout] = []
    update = A2C.update

    def updating(self: A2C, rollout: Rollout, behavior: Any) -> Any:
        rollouts.append(rollout)
        return update(self, rollout, behavior)

    monkeypatch.setattr(A2C, "update", updating)
    return rollouts


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """The unrolls of each environment that leave a queue, in order."""
    unrolls: dict[int, list[int]] = {}

    class Watched(UnrollQueue):
        def __init__(self, storage: Any, exchange: Any, begun: int, fold: Any):
            def folding(environment: int, unroll: Rollout, update: int) -> np.ndarray:
                unrolls.setdefault(environment, []).append(unroll.interval)
                return fold(environment, unroll, update)

            super().__init__(storage, exchange, begun, folding)

    monkeypatch.setattr(free_course, "UnrollQueue", Watched)
    return unrolls


@pytest.mark.parametrize(
    ("config", "layout"),
    [
        (SMALL, ActorLayout(pool="inline", executors=2)),
        (SMALL, ActorLayout(executors=2)),
        pytest.param(RENEWED, ActorLayout(executors=2, actors=1), marks=FAULTS),
        pytest.param(
            replace(SMALL, step_time="exponential:1ms"), ActorLayout(executors=1), marks=FAULTS
        ),
    ],
    ids=["inline", "own", "central", "slow"],
)
def test_every_layout_learns_from_every_step_once(
    tmp_path: Path, taken: dict[int, list[int]], config: Impala, layout: ActorLayout
):
    # An early executor could fill every batch alone.
    gathered = layout.executors if layout.pool == "process" else 1
    probe = GatherAt("interval-begun", gathered, tmp_path / "came")
    run = RunFolder.open(run_on(tmp_path / "run", config, layout, probe_factory=probe).path)
    rows = run.metrics_csv.read_text().splitlines()
    assert len(rows) - 1 == 20
    assert sum(map(len, taken.values())) == 60
    assert all(unrolls == list(range(len(unrolls))) for unrolls in taken.values())
    assert 0 < episode_steps(run) <= 600
    processes = run.processes_csv.read_text().splitlines()[1:]
    roles = [row.split(",")[0] for row in processes]
    assert (roles.count("executor"), roles.count("actor")) == (layout.executors, layout.actors)
    # A quick evaluator may run every episode alone.
    owners = [row.split(",") for row in processes if not row.startswith("evaluator")]
    assert all(int(row[4]) > 0 for row in owners)


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(ActorLayout(pool="inline", executors=2), id="inline"),
        pytest.param(ActorLayout(executors=2, actors=1), id="central", marks=FAULTS),
    ],
)
def test_steps_are_learned_from_in_their_order_without_a_gap(
    tmp_path: Path, learned: list[Rollout], layout: ActorLayout
):
    run_on(tmp_path / "run", NUMBERED, layout)
    reached: dict[float, float] = {}
    for rollout in learned:
        # A batch may hold two unrolls of one environment, in any order.
        columns = np.asarray(rollout.observations).transpose(1, 2, 0).tolist()
        assert len(columns) == NUMBERED.batch
        for who, steps in sorted(columns):
            assert set(who) == {who[0]}
            begun = reached.get(who[0], 0.0)
            assert steps == [begun + t for t in range(NUMBERED.alpha + 1)]
            reached[who[0]] = steps[-1]
    assert sum(reached.values()) == NUMBERED.total_steps


@FAULTS
def test_the_lag_is_measured_and_bounded_by_the_queue(tmp_path: Path):
    metrics = train(SMALL, workers=2, out=tmp_path / "run").metrics
    # Two unrolls of five environments, taken three at a time.
    assert all(0 <= row["policy_lag"] <= row["policy_lag_max"] <= 10 for row in metrics)
    assert all(row["gradient_step_lag"] == row["policy_lag"] for row in metrics)
    assert metrics[0]["policy_lag_max"] == 0


def test_what_a_batch_left_over_is_one_version_old_in_the_next(tmp_path: Path):
    metrics = train(SMALL, workers="inline", out=tmp_path / "run").metrics
    # Of five unrolls with version 0 three made version 1; two of the next three are the others.
    assert metrics[0]["policy_lag"] == 0
    assert metrics[1]["policy_lag_max"] == 1
    assert 2 / 3 <= metrics[1]["policy_lag"] <= 1


def test_rewards_are_scaled_by_the_spread_of_the_returns_so_far(
    tmp_path: Path, learned: list[Rollout]
):
    config = replace(SMALL, num_envs=2, batch=2, total_steps=200, evaluate_every=0)
    run_on(tmp_path / "run", config, ActorLayout(pool="inline", executors=1))
    running, seen = [0.0, 0.0], []
    for rollout in learned:
        ended = rollout.terminated | rollout.truncated
        for b in range(2):
            for over in ended[:, b].tolist():
                seen.append(1.0 + config.discount * running[b])  # CartPole pays 1 for every step
                running[b] = 0.0 if over else seen[-1]
            expected = np.full(config.alpha, 1.0 / np.std(seen))
            assert rollout.rewards[:, b] == pytest.approx(expected, rel=1e-3)
    assert len(learned) == 10


def test_rewards_are_as_they_were_paid_unless_they_shall_be_scaled(
    tmp_path: Path, learned: list[Rollout]
):
    config = replace(SMALL, scale_rewards=False, total_steps=60, evaluate_every=0)
    run_on(tmp_path / "run", config, ActorLayout(pool="inline"))
    assert [rollout.rewards.tolist() for rollout in learned] == [[[1.0] * 3] * 10] * 2


def test_the_learner_has_v_trace_and_scales_no_reward_again(monkeypatch: pytest.MonkeyPatch):
    handed: dict[str, Any] = {}

    def making(**parts: Any) -> A2C:
        handed.update(parts)
        return A2C(**parts)

    monkeypatch.setattr(learners, "A2C", making)
    recipe = SMALL.build(ActorLayout(pool="inline"))
    learners.make_learner(recipe.parts, pause=lambda: None)
    settings = handed["settings"]
    assert (settings.correction, settings.unroll, settings.gae_lambda) == ("vtrace", 0, 1.0)
    assert "reward_count" not in handed["preparation"].state().counters


def test_nothing_is_promised_and_that_is_said_first(tmp_path: Path):
    run = train(SMALL, workers="inline", out=tmp_path / "run")
    assert (run.path / "card.md").read_text().startswith("no promise: free running")
    with pytest.raises(RunError, match="no promise: free running"):
        verify_again(run.folder, None, ActorLayout(), TRUSTED)


@pytest.mark.parametrize(
    ("config", "point", "actors"),
    [
        pytest.param(SMALL, "before-step", 0, marks=FAULTS),
        pytest.param(RENEWED, "half-row", 0, marks=FAULTS),
        pytest.param(SMALL, "half-answer", 1, marks=FAULTS),
    ],
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
    run = resume(folder, ActorLayout(pool="inline", executors=3), trust=TRUSTED)
    after = read_checkpoint(folder, None)
    assert [row["update"] for row in run.metrics] == list(range(1, 21))
    assert after.state.counters["gradient_steps"] == 19  # the first update fills the moments
    assert after.state.counters["unrolls_begun"] > before.state.counters["unrolls_begun"]
    assert run.metrics[7]["episodes_cut"] >= 1


def test_a_batch_that_no_environments_can_fill_is_refused():
    with pytest.raises(ValueError, match="--batch 6 unrolls is more than the 5 environments"):
        replace(SMALL, batch=6)


@FAULTS
def test_a_free_running_run_leaves_no_process_behind(tmp_path: Path):
    folder = run_on(tmp_path / "run", SMALL, ActorLayout(executors=2, actors=1))
    rows = folder.processes_csv.read_text().splitlines()[1:]
    pids = {int(row.split(",")[2]) for row in rows if not row.startswith("learner")}
    assert not any(doubles.is_running(pid) for pid in pids)
