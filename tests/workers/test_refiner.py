"""Individuals that live one episode, against a plain loop over the environment."""

import re
from typing import Any

import numpy as np
import pytest
from doubles import collect
from late_fault_environment import OBSERVATIONS, REWARDS

from drumline.buffers.replay import TERMINATED, TRUNCATED
from drumline.envs.environment import EnvironmentProblem, EnvironmentSpec
from drumline.envs.make import make_environment
from drumline.errors import WorkerError
from drumline.policies.build import build_policy
from drumline.policies.heads import Head
from drumline.policies.mlp import initial_vector
from drumline.policies.spec import PolicySpec
from drumline.protocols import PublishedLayout
from drumline.runtime.inline_pool import InlinePool
from drumline.tasks import GradientJob, Live, Lived
from drumline.workers.refiner import RefinerSpec

TWO = PolicySpec(3, Head("squashed", (-1.0, -1.0), (1.0, 1.0), (2,)), (8,), normalize=False)
THREE = PolicySpec(3, Head("discrete", choices=3), (8,), normalize=False)
FROM_FIVE = PolicySpec(1, Head("discrete", choices=3, start=5), (8,), normalize=False)
ONE = PolicySpec(2, Head("squashed", (-1.0,), (1.0,), (1,)), (8,), normalize=False)
CASES: dict[str, tuple[PolicySpec, str, dict[str, Any], set[int]]] = {
    "either end": (TWO, "counting", {"continuous": True}, {TERMINATED, TRUNCATED}),
    "discrete": (THREE, "counting", {}, {TERMINATED, TRUNCATED}),
    "long": (THREE, "counting", {"longest": 900}, {TERMINATED, TRUNCATED}),
    "a limit": (THREE, "counting", {"max_episode_steps": 7}, {TERMINATED, TRUNCATED}),
    "a limit alone": (FROM_FIVE, "shifted_echo", {"max_episode_steps": 4}, {TRUNCATED}),
}
WRAPPED = EnvironmentSpec("impure_environment:limited")


class Doubling:
    """Gradient steps that double the actor at each."""

    def refine(self, actor: np.ndarray, critics: np.ndarray, job: GradientJob, progress: Any):
        return actor * 2.0**job.steps


def first_actor(policy: PolicySpec) -> np.ndarray:
    return initial_vector(policy, np.random.default_rng(3)) * 30.0


def live(spec: EnvironmentSpec, policy: PolicySpec, tasks: list[Live]) -> list[Lived]:
    published = {"actor": first_actor(policy), "critics": np.zeros(1, np.float32)}
    factory = RefinerSpec(spec, policy, lambda shared: Doubling())  # type: ignore[arg-type]
    pool = InlinePool(factory, published=PublishedLayout.of(published))
    pool.publish(1, published)
    pool.submit(tasks)
    return [done.result for done in collect(pool, len(tasks))]


def plain_life(spec: EnvironmentSpec, policy: PolicySpec, vector: np.ndarray, seed: int) -> Lived:
    """The same episode as a loop over Gymnasium has it."""
    made, actor = make_environment(spec), build_policy(policy)
    actor.load_vector(vector)
    observation, _ = made.environment.reset(seed=seed)
    rows, actions, rewards, kind = [observation], [], [], None
    while kind is None:
        action = actor.act(observation)
        observation, reward, terminated, truncated, _ = made.environment.step(action)
        rows.append(observation)
        actions.append(np.reshape(action, -1) - policy.head.start)
        rewards.append(float(reward))
        if terminated:
            kind = TERMINATED
        elif truncated or len(rewards) == made.limit:
            kind = TRUNCATED
    made.environment.close()
    arrays = (np.array(each, np.float32) for each in (rows, actions, rewards))
    return Lived(None, sum(rewards), len(rewards), kind, *arrays)


def same(one: Lived, other: Lived) -> bool:
    return all(np.array_equal(left, right) for left, right in zip(one[1:], other[1:], strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_life_is_the_episode_of_a_plain_loop_whichever_way_it_ends(name: str):
    policy, environment, options, kinds = CASES[name]
    spec = EnvironmentSpec(f"lane_environments:{environment}", options=options)
    lives = live(spec, policy, [Live(1, seed, seed, None, False) for seed in range(16)])
    for seed, lived in enumerate(lives):
        assert lived.vector is None
        assert same(lived, plain_life(spec, policy, first_actor(policy), seed))
    assert {lived.kind for lived in lives} == kinds


def test_the_limit_of_a_factorys_own_wrapper_cuts_and_terminates_nothing():
    (lived,) = live(WRAPPED, ONE, [Live(1, 0, 5, None, False)])
    assert same(lived, plain_life(WRAPPED, ONE, first_actor(ONE), 5))
    assert (lived.length, lived.kind) == (10, TRUNCATED)


def test_a_refined_individual_lives_as_what_the_gradient_steps_made_of_it():
    job = GradientJob(2, 0, 0)
    plain, refined = live(WRAPPED, ONE, [Live(1, 0, 5, None, False), Live(1, 0, 5, job, False)])
    assert refined.vector is not None
    assert np.array_equal(refined.vector, first_actor(ONE) * 4.0)
    assert same(refined, plain_life(WRAPPED, ONE, refined.vector, 5))
    assert not np.array_equal(refined.actions, plain.actions)


def test_a_warm_up_acts_at_random_within_the_bounds_whatever_the_actor():
    one, again, other = live(WRAPPED, ONE, [Live(1, 0, seed, None, True) for seed in (5, 5, 6)])
    assert same(one, again)
    assert one.kind == TRUNCATED
    assert not np.array_equal(one.actions, other.actions)
    assert np.abs(one.actions).max() <= 1.0
    assert np.ptp(one.actions) > 0.5


@pytest.mark.parametrize("fault", [*OBSERVATIONS, *REWARDS])
def test_a_fault_in_a_later_life_is_named_with_its_place(fault: str):
    policy = PolicySpec(3, ONE.head, (8,), normalize=False)
    spec = EnvironmentSpec("late_fault_environment:Late", options={"fault": fault})
    _, said = {**OBSERVATIONS, **REWARDS}[fault]
    with pytest.raises(WorkerError) as failure:
        live(spec, policy, [Live(1, number, 5 + number, None, False) for number in range(2)])
    told = failure.value.cause
    assert isinstance(told, EnvironmentProblem)
    assert re.search(f"^the (observation|reward) is {said}", str(told))
    assert "in late_fault_environment:Late, episode seed 6, step 2" in str(told)
