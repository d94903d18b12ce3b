"""Gradient steps that come with an env step, counted one by one, and schedules played through."""

import heapq
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional.learning_speed import (
    LearningCosts,
    StepWork,
    aes_seconds,
    aes_work,
    cem_rl_seconds,
    cem_rl_work,
    erl_seconds,
    erl_work,
    fastest,
    learning_costs,
    td3_seconds,
    td3_work,
)

COSTS = LearningCosts(environment=3.0, forward=1.0, critic_steps=2.0, actor_steps=10.0)
SECONDS = st.floats(0.0, 10.0)


def test_aes_rls_million_env_steps_take_a_million_critic_and_five_million_actor_steps():
    assert aes_work(5, 0.5, 10, 1.0) == StepWork(6.0, 1.0, 5.0)
    assert aes_work(0, 0.1, 10, 0.5) == StepWork(1.0, 1.0, 0.5)
    assert aes_work(5, 0.0, 10, 1.0) == StepWork(6.0, 0.0, 0.0)


def test_aes_rls_work_is_that_of_its_individuals_counted_one_by_one():
    length, counted, env_steps, actor_steps = 7, 0, 0, 0
    for individual in range(100):
        if individual % 4 == 0:
            actor_steps += round(0.5 * sum([length] * 10))
        counted += length
        env_steps += length * (1 + 3)
    work = aes_work(3, 0.25, 10, 0.5)
    assert (work.env_steps, work.actor_steps) == (env_steps / counted, actor_steps / counted)


def test_half_of_cem_rls_members_take_the_generations_steps_each():
    assert cem_rl_work(10, 5, 0, 1.0, 1.0) == StepWork(1.0, 1.0, 5.0)
    assert cem_rl_work(10, 5, 1, 0.5, 2.0) == StepWork(1.1, 2.0, 2.5)
    assert cem_rl_work(10, 0, 0, 1.0, 1.0) == StepWork(1.0, 0.0, 0.0)


def test_erl_and_td3_take_a_critic_step_per_env_step():
    assert erl_work(11, 0, 1.0) == StepWork(1.0, 1.0, 1.0)
    assert erl_work(10, 5, 2.0) == StepWork(1.5, 2.0, 2.0)
    assert td3_work(2) == StepWork(1.0, 1.0, 0.5)


def test_work_costs_what_its_pieces_do():
    costs = learning_costs(StepWork(6.0, 1.0, 5.0), 7e-6, 6e-6, 1e-3, 7e-4)
    assert costs == pytest.approx((42e-6, 36e-6, 1e-3, 35e-4))
    assert (costs.acting, costs.learner) == pytest.approx((78e-6, 45e-4))


def test_aes_rl_divides_everything_until_its_critic_or_its_logical_workers_are_the_limit():
    assert [aes_seconds(COSTS, p, 4, concurrency=5) for p in (1, 2, 4)] == [16.0, 8.0, 4.0]
    assert aes_seconds(COSTS, 6, 2, concurrency=5) == 8.0
    assert aes_seconds(COSTS, 6, 6, concurrency=5) == 14.0 / 5
    assert aes_seconds(COSTS, 32, 32, concurrency=31) == 2.0


@given(SECONDS, SECONDS, st.integers(1, 40), st.integers(1, 20))
def test_more_processes_than_jobs_of_aes_rl_save_nothing(
    acting: float, critic: float, more: int, concurrency: int
):
    costs = LearningCosts(acting, 0.0, critic, 0.0)
    all_at_once = aes_seconds(costs, concurrency + 1, 99, concurrency=concurrency)
    with_more = aes_seconds(costs, concurrency + 1 + more, 99, concurrency=concurrency)
    assert with_more == pytest.approx(all_at_once)


