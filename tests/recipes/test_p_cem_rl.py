"""P-CEM-RL with serial and parallel critic: its promise, its clocks, and what it refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from doubles import KillAt, SleepAt

from drumline.commands.run import resume, silent, train
from drumline.commands.verify import verify_again
from drumline.recipes.cem_rl import PCEMRL, build, parallel_preset
from drumline.recipes.document import PROMISE, run_document
from drumline.recipes.layout import SteadyLayout
from drumline.recipes.steady import SteadyRun
from drumline.runs.folder import RunFolder
from drumline.runs.segments import segments_there

INLINE = SteadyLayout(pool="inline", tensorboard=False)
SERIAL = PCEMRL(
    env="InvertedPendulum-v5",
    total_steps=230,
    concurrency=3,
    population_size=6,
    elites=3,
    refined_members=2,
    initial_variance=0.1,
    damp=0.1,
    warmup_steps=40,
    replay_size=120,
    batch_size=16,
    hidden=(8,),
    critic_batches=30,
    evaluate_every=2,
    evaluate_episodes=2,
)
PARALLEL = replace(SERIAL, critic="parallel")
CONFIGS = {"serial": SERIAL, "parallel": PARALLEL}
LASTING = ("fingerprints.csv", "episodes.csv", "evaluations.csv", "events.jsonl")


def lasting_bytes(folder: RunFolder) -> dict[str, bytes]:
    """Everything in a run folder that wall-clock time has no part in, the replay included."""
    names = (*LASTING, "policy-last.safetensors", *segments_there(folder))
    return {name: (folder.path / name).read_bytes() for name in names}


def run_on(
    out: Path, config: PCEMRL, layout: SteadyLayout, probe: Any = None, **options: Any
) -> RunFolder:
    document = run_document(config, layout, PROMISE)
    folder = RunFolder.create(
        out, method="p-cem-rl", env_id=config.env, seed=config.seed, document=document
    )
    recipe = build(config, layout)
    SteadyRun(recipe, folder, layout, silent(), probe_factory=probe, **options).run()
    return folder


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    out = tmp_path_factory.mktemp("expected")
    found = {}
    for name, config in CONFIGS.items():
        run = train(config, layout=INLINE, out=out / name)
        assert run.metrics[-1]["critic_steps"] > 0 < run.metrics[-1]["actor_steps"]
        found[name] = lasting_bytes(run.folder)
    return found


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        ("parallel", 2),
        *(
            pytest.param(name, workers, marks=pytest.mark.slow)
            for name, workers in (("serial", 1), ("serial", 3), ("parallel", 1), ("parallel", 3))
        ),
    ],
)
def test_the_number_of_processes_changes_no_byte(
    tmp_path: Path, expected: Any, name: str, workers: int
):
    folder = run_on(tmp_path / "run", CONFIGS[name], SteadyLayout(workers=workers))
    assert lasting_bytes(folder) == expected[name]
    rows = [row.split(",") for row in folder.processes_csv.read_text().splitlines()[1:]]
    assert [row[0] for row in rows].count("worker") == workers


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("point", ["individual-refined", "critic-begun", "critic-ended"])
def test_a_worker_killed_at_any_point_of_a_job_changes_no_byte(
    tmp_path: Path, expected: Any, name: str, point: str
):
    probe = KillAt(point, tmp_path / "flag")
    folder = run_on(tmp_path / "run", CONFIGS[name], SteadyLayout(workers=2), probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder) == expected[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_random_sleeps_change_no_byte(tmp_path: Path, expected: Any, name: str):
    probe = SleepAt(("individual-begun", "critic-begun", "mean-begun"), 0.02)
    folder = run_on(tmp_path / "run", CONFIGS[name], SteadyLayout(workers=3), probe)
    assert lasting_bytes(folder) == expected[name]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("update", [1, 3])
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, expected: Any, name: str, update: int
):
    folder = run_on(tmp_path / "run", CONFIGS[name], INLINE, last_update=update)
    assert lasting_bytes(resume(folder, INLINE).folder) == expected[name]


def critic_steps(tmp_path: Path, **changes: Any) -> list[tuple[float, float]]:
    run = train(replace(PARALLEL, **changes), layout=INLINE, out=tmp_path / repr(changes))
    return [(row["critic_steps"], row["env_steps"]) for row in run.metrics]


def test_a_parallel_critic_takes_as_many_steps_as_its_cost_allows_or_as_env_steps(tmp_path: Path):
    quick = {"actor_step_cost": 100_000, "total_steps": 150}
    cheap = critic_steps(tmp_path, critic_step_cost=40_000, **quick)
    dear = critic_steps(tmp_path, critic_step_cost=100_000_000, **quick)
    assert cheap[-1][0] > cheap[-1][1] > dear[-1][0]
    throttled = critic_steps(tmp_path, critic_step_cost=40_000, throttle_critic=True, **quick)
    assert all(done < there + PARALLEL.critic_batches for done, there in throttled)
    assert throttled[-1][0] > 0


def test_a_serial_critic_learns_the_same_at_any_cost_and_on_any_number_of_logical_workers(
    tmp_path: Path, expected: Any
):
    config = replace(SERIAL, concurrency=2, critic_step_cost=1, actor_step_cost=10**9)
    folder = run_on(tmp_path / "run", config, INLINE)
    for name in ("fingerprints.csv", "episodes.csv", "policy-last.safetensors"):
        assert lasting_bytes(folder)[name] == expected["serial"][name]


def test_a_run_by_the_wall_clock_is_repeated_from_its_log_of_events(tmp_path: Path):
    run = train(replace(PARALLEL, clock="wall"), layout=INLINE, out=tmp_path / "run")
    assert str(run.folder.document["promise"]).startswith("no promise: --clock wall")
    assert verify_again(run.folder, 10**9, INLINE) == (len(run.metrics), None)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_on_three_workers_by_the_wall_clock_is_repeated_inline(tmp_path: Path, name: str):
    layout = SteadyLayout(workers=3, tensorboard=False)
    run = train(replace(CONFIGS[name], clock="wall"), layout=layout, out=tmp_path / "run")
    assert verify_again(run.folder, 10**9, INLINE) == (len(run.metrics), None)


@pytest.mark.parametrize(
    ("env", "critic"),
    [
        ("CartPole-v1", "serial"),
        ("Pendulum-v1", "serial"),
        ("InvertedPendulum-v5", "serial"),
        ("InvertedPendulum-v5", "parallel"),
        ("Hopper-v5", "serial"),
        *(  # cem-rl's own, which run with it
            pytest.param(f"{name}-v5", "serial", marks=pytest.mark.slow)
            for name in ("HalfCheetah", "Walker2d", "Swimmer", "Ant", "Humanoid")
        ),
    ],
)
def test_every_preset_runs_two_generations(env: str, critic: Any, tmp_path: Path):
    scale = 0.01 if env.startswith(("HalfCheetah", "Swimmer", "Ant")) else 0.5
    small: dict[str, Any] = {"evaluate_episodes": 1, "evaluate_every": 0, "promise": False}
    small |= {"population_size": 2, "elites": 1, "refined_members": 1, "warmup_steps": 0}
    small |= {"batch_size": 8, "actor_steps_scale": scale, "critic_steps_scale": scale}
    small |= {"critic": critic, "critic_batches": 4, "mean_evaluations": 0}
    small |= {"critic_step_cost": 1_000_000}
    config = PCEMRL(env=env, **{**parallel_preset(env), **small})
    run = train(config, layout=INLINE, out=tmp_path / "run", last_update=2)
    assert run.metrics[1]["critic_steps"] > 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"concurrency": 0}, "--concurrency must be above 0, got 0"),
        ({"critic_batches": 0}, "--critic-batches must be above 0, got 0"),
        ({"replay_events": "events.jsonl"}, "--replay-events goes with --clock wall"),
        ({"throttle_critic": True}, "--throttle-critic goes with --critic parallel"),
    ],
)
def test_what_cannot_work_is_refused_with_its_value(fields: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        replace(SERIAL, **fields)
