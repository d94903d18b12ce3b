"""Settings that HTS-RL's recipe hands on to its schedule."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

from drumline.recipes import hts
from drumline.recipes.hts import HTS
from drumline.recipes.impala import Impala
from drumline.recipes.learners import make_learner
from drumline.schedules.intervals import RotationPlan
from drumline.training.layout import ActorLayout, RotationLayout

Barrier = Literal["sliding", "hard"]
Lag = Literal[0, 1]


def config_of(lag: Lag) -> HTS:
    return HTS(
        env="CartPole-v1",
        engine="gymnasium",
        num_envs=2,
        alpha=3,
        minibatches=1,
        hidden=(4,),
        lag=lag,
    )


@pytest.mark.parametrize("barrier", ["sliding", "hard"])
@pytest.mark.parametrize("lag", [0, 1])
def test_lag_and_barrier_are_those_that_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, barrier: Barrier, lag: Lag
):
    monkeypatch.setattr(hts, "IntervalCourse", lambda parts, staff, plan, learner: plan)
    recipe = config_of(lag).build(RotationLayout(pool="inline", barrier=barrier))
    nobody: Any = None
    plan = recipe.course(recipe.parts, recipe.staff, 7, nobody)
    assert plan == RotationPlan(alpha=3, intervals=7, lag=lag, barrier=barrier)


@pytest.mark.parametrize(
    ("learner", "layout", "threads"),
    [
        ("a2c", {"executors": 1}, 8),
        ("a2c", {"executors": 3}, 2),
        ("a2c", {}, 1),  # an executor for every core that the learner leaves
        ("ppo", {"executors": 1}, 1),
        ("ppo", {"executors": 1, "engine_threads": 5}, 5),
        ("a2c", {"engine_threads": 1, "executors": 1}, 1),
    ],
)
def test_an_engine_has_the_cores_that_one_pass_leaves_free(
    monkeypatch: pytest.MonkeyPatch, learner: Any, layout: dict[str, int], threads: int
):
    monkeypatch.setattr("drumline.training.layout.available_cores", lambda: 8)
    config = replace(config_of(1), learner=learner, num_envs=24)
    recipe = config.build(RotationLayout(pool="inline", **layout))
    assert recipe.staff.engine_threads == threads
    free = Impala(env="CartPole-v1", num_envs=24).build(ActorLayout(**layout))
    assert learner == "ppo" or free.staff.engine_threads == threads


@pytest.mark.parametrize(
    ("barrier", "lag", "published", "released"),
    [
        ("sliding", 1, [4, 5], 5),
        ("hard", 1, [4, 5], 4),
        ("sliding", 0, [4], 4),
        ("hard", 0, [4], 4),
    ],
)
def test_a_course_begins_with_the_versions_that_its_first_intervals_act_with(
    barrier: Barrier, lag: Lag, published: list[int], released: int
):
    recipe = config_of(lag).build(RotationLayout(pool="inline", barrier=barrier))
    learner = make_learner(recipe.parts, pause=lambda: None)
    course = recipe.course(recipe.parts, recipe.staff, 7, learner)
    given: dict[str, list[int]] = {"published": [], "released": []}
    exchange = SimpleNamespace(finished=np.zeros(2, np.int64), release=given["released"].append)
    crew = SimpleNamespace(
        exchange=exchange, publish=lambda version, arrays: given["published"].append(version)
    )
    course.begin(crew, 4)
    assert given == {"published": published, "released": [released]}
    assert exchange.finished.tolist() == [12, 12]


@pytest.mark.parametrize("correction", ["ppo-ratio", "vtrace"])
def test_a_target_kl_from_a_policy_before_the_update_is_refused(correction: str):
    with pytest.raises(ValueError, match=f"--correction {correction}, one update ago"):
        replace(config_of(1), target_kl=0.01, correction=correction)
    assert replace(config_of(0), target_kl=0.01, correction=correction).target_kl == 0.01
    assert replace(config_of(1), target_kl=0.01, correction="decoupled").target_kl == 0.01
