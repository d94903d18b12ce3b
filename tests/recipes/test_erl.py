"""ERL's promise: layouts, kills, sleeps, stops and resumes change no byte; what it refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doubles import KillAt, SleepAt
from stopping import stop_at_call

from drumline import seeding
from drumline.algorithms.individuals import live
from drumline.algorithms.td3 import TD3
from drumline.algorithms.td3_steps import TD3Settings
from drumline.buffers.minibatches import Minibatches
from drumline.buffers.replay import TERMINATED, Replay, ReplayWriter, one_episode
from drumline.commands.run import resume, silent, train
from drumline.commands.verify import verify_again
from drumline.envs.make import make_environment
from drumline.policies.spec import build_policy
from drumline.recipes.document import PROMISE, run_document
from drumline.recipes.erl import ERL, PRESETS, build, first_learner, genetic_algorithm, preset
from drumline.recipes.layout import Layout
from drumline.recipes.learned_actor import learned_actor
from drumline.recipes.steady import SteadyRun
from drumline.recipes.stopped import Stopped
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunFolder
from drumline.runs.segments import segments_there

INLINE = Layout(pool="inline", tensorboard=False)
SMALL = ERL(
    env="InvertedPendulum-v5",
    total_steps=260,
    population_size=4,
    episodes_per_member=2,
    elite_fraction=0.3,
    sync_every=2,
    warmup_steps=60,
    replay_size=120,
    batch_size=8,
    hidden=(8,),
    critic_hidden=(8, 6),
    learning_rate=1e-2,
    critic_learning_rate=1e-2,
    mean_evaluations=2,
    evaluate_every=2,
    evaluate_episodes=2,
)
LASTING = ("fingerprints.csv", "episodes.csv", "evaluations.csv", "policy-last.safetensors")


def lasting_bytes(folder: RunFolder) -> dict[str, bytes]:
    """Everything in a run folder that wall-clock time has no part in, the replay included."""
    names = (*LASTING, *segments_there(folder))
    return {name: (folder.path / name).read_bytes() for name in names}


def run_on(out: Path, config: ERL, layout: Layout, probe: Any = None, **options: Any) -> RunFolder:
    document = run_document(config, layout, PROMISE)
    folder = RunFolder.create(
        out, method="erl", env_id=config.env, seed=config.seed, document=document
    )
    recipe = build(config, layout)
    SteadyRun(recipe, folder, layout, silent(), probe_factory=probe, **options).run()
    return folder


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    run = train(SMALL, layout=INLINE, out=tmp_path_factory.mktemp("expected") / "run")
    assert len(run.metrics) > 3
    assert run.metrics[-1]["injections"] > 0 < run.metrics[-1]["gradient_steps"]
    return lasting_bytes(run.folder)


@pytest.mark.parametrize(
    "workers", [2, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 3))]
)
def test_the_number_of_processes_changes_no_byte(tmp_path: Path, expected: Any, workers: int):
    folder = run_on(tmp_path / "run", SMALL, Layout(workers=workers))
    assert lasting_bytes(folder) == expected
    rows = [row.split(",") for row in folder.processes_csv.read_text().splitlines()[1:]]
    assert [row[0] for row in rows].count("worker") == workers
    assert all(int(row[3]) > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["individual-ended", "exploration-begun", "learner-begun", "learner-ended"]
)
def test_a_worker_killed_at_any_point_of_a_job_changes_no_byte(
    tmp_path: Path, expected: Any, point: str
):
    folder = run_on(tmp_path / "run", SMALL, Layout(workers=2), KillAt(point, tmp_path / "flag"))
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder) == expected


@pytest.mark.slow
def test_random_sleeps_change_no_byte(tmp_path: Path, expected: Any):
    probe = SleepAt(("individual-begun", "exploration-begun", "mean-begun"), 0.02)
    assert lasting_bytes(run_on(tmp_path / "run", SMALL, Layout(workers=3), probe)) == expected


@pytest.mark.parametrize("update", [0, 1, 3])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, expected: Any, update: int):
    folder = run_on(tmp_path / "run", SMALL, INLINE, last_update=update)
    assert lasting_bytes(resume(folder, INLINE).folder) == expected


@pytest.mark.parametrize("call", [5, 33])
def test_a_run_stopped_in_any_job_goes_on_with_the_same_bits(
    tmp_path: Path, expected: Any, call: int, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        stop_at_call(patch, call)
        with pytest.raises(Stopped):
            run_on(tmp_path / "run", SMALL, INLINE)
    folder = RunFolder.open(tmp_path / "run")
    assert lasting_bytes(resume(folder, INLINE).folder) == expected


def test_a_longer_run_is_the_one_that_was_longer_from_the_start(tmp_path: Path, expected: Any):
    run = train(replace(SMALL, total_steps=100), layout=INLINE, out=tmp_path / "run")
    longer = resume(run.folder, INLINE, total_steps=SMALL.total_steps)
    assert lasting_bytes(longer.folder) == expected


def test_verify_repeats_a_run_and_another_seed_is_another_run(tmp_path: Path, expected: Any):
    run = train(replace(SMALL, seed=1), layout=INLINE, out=tmp_path / "run", last_update=3)
    assert verify_again(run.folder, 3, INLINE) == (3, None)
    assert lasting_bytes(run.folder)["fingerprints.csv"] not in expected["fingerprints.csv"]


def serial_erl(config: ERL, generations: int) -> dict[str, np.ndarray]:
    """ERL as its authors' loop has it: one process, one thing after the other."""
    recipe = build(config, INLINE)
    arrays = {name: np.zeros(size, kind) for name, (size, kind) in recipe.shape.layout().items()}
    writer, actor = ReplayWriter(Replay(recipe.shape, arrays)), learned_actor(config)
    settings = TD3Settings(**recipe.jobs.settings)  # type: ignore[arg-type]
    draws = Minibatches(writer.replay, config.batch_size)
    learner, strategy = TD3(settings, draws, 0), genetic_algorithm(config, actor.sizes)
    learner.load(first_learner(actor.sizes, (5, *config.critic_hidden, 1), config.seed))
    environment, policy = (
        make_environment(recipe.environment).environment,
        build_policy(actor.policy),
    )
    half, env_steps, episodes = np.float32(3.0), 0, 0

    def lives(vector: np.ndarray, noisy: bool) -> tuple[float, int]:
        nonlocal episodes
        seed = seeding.seeds(config.seed, 1, "individual-episode", episodes)[0]
        rng, state = seeding.generator(seed, "exploration"), np.zeros(1)
        policy.load_vector(vector)
        observation, _ = environment.reset(seed=seed)
        rows, actions, rewards, ended = [observation], [], [], False
        while not ended:
            action = policy.act(observation)
            if noisy:
                state = state + config.noise_std * rng.standard_normal(1) - 0.15 * state
                noise = (config.noise_scale * state * half).astype(np.float32)
                action = np.clip(action + noise, -half, half)
            actions.append(action)
            observation, reward, ended, _, _ = environment.step(action)
            rows.append(observation)
            rewards.append(float(reward))
        episode = (np.array(each, np.float32) for each in (rows, actions, rewards))
        writer.append(one_episode(*episode, TERMINATED))
        episodes += 1
        return sum(rewards), len(rewards)

    for generation in range(generations):
        out, fitness, steps = strategy.ask(config.population_size), [], 0
        for candidate in out:
            both = [lives(candidate.vector, False) for _ in range(config.episodes_per_member)]
            fitness.append(sum(total for total, _ in both) / len(both))
            steps += sum(length for _, length in both)
        steps += lives(learner.actor, True)[1]
        env_steps += steps
        strategy.tell([live(c, value) for c, value in zip(out, fitness, strict=True)])
        if env_steps >= config.warmup_steps and writer.watermark >= 5 * config.batch_size:
            learner.begin_job(seeding.seeds(config.seed, 1, "learner-job", generation)[0])
            for _ in range(steps):
                learner.learn(writer.watermark)
            if (generation + 1) % config.sync_every == 0:
                strategy.inject(learner.actor)
    environment.close()
    learned = {f"learner/{name}": array for name, array in learner.state().tensors.items()}
    return {"population": strategy.population, "parameters": strategy.parameters, **learned}


