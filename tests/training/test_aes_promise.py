"""AES-RL's promise: layouts, kills, sleeps, stops and resumes change no byte; what it refuses."""

import ast
import csv
import dataclasses
import json
import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import whole_runs
from campaigns import FAULTS, cases
from doubles import GatherAt, KillAt, SleepAt
from threadpoolctl import threadpool_limits
from training.stopping import stop_at_call
from whole_runs import folder_for, run_on

from drumline.algorithms import external
from drumline.api.foreign_code import TRUSTED
from drumline.api.opened_runs import silent
from drumline.api.run import Run, load, resume, train
from drumline.buffers import queued_replay
from drumline.commands.verify import verify_again
from drumline.errors import ImpureEnvironment
from drumline.recipes.aes import ACEMRL, AES, OnePlusOne
from drumline.recipes.methods import method_of
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunFolder
from drumline.runs.metrics import read_evaluations
from drumline.training.layout import SteadyLayout
from drumline.training.run_request import RunRequest
from drumline.training.steady_recipes import SteadyRecipe
from drumline.training.stopped import Stopped

INLINE = SteadyLayout(pool="inline", tensorboard=False)
SMALL = AES(
    env="InvertedPendulum-v5",
    total_steps=250,
    concurrency=3,
    fitness_range=5.0,
    warmup_steps=40,
    replay_size=120,
    batch_size=16,
    hidden=(8,),
    critic_batches=30,
    mean_evaluations=2,
    recent_episodes=3,
    evaluate_every=7,
    evaluate_episodes=2,
)
WITHOUT_RANGE = replace(SMALL, fitness_range=AES.fitness_range)
DISCRETE = replace(SMALL, env="CartPole-v1", total_steps=400, mean_evaluations=0)
SYNC = replace(SMALL, schedule="sync")
SLOW_CRITIC = replace(SMALL, mean_evaluations=0, critic_step_cost=2_000_000, critic_lag=40)
CHAIN = replace(SMALL, refined_from="newest")
CONFIRMED = replace(
    WITHOUT_RANGE, mean_rule="confirmed-move", variance_rule="one-fifth", mean_evaluations=1, seed=3
)
CONFIGS = {
    "continuous": SMALL,
    "discrete": DISCRETE,
    "sync": SYNC,
    "slow critic": SLOW_CRITIC,
    "chain": CHAIN,
    "relu": replace(CHAIN, activation="relu", critic_activation="relu"),
    "confirmed": CONFIRMED,
}
WALL = ("wall_seconds", "waited_seconds")
LASTING = (*whole_runs.LASTING, "events.jsonl")


def lasting_bytes(folder: RunFolder) -> dict[str, bytes]:
    """Everything in a run folder that wall-clock time has no part in, the replay included."""
    metrics = repr([{k: v for k, v in row.items() if k not in WALL} for row in metrics_of(folder)])
    return {**whole_runs.lasting_bytes(folder, LASTING), "metrics.csv": metrics.encode()}


def metrics_of(folder: RunFolder) -> list[dict[str, str]]:
    with folder.metrics_csv.open(newline="") as lines:
        return list(csv.DictReader(lines))


class Made(dict[str, dict[str, bytes]]):
    """Lasting bytes of a run of each config, made when they are first asked for."""

    def __init__(self, out: Path):
        super().__init__()
        self._out = out

    def __missing__(self, name: str) -> dict[str, bytes]:
        self[name] = lasting_bytes(run_on(self._out / name, CONFIGS[name], INLINE))
        return self[name]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Made:
    made = Made(tmp_path_factory.mktemp("expected"))
    assert made["continuous"]  # with checks of shapes, which the others are made without
    return made


def kinds(folder: RunFolder) -> set[str]:
    return {row["kind"] for row in metrics_of(folder)}


