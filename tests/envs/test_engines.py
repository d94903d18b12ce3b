"""EnvPool behind Gymnasium's calls: an episode is a function of its seed alone."""

import importlib.util
import sys
from typing import Any

import numpy as np
import pytest

from drumline.envs.environment import EnvironmentProblem, EnvironmentSpec
from drumline.envs.envpool_lanes import EnvPoolLanes
from drumline.envs.make import check_spaces, make_environment, resolve_engine

needs_envpool = pytest.mark.skipif(
    importlib.util.find_spec("envpool") is None, reason="EnvPool exists for Linux"
)


def spec_of(env_id: str, **options: int) -> EnvironmentSpec:
    return EnvironmentSpec(env_id, engine="envpool", options=options)


@needs_envpool
@pytest.mark.parametrize("env_id", ["CartPole-v1", "InvertedPendulum-v4"])
def test_an_episode_follows_from_its_seed_whatever_ran_before(env_id: str):
    environment = make_environment(spec_of(env_id)).environment
    check_spaces(environment, env_id)
    action = environment.action_space.sample()

    def episode(seed: int, steps: int) -> bytes:
        first, _ = environment.reset(seed=seed)
        rest = [environment.step(action)[0] for _ in range(steps)]
        return np.concatenate([first, *rest]).tobytes()

    first = episode(3, 4)
    other = episode(4, 2)
    assert episode(3, 4) == first
    assert not first.startswith(other[: len(other) // 3])
    environment.close()


@needs_envpool
@pytest.mark.parametrize("steps", [2**31 - 1, 3_000_000_000])
def test_a_limit_beyond_32_bits_is_refused_by_its_flag(steps: int):
    with pytest.raises(EnvironmentProblem, match="--max-episode-steps must be at most"):
        make_environment(spec_of("Pendulum-v1", max_episode_steps=steps))


@needs_envpool
def test_the_limit_is_the_engines_and_can_be_given():
    assert make_environment(spec_of("Pendulum-v1")).limit == 200
    made = make_environment(spec_of("Pendulum-v1", max_episode_steps=5))
    assert made.limit == 5  # the loop counts it, as for Gymnasium's environments
    made.environment.reset(seed=0)
    ends = [made.environment.step(np.zeros(1, np.float32))[2:4] for _ in range(6)]
    assert ends == [(False, False)] * 5 + [(False, True)]


@needs_envpool
@pytest.mark.parametrize("engine", ["gymnasium", "envpool"])
def test_a_fall_on_the_last_step_is_a_termination(engine: Any):
    def end(limit: int) -> tuple[int, bool, bool]:
        options = {"max_episode_steps": limit}
        made = make_environment(EnvironmentSpec("CartPole-v1", engine=engine, options=options))
        made.environment.reset(seed=0)
        steps, terminated, truncated = 0, False, False
        while not (terminated or truncated or steps == limit):
            _, _, terminated, truncated, _ = made.environment.step(0)
            steps += 1
        made.environment.close()
        return steps, terminated, truncated

    fall = end(100)
    assert fall[0] < 20
    assert end(fall[0]) == fall == (fall[0], True, False)


@needs_envpool
def test_a_step_returns_one_environments_plain_values():
    environment = make_environment(spec_of("CartPole-v1")).environment
    environment.reset(seed=0)
    observation, reward, terminated, truncated, _ = environment.step(1)
    assert observation.shape == environment.observation_space.shape == (4,)
    assert [type(value) for value in (reward, terminated, truncated)] == [float, bool, bool]


@needs_envpool
@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            spec_of("CartPol-v1"),
            r"EnvPool has no environment 'CartPol-v1'; did you mean .*CartPole",
        ),
        (spec_of("Qqqqqqqq"), r"EnvPool has no environment 'Qqqqqqqq' \(or use --engine gym"),
        (spec_of("CartPole-v1", gravitas=2), r"EnvPool cannot make 'CartPole-v1': .*gravitas"),
    ],
)
def test_what_envpool_cannot_make_is_one_sentence(spec: EnvironmentSpec, said: str):
    with pytest.raises(EnvironmentProblem, match=said):
        make_environment(spec)


@needs_envpool
def test_an_id_that_only_envpool_has_is_envpools():
    assert resolve_engine("Catch-v0", "auto") == "envpool"


def test_without_envpool_the_message_says_what_else_to_use(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(
        EnvironmentProblem, match=r"not installed: pip install envpool .* --engine gymnasium"
    ):
        make_environment(spec_of("CartPole-v1"))
    assert resolve_engine("Catch-v0", "auto") == "gymnasium"


@needs_envpool
def test_lanes_of_an_id_that_envpool_lacks_are_refused_alike():
    with pytest.raises(EnvironmentProblem, match=r"EnvPool has no environment 'CartPol-v1'"):
        EnvPoolLanes(spec_of("CartPol-v1"), 0, 0, 1)


@needs_envpool
def test_lanes_whose_options_envpool_refuses_are_refused_alike():
    with pytest.raises(EnvironmentProblem, match=r"EnvPool cannot make 'CartPole-v1': .*gravitas"):
        EnvPoolLanes(spec_of("CartPole-v1", gravitas=2), 0, 0, 1)


@needs_envpool
def test_an_environment_of_two_players_is_refused():
    for made in (make_environment, lambda spec: EnvPoolLanes(spec, 0, 0, 1)):
        with pytest.raises(EnvironmentProblem, match=r"ConnectFour-v1 is for 2 players"):
            made(spec_of("ConnectFour-v1"))


@needs_envpool
def test_one_observation_of_another_name_is_served():
    spec = spec_of("MuJoCoPlayground/SpotJoystickGaitTracking-v1")
    environment = make_environment(spec).environment
    lanes = EnvPoolLanes(spec, 0, 0, 2)
    try:
        shape = environment.observation_space.shape
        assert environment.reset(seed=0)[0].shape == shape
        assert lanes.begin(0).shape == (2, *shape)
        steps = lanes.step(None, np.zeros((2, *lanes.action_space.shape), np.float32))
        assert steps.observations.shape == (2, *shape)
    finally:
        environment.close()
        lanes.close()


@needs_envpool
def test_bounds_in_another_precision_warn_nobody():
    environment = make_environment(spec_of("CarRacing-v3")).environment
    assert environment.action_space.shape == (3,)
    environment.close()


@needs_envpool
def test_lanes_of_an_environment_without_a_time_limit_have_none():
    made = make_environment(spec_of("Blackjack-v1"))
    assert made.limit == 0
    made.environment.close()
    lanes = EnvPoolLanes(spec_of("Blackjack-v1"), 0, 0, 3)
    try:
        assert lanes.begin(0).shape == (3, 3)
        for _ in range(30):
            steps = lanes.step(None, np.ones(3, np.int64))
            assert not steps.truncated.any()
        assert (lanes.episode > 3).all()
    finally:
        lanes.close()
