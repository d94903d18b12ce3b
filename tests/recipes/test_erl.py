"""ERL against its authors' serial loop, its presets, and what it refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from whole_runs import SMALL_ERL as SMALL
from whole_runs import run_on

from drumline import seeding
from drumline.algorithms.individuals import live
from drumline.algorithms.td3 import TD3
from drumline.algorithms.td3_steps import TD3Settings
from drumline.api.run import train
from drumline.buffers.minibatches import Minibatches
from drumline.buffers.replay import TERMINATED, Replay, ReplayWriter, one_episode
from drumline.envs.make import make_environment
from drumline.policies.build import build_policy
from drumline.recipes.erl import ERL, first_learner, genetic_algorithm
from drumline.recipes.learned_actor import learned_actor
from drumline.runs.checkpoint import read_checkpoint
from drumline.training.layout import Layout

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

INLINE = Layout(pool="inline", tensorboard=False)


def serial_erl(config: ERL, generations: int) -> dict[str, np.ndarray]:
    """ERL as its authors' loop has it: one process, one thing after the other."""
    recipe = config.build(INLINE)
    arrays = {name: np.zeros(size, kind) for name, (size, kind) in recipe.shape.layout().items()}
    writer, actor = ReplayWriter(Replay(recipe.shape, arrays)), learned_actor(config)
    settings = TD3Settings(**recipe.jobs.settings)  # type: ignore[arg-type]
    draws = Minibatches(writer.replay, config.batch_size)
    learner, strategy = TD3(settings, draws, 0), genetic_algorithm(config, actor)
    learner.load(first_learner(actor, (5, *config.critic_hidden, 1), config.seed))
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
        for env in sorted(ERL.PRESETS)
    ],
)
def test_every_preset_runs_two_generations(env: str, tmp_path: Path):
    scale = 0.01 if env.startswith(("HalfCheetah", "Swimmer", "Ant")) else 0.2
    small: dict[str, Any] = {"evaluate_episodes": 1, "evaluate_every": 0, "promise": False}
    small |= {"population_size": 2, "episodes_per_member": 1, "batch_size": 4}
    config = ERL(env=env, **{**ERL.PRESETS.get(env, {}), **small, "gradient_steps_scale": scale})
    run = train(config, layout=INLINE, out=tmp_path / "run", last_update=2)
    assert run.metrics[1]["gradient_steps"] > 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"population_size": 1}, "--population-size must be 2 or more, got 1"),
        (
            {"elite_fraction": 1.0},
            "--elite-fraction 1.0 of --population-size 4 leaves no member",
        ),
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
        replace(SMALL, env="CartPole-v1").build(INLINE)