def test_a_run_has_individuals_of_every_kind_and_another_seed_is_another_run(
    tmp_path: Path, expected: Any
):
    again = run_on(tmp_path / "again", SMALL, INLINE)
    assert lasting_bytes(again) == expected["continuous"]
    assert kinds(again) == {"0.0", "1.0", "2.0"}
    other = run_on(tmp_path / "other", replace(SMALL, seed=1), INLINE)
    for one in (lasting_bytes(other), expected["chain"]):
        assert one["fingerprints.csv"] != expected["continuous"]["fingerprints.csv"]


def test_the_run_of_confirmed_moves_takes_one_back(expected: Any):
    rows = ast.literal_eval(expected["confirmed"]["metrics.csv"].decode())
    moves = [(float(row["update_norm"] or 0.0) > 0.0, row["accepted"]) for row in rows]
    assert (moves.count((True, "0.0")), moves.count((True, "1.0"))) == (1, 8)


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        pytest.param("continuous", 2, marks=FAULTS),
        pytest.param("sync", 2, marks=FAULTS),
        pytest.param("slow critic", 2, marks=FAULTS),
        pytest.param("chain", 2, marks=FAULTS),
        pytest.param("confirmed", 2, marks=FAULTS),
        pytest.param("discrete", 3, marks=pytest.mark.slow),
        pytest.param("continuous", 1, marks=pytest.mark.slow),
        pytest.param("continuous", 5, marks=pytest.mark.slow),
        pytest.param("discrete", 1, marks=pytest.mark.slow),
    ],
)
def test_the_number_of_processes_changes_no_byte(
    tmp_path: Path, expected: Any, name: str, workers: int
):
    # One of more processes than logical workers may find nothing to do.
    least = min(workers, CONFIGS[name].concurrency)
    probe = GatherAt("individual-begun", least, tmp_path / "came")
    folder = run_on(tmp_path / "run", CONFIGS[name], SteadyLayout(workers=workers), probe)
    assert lasting_bytes(folder) == expected[name]
    rows = [row.split(",") for row in folder.processes_csv.read_text().splitlines()[1:]]
    assert [row[0] for row in rows].count("worker") == workers
    assert sum(row[0] == "worker" and int(row[3]) > 0 for row in rows) >= least


@pytest.mark.parametrize(
    ("name", "point"),
    [
        *(
            pytest.param("continuous", point, marks=FAULTS)
            for point in ("individual-refined", "critic-begun")
        ),
        *(
            pytest.param("continuous", point, marks=pytest.mark.slow)
            for point in ("individual-begun", "individual-ended", "mean-ended", "critic-ended")
        ),
        pytest.param("chain", "individual-ended", marks=FAULTS),
    ],
)
def test_a_worker_killed_at_any_point_of_a_job_changes_no_byte(
    tmp_path: Path, expected: Any, name: str, point: str
):
    probe = KillAt(point, tmp_path / "flag")
    folder = run_on(tmp_path / "run", CONFIGS[name], SteadyLayout(workers=2), probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder) == expected[name]


@FAULTS
def test_random_sleeps_change_no_byte(tmp_path: Path, expected: Any):
    probe = SleepAt(("individual-begun", "critic-begun", "mean-begun"), 0.02)
    folder = run_on(tmp_path / "run", SMALL, SteadyLayout(workers=2), probe)
    assert lasting_bytes(folder) == expected["continuous"]


def with_little_slack(config: AES, layout: SteadyLayout) -> SteadyRecipe:
    """A ring so tight that transitions wait for running gradient steps to finish."""
    recipe = config.build(layout)
    shape = replace(recipe.shape, slack=40)
    return replace(recipe, shape=shape, jobs=replace(recipe.jobs, shape=shape))


SLOW = pytest.mark.slow