def played(
    costs: LearningCosts, processes: int, size: int, refined: int, *, critic_first: bool
) -> float:
    """A generation of CEM-RL, played through: a free worker takes the oldest job."""
    episode, turn = costs.acting / size, costs.critic_steps / max(refined, 1)
    member = costs.actor_steps / max(refined, 1) + episode
    free = [0.0] * processes
    queue: list[tuple[float, int, str]] = []
    if refined:
        heapq.heappush(queue, (0.0, 0, "turn"))
    for index in range(refined, size):
        if not (critic_first and refined):
            heapq.heappush(queue, (0.0, size + index, "episode"))
    done, turns = 0.0, 0
    while queue:
        ready, index, kind = heapq.heappop(queue)
        end = max(ready, heapq.heappop(free)) + {"turn": turn, "member": member}.get(kind, episode)
        heapq.heappush(free, end)
        done = max(done, end)
        if kind != "turn":
            continue
        turns += 1
        if turns < refined:
            heapq.heappush(queue, (end, turns, "turn"))
        if not critic_first:
            heapq.heappush(queue, (end, size + index, "member"))
        elif turns == refined:
            for one in range(size):
                heapq.heappush(queue, (end, one, "member" if one < refined else "episode"))
    return done


@given(
    st.builds(LearningCosts, SECONDS, SECONDS, SECONDS, SECONDS),
    st.integers(1, 10),
    st.integers(1, 10),
    st.booleans(),
)
def test_no_generation_of_cem_rl_that_is_played_through_is_faster_than_said(
    costs: LearningCosts, processes: int, refined: int, critic_first: bool
):
    said = cem_rl_seconds(
        costs,
        processes,
        processes,
        population_size=10,
        refined_members=refined,
        mean_evaluations=0,
        concurrency=10,
        critic_first=critic_first,
    )
    taken = played(costs, processes, 10, refined, critic_first=critic_first)
    assert taken >= said * (1 - 1e-9) - 1e-9
    assert taken <= 2.0 * said + 1e-9


@pytest.mark.parametrize(
    ("processes", "cores", "first", "own"),
    # An episode takes 0.4 s, a refined member 2.4 s and the critics' turns 2 s.
    [
        (1, 2, 16.0, 16.0),
        (2, 2, 2.0 + 3 * 2.4, 8.0),
        (6, 2, 2.0 + 14.0 / 2, 8.0),
        (5, 8, 2.0 + 14.0 / 5, 4.4),
        (10, 16, 2.0 + 14.0 / 5, 4.4),
    ],
)
def test_cem_rls_refined_members_come_whole_and_after_their_critics(
    processes: int, cores: int, first: float, own: float
):
    seconds = partial(
        cem_rl_seconds, COSTS, processes, cores, population_size=10, refined_members=5
    )
    assert seconds(concurrency=5, mean_evaluations=0, critic_first=True) == pytest.approx(first)
    assert seconds(concurrency=10, mean_evaluations=0, critic_first=False) == pytest.approx(own)


def test_everybody_waits_for_the_means_evaluation_and_the_rl_actor():
    costs = COSTS._replace(environment=4.0)
    generation = {"population_size": 8, "refined_members": 0, "concurrency": 8}
    kept = costs._replace(critic_steps=0.0, actor_steps=0.0)
    for critic_first in (False, True):
        seconds = partial(cem_rl_seconds, kept, critic_first=critic_first, **generation)
        assert seconds(4, 4, mean_evaluations=2) == pytest.approx(4.0 / 4 + 1.0)
    erl = partial(erl_seconds, costs, episodes=8, mean_evaluations=2, concurrency=8)
    assert erl(1, 4) == pytest.approx(17.0)
    assert erl(4, 4) == pytest.approx(4.0 / 4 + 12.0 + 1.0)
    assert erl(99, 99) == pytest.approx(4.0 / 8 + 12.0 + 1.0)


def test_the_bottleneck_is_what_would_save_the_most():
    aes = partial(aes_seconds, concurrency=5)
    assert fastest(aes, COSTS, 2, 2) == (2, 1 / 8, "actor steps")
    assert fastest(aes, COSTS, 6, 2) == (6, 1 / 8, "actor steps")
    assert fastest(aes, COSTS._replace(critic_steps=9.0), 6, 6).bottleneck == "critic steps"
    assert fastest(td3_seconds, COSTS._replace(actor_steps=1.0), 1, 8) == (1, 1 / 7, "environment")