def test_what_is_learned_is_what_the_authors_serial_loop_learns(tmp_path: Path):
    folder = run_on(tmp_path / "run", SMALL, INLINE, last_update=4)
    state = read_checkpoint(folder, None).state
    assert state.counters["critic_steps"] > 0 < state.counters["injections"]
    for name, array in serial_erl(SMALL, 4).items():
        assert np.array_equal(state.tensors[name], array), name


def test_evaluating_the_champion_changes_nothing_that_is_learned(tmp_path: Path):
    without = replace(SMALL, mean_evaluations=0, total_steps=150)
    run = train(without, layout=INLINE, out=tmp_path / "run")
    beside = train(replace(without, mean_evaluations=3), layout=INLINE, out=tmp_path / "beside")
    assert np.array_equal(run.policy.vector, beside.policy.vector)
    assert all(np.isnan(row["mean_fitness"]) for row in run.metrics)
    assert all(row["mean_fitness"] > 0 for row in beside.metrics)


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(env, marks=() if env in ("Hopper-v5", "Pendulum-v1") else pytest.mark.slow)
        for env in sorted(PRESETS)
    ],
)
def test_every_preset_runs_two_generations(env: str, tmp_path: Path):
    scale = 0.01 if env.startswith(("HalfCheetah", "Swimmer", "Ant")) else 0.2
    small: dict[str, Any] = {"evaluate_episodes": 1, "evaluate_every": 0, "promise": False}
    small |= {"population_size": 2, "episodes_per_member": 1, "batch_size": 4}
    config = ERL(env=env, **{**preset(env), **small, "gradient_steps_scale": scale})
    run = train(config, layout=INLINE, out=tmp_path / "run", last_update=2)
    assert run.metrics[1]["gradient_steps"] > 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"population_size": 1}, "--population-size must be 2 or more, got 1"),
        ({"elite_fraction": 1.0}, "--elite-fraction 1.0 of --population-size 4 leaves nobody"),
        ({"replay_size": 4}, "--replay-size 4 is smaller than --batch-size 8"),
        ({"sync_every": 0}, "--sync-every must be above 0, got 0"),
        ({"noise_std": -1.0}, "--noise-std must be 0 or more, got -1.0"),
        ({"critic_hidden": ()}, "--critic-hidden needs layers"),
    ],
)
def test_what_cannot_work_is_refused_with_its_value(fields: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **fields)


def test_discrete_actions_are_refused_with_methods_that_take_them():
    with pytest.raises(ValueError, match=r"CartPole-v1 has 2 discrete actions.* train aes"):
        build(replace(SMALL, env="CartPole-v1"), INLINE)