@FAULTS
@pytest.mark.parametrize("workers", [2, pytest.param(1, marks=SLOW), pytest.param(4, marks=SLOW)])
def test_transitions_that_wait_for_room_in_the_ring_change_no_byte(tmp_path: Path, workers: int):
    config = replace(SMALL, actor_step_cost=10**9, p_desired=0.2, replay_size=60, total_steps=300)
    found: list[dict[str, bytes]] = []
    inline = (INLINE, None)
    processes = (SteadyLayout(workers=workers), SleepAt(("individual-refined",), 0.05))
    for number, (layout, probe) in enumerate((inline, processes)):
        out = tmp_path / str(number)
        folder = folder_for(out, config, layout)
        recipe = with_little_slack(config, layout)
        recipe.opened(RunRequest(folder, layout, silent(), probe_factory=probe)).run()
        found.append(lasting_bytes(folder))
    assert found[0] == found[1]


@pytest.mark.parametrize("update", cases([8, 16, 22], quick=[16]))
def test_windows_that_reach_back_over_segments_survive_a_resume(
    tmp_path: Path, update: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(queued_replay, "SEGMENT", 30)
    config = replace(SMALL, actor_step_cost=10**9, replay_size=60)
    whole = run_on(tmp_path / "whole", config, INLINE)
    folder = run_on(tmp_path / "run", config, INLINE, last_update=update)
    again, expected = (
        lasting_bytes(resume(folder, INLINE, trust=TRUSTED).folder),
        lasting_bytes(whole),
    )
    # Which old segments lie there still depends on when checkpoints were written.
    both = again.keys() & expected.keys()
    assert {name: again[name] for name in both} == {name: expected[name] for name in both}
    assert both >= {*LASTING}
    assert sum(name.startswith("replay/") for name in both) > 1


@pytest.mark.parametrize(
    ("name", "update"),
    cases(
        product(CONFIGS, [0, 1, 5, 14]),
        quick=[
            ("continuous", 5),
            ("discrete", 1),
            ("sync", 14),
            ("slow critic", 5),
            ("chain", 14),
            ("confirmed", 14),
        ],
    ),
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, expected: Any, name: str, update: int
):
    folder = run_on(tmp_path / "run", CONFIGS[name], INLINE, last_update=update)
    assert lasting_bytes(resume(folder, INLINE, trust=TRUSTED).folder) == expected[name]


def test_a_resume_computes_a_strategy_again_with_the_threads_of_the_run(tmp_path: Path):
    config = replace(WITHOUT_RANGE, strategy="thread_counts:ThreadedSearch", p_desired=0.0)
    with threadpool_limits(2, "blas"):
        whole = run_on(tmp_path / "whole", config, INLINE)
        folder = run_on(tmp_path / "run", config, INLINE, last_update=20)
        assert lasting_bytes(resume(folder, INLINE, trust=TRUSTED).folder) == lasting_bytes(whole)


def test_a_resume_takes_a_strategys_own_state_and_changes_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(external, "SNAPSHOT_TELLS", 4)
    config = replace(WITHOUT_RANGE, strategy="remembering_search:Remembers")
    whole = run_on(tmp_path / "whole", config, INLINE)
    folder = run_on(tmp_path / "run", config, INLINE, last_update=20)
    state = read_checkpoint(folder).state
    assert 0 < state.counter("snapshot_tells") <= state.counter("tells")
    resumed = resume(folder, INLINE, trust=TRUSTED).folder
    assert lasting_bytes(resumed) == lasting_bytes(whole)
    ends = [read_checkpoint(each) for each in (whole, resumed)]
    assert ends[0].fingerprint == ends[1].fingerprint


def test_a_longer_run_is_the_one_that_was_longer_from_the_start(tmp_path: Path, expected: Any):
    run = train(replace(SMALL, total_steps=120), layout=INLINE, out=tmp_path / "run")
    longer: Run = resume(run.folder, INLINE, total_steps=SMALL.total_steps, trust=TRUSTED)
    assert lasting_bytes(longer.folder) == expected["continuous"]


@pytest.mark.parametrize("call", cases([1, 4, 20, 45], quick=[20]))
def test_a_run_stopped_in_any_job_goes_on_with_the_same_bits(
    tmp_path: Path, expected: Any, call: int, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        stop_at_call(patch, call)
        with pytest.raises(Stopped):
            run_on(tmp_path / "run", SMALL, INLINE)
    folder = RunFolder.open(tmp_path / "run")
    assert lasting_bytes(resume(folder, INLINE, trust=TRUSTED).folder) == expected["continuous"]


@FAULTS
def test_verify_repeats_a_run_on_another_layout(tmp_path: Path):
    run = train(SMALL, layout=INLINE, out=tmp_path / "run")
    done, difference = verify_again(
        run.folder, 12, SteadyLayout(workers=2, tensorboard=False), TRUSTED
    )
    assert difference is None
    assert done == 12


@FAULTS
@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=SLOW)])
def test_a_run_by_the_wall_clock_is_repeated_from_its_log_of_events(tmp_path: Path, workers: int):
    config = replace(SMALL, clock="wall")
    run = train(config, layout=SteadyLayout(workers=2, tensorboard=False), out=tmp_path / "run")
    assert str(run.folder.document["promise"]).startswith("no promise: --clock wall")
    layout = SteadyLayout(workers=workers, tensorboard=False)
    done, difference = verify_again(run.folder, 10**9, layout, TRUSTED)
    assert difference is None
    assert done == len(run.metrics)


