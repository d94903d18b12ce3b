"""TD3's steps against the same algorithm written with modules, autograd and torch's Adam."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from algorithms.td3_examples import ALL, CONTINUOUS, DISCRETE, PlainTD3, begun, draws, filled, flat
from algorithms.td3_worker import Refine, TD3WorkerSpec, Train
from campaigns import FAULTS
from doubles import collect

from drumline import seeding
from drumline.algorithms.first_critics import first_critics_state
from drumline.algorithms.learning_state import UnfiniteLoss
from drumline.algorithms.td3 import TD3, TD3Jobs, initial_actor, initial_critics
from drumline.algorithms.td3_steps import TD3Settings
from drumline.policies.heads import Head
from drumline.protocols import PublishedLayout
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.shared_arrays import SharedArrays
from drumline.tasks import GradientJob
from drumline.types import State

JOB = GradientJob(steps=7, watermark=60, seed=5)


def close(one: np.ndarray, other: np.ndarray) -> None:
    # Adam divides by √v: where a gradient is tiny, rounding is a share of the learning rate.
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("name", ALL)
def test_the_online_learner_follows_the_plain_algorithm(name: str):
    settings = ALL[name]
    learner = TD3(settings, draws(settings), seed=1)
    plain = PlainTD3(settings, learner.actor.copy(), learner.critics.copy())
    learner.begin(0)
    key = seeding.key(1, "gradient-steps", 0)
    same = draws(settings)
    same.begin(seeding.generator(key, "minibatch-rows"), seeding.generator(key, "minibatch-noise"))
    loss = value = 0.0
    for step in range(1, 9):
        acted = learner.learn(60)
        batch = same.draw(60)
        loss += plain.critic_step(batch)
        assert acted == (step % settings.policy_delay == 0)
        if acted:
            value += plain.actor_step(batch.observations[0])
            plain.follow()
    close(learner.actor, flat(plain.actor))
    for k, critic in enumerate(plain.critics):
        close(learner.critics[k], flat(critic))
    state = learner.state()
    close(state.tensors["target_actor"], flat(plain.target_actor))
    close(state.tensors["target_critics"][-1], flat(plain.target_critics[-1]))
    metrics = learner.metrics()
    np.testing.assert_allclose(metrics["critic_loss"], loss / 8, rtol=1e-4)
    actor_steps = 8 // settings.policy_delay
    np.testing.assert_allclose(metrics["policy_value"], value / actor_steps, rtol=1e-3, atol=1e-5)


def test_a_block_without_gradient_steps_has_no_loss():
    learner = TD3(ALL["continuous"], draws(ALL["continuous"]), seed=1)
    learner.begin(0)
    assert np.isnan([learner.metrics()[name] for name in ("critic_loss", "policy_value")]).all()
    learner.learn(60)
    assert np.isfinite(learner.metrics()["critic_loss"])


@pytest.mark.parametrize("name", ["continuous", "discrete"])
def test_refining_climbs_the_first_critic_and_leaves_it_alone(name: str):
    settings = ALL[name]
    actor, critics = initial_actor(settings, 1), initial_critics(settings, 2)
    before = critics.copy()
    refined = TD3Jobs(settings, draws(settings)).refine(actor, critics, JOB)
    plain, same = PlainTD3(settings, actor, critics), draws(settings)
    same.begin(seeding.generator(5, "minibatch-rows"), seeding.generator(5, "minibatch-noise"))
    for _ in range(JOB.steps):
        plain.actor_step(same.draw_observations(60)[0])
    close(refined, flat(plain.actor))
    assert np.array_equal(critics, before)


@pytest.mark.parametrize("name", ["continuous", "discrete", "unscaled"])
def test_a_critic_job_moves_the_critics_while_the_policy_stands_still(name: str):
    settings = ALL[name]
    actor, critics = initial_actor(settings, 1), initial_critics(settings, 2)
    jobs = TD3Jobs(settings, draws(settings))
    state, metrics = jobs.train_critics(first_critics_state(critics), actor, JOB)
    plain, same = PlainTD3(settings, actor, critics), draws(settings)
    same.begin(seeding.generator(5, "minibatch-rows"), seeding.generator(5, "minibatch-noise"))
    losses = []
    for _ in range(JOB.steps):
        losses.append(plain.critic_step(same.draw(60)))
        plain.follow()  # of the actor, too: it did not move
    for k in range(settings.critics):
        close(state.tensors["critics"][k], flat(plain.critics[k]))
        close(state.tensors["target_critics"][k], flat(plain.target_critics[k]))
    np.testing.assert_allclose(metrics["critic_loss"], np.mean(losses), rtol=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["continuous", "discrete"])
def test_jobs_are_pure_functions_of_their_arguments(name: str, precision: str):
    settings = replace(ALL[name], precision=precision)  # pyright: ignore[reportArgumentType]
    actor, critics = initial_actor(settings, 1), initial_critics(settings, 2)
    jobs = TD3Jobs(settings, draws(settings))
    start = first_critics_state(critics)
    first = jobs.refine(actor, critics, JOB)
    state, _ = jobs.train_critics(start, actor, JOB)
    jobs.refine(actor + 1.0, critics, JOB._replace(seed=6))
    assert np.array_equal(jobs.refine(actor, critics, JOB), first)
    again, _ = TD3Jobs(settings, draws(settings)).train_critics(start, actor, JOB)
    for key, tensor in state.tensors.items():
        assert np.array_equal(again.tensors[key], tensor)
    assert not np.array_equal(jobs.refine(actor, critics, JOB._replace(seed=6)), first)


def test_two_critic_jobs_in_a_row_keep_the_optimiser():
    settings = CONTINUOUS
    actor, start = initial_actor(settings, 1), first_critics_state(initial_critics(settings, 2))
    jobs = TD3Jobs(settings, draws(settings))
    half, _ = jobs.train_critics(start, actor, JOB)
    whole, _ = jobs.train_critics(half, actor, JOB)
    assert (half.counters["critic_steps"], whole.counters["critic_steps"]) == (7, 14)
    forgotten = State({**half.tensors, **_moments(start)}, start.counters)
    other, _ = jobs.train_critics(forgotten, actor, JOB)
    assert not np.array_equal(other.tensors["critics"], whole.tensors["critics"])


def _moments(state: State) -> dict[str, np.ndarray]:
    return {name: array for name, array in state.tensors.items() if "adam" in name}


@pytest.mark.parametrize("name", ALL)
def test_a_loaded_learner_goes_on_with_the_same_bits(name: str):
    settings = ALL[name]
    first, second = (TD3(settings, draws(settings), 1) for _ in range(2))
    for learner, watermark in ((first, 60), (second, 30)):
        learner.begin(0)
        for _ in range(5):
            learner.learn(watermark)
    second.load(first.state())
    for learner in (first, second):
        learner.begin(1)
        for _ in range(5):
            learner.learn(55)
    one, other = first.state(), second.state()
    assert one.counters == other.counters
    for key, tensor in one.tensors.items():
        assert np.array_equal(other.tensors[key], tensor), key


@pytest.mark.parametrize("name", ALL)
def test_learners_that_take_turns_in_one_process_keep_their_bits(name: str):
    settings = ALL[name]
    states: list[State] = []
    for seed in (1, 2):
        learner = TD3(settings, draws(settings), seed)
        learner.begin(0)
        for _ in range(seed * 3):
            learner.learn(60)
        states.append(learner.state())
    jobs = TD3Jobs(settings, draws(settings))
    for state in (*states, states[0]):
        one, metrics = jobs.learn(state, JOB)
        other, alone = TD3Jobs(settings, draws(settings)).learn(state, JOB)
        assert (one.counters, metrics) == (other.counters, alone)
        for key, tensor in other.tensors.items():
            assert np.array_equal(one.tensors[key], tensor), key


def test_a_state_with_a_part_missing_is_refused():
    learner = TD3(CONTINUOUS, draws(CONTINUOUS), 1)
    state = learner.state()
    for name in (*state.tensors, *state.counters):
        less = State(
            {k: v for k, v in state.tensors.items() if k != name},
            {k: v for k, v in state.counters.items() if k != name},
        )
        with pytest.raises(ValueError, match=name):
            learner.load(less)


def test_a_window_is_all_that_a_job_sees():
    writer = filled(CONTINUOUS)
    actor, critics = initial_actor(CONTINUOUS, 1), initial_critics(CONTINUOUS, 2)
    jobs = TD3Jobs(CONTINUOUS, draws(CONTINUOUS, writer))
    before = jobs.refine(actor, critics, JOB._replace(watermark=40))
    writer.replay.observations[40:60] = 7.0
    assert np.array_equal(jobs.refine(actor, critics, JOB._replace(watermark=40)), before)
    assert not np.array_equal(jobs.refine(actor, critics, JOB), before)


def test_a_critic_that_is_not_finite_is_noticed():
    actor, critics = initial_actor(CONTINUOUS, 1), initial_critics(CONTINUOUS, 2)
    critics[0, 3] = np.nan
    jobs = TD3Jobs(CONTINUOUS, draws(CONTINUOUS))
    with pytest.raises(UnfiniteLoss, match="7 gradient steps"):
        jobs.refine(actor, critics, JOB)
    with pytest.raises(UnfiniteLoss, match="7 gradient steps"):
        jobs.train_critics(first_critics_state(critics), actor, JOB)


def test_initial_parameters_depend_on_the_seed_and_differ_between_critics():
    critics = initial_critics(CONTINUOUS, 2)
    assert critics.dtype == np.float32
    assert not np.array_equal(critics[0], critics[1])
    assert np.array_equal(critics, initial_critics(CONTINUOUS, 2))
    assert not np.array_equal(initial_actor(CONTINUOUS, 1), initial_actor(CONTINUOUS, 2))


def test_actions_that_are_neither_squashed_nor_discrete_are_refused():
    with pytest.raises(ValueError, match="not continuous"):
        TD3Settings(4, Head("continuous", (-1.0,), (1.0,), (1,)))


def test_a_replay_smaller_than_a_batch_is_refused():
    with pytest.raises(ValueError, match=r"a replay of 100 is smaller than a batch \(200\)"):
        draws(replace(CONTINUOUS, batch_size=200))


def test_blocks_of_draws_make_one_stream():
    minibatches = begun(draws(DISCRETE))
    seen = [minibatches.draw(60).observations.clone() for _ in range(130)]
    assert len({tensor.numpy().tobytes() for tensor in seen}) == 130
    again = begun(draws(DISCRETE))
    assert all(torch.equal(again.draw(60).observations, tensor) for tensor in seen)


@FAULTS
def test_a_pools_workers_read_the_shared_replay_and_return_the_same_bits():
    settings, source = CONTINUOUS, filled(CONTINUOUS)
    shape = source.replay.shape
    shared = SharedArrays.create(PublishedLayout(shape.layout()))
    for name in ("observations", "actions", "rewards", "terminated", "following"):
        shared.arrays[f"replay/{name}"][:] = getattr(source.replay, name)
    actor, critics = initial_actor(settings, 1), initial_critics(settings, 2)
    state = first_critics_state(critics)
    published = {"actor": actor, **state.tensors}
    jobs = [JOB._replace(seed=seed) for seed in range(3)]
    pool = ProcessPool(
        TD3WorkerSpec(settings, shape),
        size=2,
        published=PublishedLayout.of(published),
        shared=shared,
    )
    try:
        pool.publish(0, published)
        pool.submit([*(Refine(0, job) for job in jobs), Train(0, JOB)])
        done = collect(pool, 4)
    finally:
        pool.close()
    here = TD3Jobs(settings, draws(settings, source))
    for item in done:
        if isinstance(item.task, Refine):
            expected = here.refine(actor, critics, item.task.job)
        else:
            expected = here.train_critics(state, actor, JOB)[0].tensors["critics"]
        assert np.array_equal(item.result, expected)
