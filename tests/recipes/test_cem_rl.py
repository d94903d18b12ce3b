"""CEM-RL against its authors' serial loop, its presets, and what it refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from whole_runs import SMALL_CEM_RL as SMALL
from whole_runs import run_on

from drumline import seeding
from drumline.algorithms.first_critics import first_critics
from drumline.api.run import train
from drumline.buffers.replay import TERMINATED, Replay, ReplayWriter, one_episode
from drumline.envs.make import make_environment
from drumline.errors import ImpureEnvironment
from drumline.policies.build import build_policy
from drumline.recipes.cem import search
from drumline.recipes.cem_rl import CEMRL
from drumline.recipes.learned_actor import learned_actor
from drumline.runs.checkpoint import read_checkpoint
from drumline.tasks import GradientJob
from drumline.training.layout import Layout
from drumline.types import Individual

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

INLINE = Layout(pool="inline", tensorboard=False)


def serial_cem_rl(config: CEMRL, generations: int) -> dict[str, np.ndarray]:
    """CEM-RL as its authors' loop has it: one process, one thing after the other."""
    recipe = config.build(INLINE)
    arrays = {name: np.zeros(size, kind) for name, (size, kind) in recipe.shape.layout().items()}
    writer, jobs = ReplayWriter(Replay(recipe.shape, arrays)), recipe.jobs(arrays)
    actor = learned_actor(config)
    strategy = search(config, actor.first_parameters(config.seed))
    critics = first_critics((5, *config.hidden, 1), config.seed)
    environment, policy = (
        make_environment(recipe.environment).environment,
        build_policy(actor.policy),
    )
    env_steps = actor_steps = turns = 0
    size, refined = config.population_size, config.refined_members

    def seed(role: str, number: int) -> int:
        return seeding.seeds(config.seed, 1, role, number)[0]

    for _ in range(generations):
        candidates = strategy.ask(size)
        vectors = [candidate.vector for candidate in candidates]
        window = writer.watermark
        for i in range(refined if env_steps >= config.warmup_steps else 0):
            job = GradientJob(actor_steps // refined, window, seed("critic-job", turns))
            critics, _ = jobs.train_critics(critics, vectors[i], job)
            job = GradientJob(actor_steps, window, seed("refine-job", candidates[i].index))
            vectors[i] = jobs.refine(vectors[i], critics.tensors["critics"], job)
            turns += 1
        actor_steps, told = 0, []
        for candidate, vector in zip(candidates, vectors, strict=True):
            policy.load_vector(vector)
            observation, _ = environment.reset(seed=seed("individual-episode", candidate.index))
            rows, actions, rewards, ended = [observation], [], [], False
            while not ended:
                actions.append(policy.act(observation))
                observation, reward, ended, _, _ = environment.step(actions[-1])
                rows.append(observation)
                rewards.append(float(reward))
            episode = (np.array(each, np.float32) for each in (rows, actions, rewards))
            writer.append(one_episode(*episode, TERMINATED))
            told.append(Individual(candidate.index, candidate.version, vector, sum(rewards)))
            actor_steps += len(rewards)
        strategy.tell(told)
        env_steps += actor_steps
    environment.close()
    return {**strategy.published(), **{f"critics/{k}": v for k, v in critics.tensors.items()}}


def test_what_is_learned_is_what_the_authors_serial_loop_learns(tmp_path: Path):
    expected = serial_cem_rl(SMALL, 4)
    folder = run_on(tmp_path / "run", SMALL, INLINE, last_update=4)
    state = read_checkpoint(folder, None).state
    assert state.counters["critic_steps"] > 0
    for name, array in expected.items():
        assert np.array_equal(state.tensors[name], array), name


def test_a_generation_is_told_with_or_without_its_mean(tmp_path: Path):
    without = replace(SMALL, mean_evaluations=0, total_steps=200)
    run = train(without, layout=INLINE, out=tmp_path / "run")
    beside = train(replace(without, mean_evaluations=3), layout=INLINE, out=tmp_path / "beside")
    lengths = len(run.policy.vector), len(beside.policy.vector)
    assert lengths[0] == lengths[1]
    assert np.array_equal(run.policy.vector, beside.policy.vector)
    assert all(np.isnan(row["mean_fitness"]) for row in run.metrics)
    assert all(row["mean_fitness"] > 0 for row in beside.metrics)
    assert run.metrics[-1]["env_steps"] == beside.metrics[-1]["env_steps"]


def test_gradient_steps_follow_the_env_steps_of_the_generation_before(tmp_path: Path):
    run = train(SMALL, layout=INLINE, out=tmp_path / "run")
    before = critic_steps = 0.0
    for row in run.metrics:
        steps = row["episode_length_mean"] * SMALL.population_size
        if row["env_steps"] - steps >= SMALL.warmup_steps:
            assert row["actor_steps"] == before
            critic_steps += before // SMALL.refined_members * SMALL.refined_members
        assert row["critic_steps"] == critic_steps
        before = steps
    assert critic_steps > 0


def test_a_random_warm_up_is_told_to_nobody(tmp_path: Path):
    config = replace(SMALL, warmup="random", warmup_steps=60, total_steps=200)
    run = train(config, layout=INLINE, out=tmp_path / "run")
    kinds = [row["warm_up"] for row in run.metrics]
    assert kinds == sorted(kinds, reverse=True)
    assert {*kinds} == {0.0, 1.0}
    assert all(np.isnan(row["update_norm"]) == row["warm_up"] for row in run.metrics)


def test_discrete_actions_and_no_refined_members_run(tmp_path: Path):
    discrete = replace(SMALL, env="CartPole-v1", total_steps=400)
    assert train(discrete, layout=INLINE, out=tmp_path / "a").metrics[-1]["critic_steps"] > 0
    plain = replace(SMALL, refined_members=0, total_steps=150)
    assert train(plain, layout=INLINE, out=tmp_path / "b").metrics[-1]["critic_steps"] == 0


def test_an_environment_with_hidden_state_is_refused(tmp_path: Path):
    config = replace(SMALL, env="impure_environment:HiddenState", total_steps=60, evaluate_every=0)
    with pytest.raises(ImpureEnvironment, match="has hidden state"):
        train(config, layout=INLINE, out=tmp_path / "run")


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(env, marks=() if env in ("Hopper-v5", "Pendulum-v1") else pytest.mark.slow)
        for env in sorted(CEMRL.PRESETS)
    ],
)
def test_every_preset_runs_two_generations(env: str, tmp_path: Path):
    scale = 0.01 if env.startswith(("HalfCheetah", "Swimmer", "Ant")) else 0.5
    small: dict[str, Any] = {"evaluate_episodes": 1, "evaluate_every": 0, "promise": False}
    small |= {"population_size": 2, "elites": 1, "refined_members": 1, "warmup_steps": 0}
    small |= {"batch_size": 8, "actor_steps_scale": scale, "critic_steps_scale": scale}
    config = CEMRL(env=env, **{**CEMRL.PRESETS.get(env, {}), **small})
    run = train(config, layout=INLINE, out=tmp_path / "run", last_update=2)
    assert run.metrics[1]["critic_steps"] > 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"refined_members": 7}, "--refined-members must be 0 to --population-size 6, got 7"),
        ({"replay_size": 8}, "--replay-size 8 is smaller than --batch-size 16"),
        ({"elites": 7}, "--elites must be 1 to --population-size 6, got 7"),
        ({"mean_evaluations": -1}, "--mean-evaluations must be 0 or more, got -1"),
        ({"actor_steps_scale": 0.0}, "--actor-steps-scale must be above 0, got 0.0"),
        ({"polyak": 1.5}, r"--polyak must be in \[0, 1\], got 1.5"),
        ({"hidden": ()}, "--hidden needs layers"),
    ],
)
def test_what_cannot_work_is_refused_with_its_value(fields: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **fields)