def test_what_a_full_disk_left_of_a_log_of_events_is_repeated(tmp_path: Path):
    run = train(replace(SMALL, clock="wall"), layout=INLINE, out=tmp_path / "run")
    log = tmp_path / "run" / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:20]) + lines[20][:-3])
    done, difference = verify_again(run.folder, 10**9, INLINE, TRUSTED)
    assert difference is None
    assert done == sum(row["event"] < 20 for row in run.metrics)


def test_an_environment_with_hidden_state_is_refused(tmp_path: Path):
    env = "impure_environment:HiddenState"
    config = replace(SMALL, env=env, total_steps=60, evaluate_every=0)
    with pytest.raises(ImpureEnvironment, match="has hidden state"):
        run_on(tmp_path / "run", config, INLINE)
    run_on(tmp_path / "again", replace(config, promise=False), INLINE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p_desired": 1.5}, r"--p-desired must be in \[0, 1\], got 1.5"),
        ({"mean_rule": "best"}, "--mean-rule must be one of relative"),
        (
            {"mean_rule": "rank"},
            "--variance-rule 'welford-adaptive' weighs by .* --mean-rule 'rank'",
        ),
        ({"variance_rule": "best"}, "--variance-rule must be one of welford-adaptive"),
        (
            {"variance_rule": "welford-fixed", "welford_samples": 0.5},
            r"--welford-samples must be at least 1, got 0.5",
        ),
        ({"negative_ratio": 2.0}, r"--negative-ratio must be in \[0, 1\], got 2.0"),
        ({"replay_size": 8}, "--replay-size 8 is smaller than --batch-size 16"),
        ({"concurrency": 0}, "--concurrency must be above 0"),
        ({"critic_lag": -1}, "--critic-lag must be 0 or more, got -1"),
        ({"mean_evaluations": -1}, "--mean-evaluations must be 0 or more"),
        ({"hidden": ()}, "--hidden needs layers"),
        ({"replay_events": "events.jsonl"}, "--replay-events goes with --clock wall"),
    ],
)
def test_what_cannot_work_is_refused_with_its_value(change: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)


def test_an_unknown_strategy_names_those_there_are():
    with pytest.raises(ValueError, match="--strategy must be one of async-es, snes"):
        replace(WITHOUT_RANGE, strategy="genetic").build(INLINE)


@pytest.mark.parametrize(
    "strategy",
    cases(["snes", "openai-es", "sep-cma", "nevergrad:OnePlusOne"], quick=["snes", "sep-cma"]),
)
def test_other_strategies_run_in_the_same_loop(tmp_path: Path, strategy: str):
    config = replace(WITHOUT_RANGE, strategy=strategy, total_steps=120, evaluate_every=0)
    folder = run_on(tmp_path / "run", config, INLINE)
    assert kinds(folder) == {"0.0", "1.0", "2.0"}
    told = [row for row in metrics_of(folder) if row["kind"] != "2.0"]
    both = {"mean_fitness", "improvement_over_mean", "update_norm", "accepted", "staleness_tells"}
    own = set() if strategy.startswith("nevergrad") else {"sampling_std", "condition_number"}
    for row in told:
        assert {name for name, value in row.items() if value != "nan"} >= both | own
        gain = float(row["fitness"]) - float(row["mean_fitness"])
        assert float(row["improvement_over_mean"]) == gain


def test_a_logical_worker_need_not_be_idle_and_the_critic_waits_for_warm_up(tmp_path: Path):
    rows = metrics_of(run_on(tmp_path / "run", replace(SMALL, critic_lag=0), INLINE))
    assert {row["logical_worker"] for row in rows} == {"0.0", "1.0", "2.0"}
    assert {row["idle_virtual_seconds"] for row in rows} == {"0.0"}
    warm = next(row for row in rows if int(row["env_steps"]) >= SMALL.warmup_steps)
    idle = float(rows[-1]["critic_idle_virtual_seconds"])
    assert idle >= float(warm["virtual_seconds"]) > 0.0


def steps_at_starts(folder: RunFolder, config: AES) -> list[tuple[int, int]]:
    """Env steps and critic steps that had been taken when each individual began."""
    events = [json.loads(line) for line in (folder.path / "events.jsonl").read_text().splitlines()]
    critic = config.concurrency
    found: list[tuple[int, int]] = []
    for event in events:
        before = [e for e in events if e["end"] <= event["start"]]
        counted = sum(e["env_steps"] for e in before)
        if event["worker"] != critic and counted >= config.warmup_steps:
            jobs = sum(e["worker"] == critic for e in before)
            found.append((counted, jobs * config.critic_batches))
    return found


def test_individuals_wait_for_a_critic_that_is_far_behind(tmp_path: Path):
    waiting = steps_at_starts(run_on(tmp_path / "run", SLOW_CRITIC, INLINE), SLOW_CRITIC)
    assert len(waiting) > 5
    assert all(critic > 0 and counted - critic < 40 for counted, critic in waiting)
    nobody = replace(SLOW_CRITIC, critic_lag=0)
    behind = steps_at_starts(run_on(tmp_path / "nobody", nobody, INLINE), nobody)
    assert behind[0][1] == 0
    assert max(counted - critic for counted, critic in behind) > 100


def test_without_refined_individuals_no_job_waits_for_a_critic(tmp_path: Path):
    config = replace(SLOW_CRITIC, p_desired=0.0)
    rows = metrics_of(run_on(tmp_path / "run", config, INLINE))
    assert {row["idle_virtual_seconds"] for row in rows} == {"0.0"}


def test_individuals_of_a_generation_begin_together_once_all_before_have_been_told(tmp_path: Path):
    folder = run_on(tmp_path / "run", SYNC, INLINE)
    rows = [row for row in metrics_of(folder) if row["kind"] != "2.0"]
    whole = len(rows) // SYNC.concurrency * SYNC.concurrency
    assert whole >= 4 * SYNC.concurrency
    for first in range(0, whole, SYNC.concurrency):
        generation = rows[first : first + SYNC.concurrency]
        # All were asked before any of them was told.
        assert [float(row["staleness_tells"]) for row in generation] == [0.0, 1.0, 2.0]
        assert {row["logical_worker"] for row in generation} == {"0.0", "1.0", "2.0"}
        if first:
            before = rows[first - SYNC.concurrency : first]
            ends = {row["logical_worker"]: float(row["virtual_seconds"]) for row in before}
            for row in generation:
                idle = max(ends.values()) - ends[row["logical_worker"]]
                assert float(row["idle_virtual_seconds"]) == pytest.approx(idle)


def test_a_critic_that_is_quick_keeps_up_with_the_env_steps_and_never_gets_ahead(tmp_path: Path):
    config = replace(SMALL, mean_evaluations=0, critic_step_cost=10_000)
    rows = metrics_of(run_on(tmp_path / "run", config, INLINE))
    learned = [row for row in rows if float(row["critic_steps"])]
    ahead = [float(row["critic_steps"]) - int(row["env_steps"]) for row in learned]
    assert len(ahead) > 10
    assert 0 < max(ahead) < config.critic_batches


def test_env_steps_are_counted_once_in_training_or_in_evaluation(tmp_path: Path):
    # With one logical worker no other individual has lived but is still to be told.
    folder = run_on(tmp_path / "run", replace(SMALL, concurrency=1), INLINE)
    lengths = np.loadtxt(folder.episodes_csv, delimiter=",", skiprows=1)[:, -1]
    evaluations = read_evaluations(folder.evaluations_csv)
    trained = beside = evaluated = 0.0
    for update, row in enumerate(metrics_of(folder), start=1):
        trained += lengths[update - 1]
        if row["kind"] != "2.0":
            # A pendulum earns 1 at every step but its last.
            beside += SMALL.mean_evaluations * (float(row["mean_fitness"]) + 1.0)
        # An evaluation is written down when the next one begins.
        done = [each for each in evaluations if each.update + SMALL.evaluate_every < update]
        evaluated = sum(sum(each.lengths) for each in done)
        assert int(row["env_steps"]) == trained
        assert int(row["env_steps_evaluation"]) == beside + evaluated
    assert beside > 0 < evaluated


@pytest.mark.parametrize(
    ("kind", "rules"), [(OnePlusOne, ("full-move", "one-fifth")), (ACEMRL, ("rank", "rank"))]
)
def test_the_releases_other_variants_are_methods(
    tmp_path: Path, kind: type[AES], rules: tuple[str, str]
):
    fields = {
        field.name: getattr(WITHOUT_RANGE, field.name)
        for field in dataclasses.fields(AES)
        if field.name not in ("mean_rule", "variance_rule")
    }
    config = kind(**fields)
    assert (config.mean_rule, config.variance_rule) == rules
    folder = run_on(tmp_path / "run", config, INLINE, last_update=25)
    assert len(metrics_of(folder)) == 25
    assert folder.document["method"] == method_of(config).name


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_desired_share_of_0_or_1_is_never_or_always(tmp_path: Path, share: float):
    folder = run_on(tmp_path / "run", replace(SMALL, p_desired=share, total_steps=120), INLINE)
    assert kinds(folder) == {"2.0", "1.0" if share else "0.0"}


@pytest.mark.filterwarnings("ignore:builtin type .* has no __module__:DeprecationWarning")  # Box2D
@pytest.mark.parametrize("env", cases(AES.PRESETS, quick=["HalfCheetah-v5", "Hopper-v5"]))
def test_every_preset_runs_two_individuals(env: str, tmp_path: Path):
    pytest.importorskip("Box2D" if "Lunar" in env else "mujoco")
    small = {"evaluate_episodes": 1, "evaluate_every": 0, "promise": False}
    config = AES(env=env, **{**AES.PRESETS.get(env, {}), **small})
    assert len(train(config, layout=INLINE, out=tmp_path / "run", last_update=2).metrics) == 2


def test_a_log_of_events_that_is_missing_or_too_short_is_named(tmp_path: Path):
    config = replace(SMALL, clock="wall", mean_evaluations=0)
    run = train(config, workers="inline", out=tmp_path / "run")
    with pytest.raises(ValueError, match=r"--replay-events nowhere.jsonl: there is no such file"):
        train(replace(config, replay_events="nowhere.jsonl"), out=tmp_path / "again")
    assert not (tmp_path / "again").exists()
    short = tmp_path / "short.jsonl"
    lines = (run.path / "events.jsonl").read_bytes().splitlines(keepends=True)
    short.write_bytes(b"".join(lines[:5]))
    again = replace(config, replay_events=os.path.relpath(short))
    with pytest.raises(ValueError, match="the log of events ends here"):
        train(again, workers="inline", out=tmp_path / "again")
    assert load(tmp_path / "again").config.replay_events == str(short)
