"""Making environments: what cannot be made or used is one sentence that helps."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import impure_environment
import numpy as np
import pytest

from drumline.envs.environment import EnvironmentProblem, EnvironmentSpec
from drumline.envs.frame_skip import FrameSkip
from drumline.envs.lanes import ActionForm
from drumline.envs.lanes_spec import LanesSpec
from drumline.envs.make import check_spaces, make_environment, resolve_engine
from drumline.envs.observation_spaces import check_observations


class TupleObservations(gymnasium.Env):
    observation_space = gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2)])
    action_space = gymnasium.spaces.Discrete(2)


class MultiBinaryActions(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.MultiBinary(3)


@pytest.mark.parametrize(
    ("env_id", "nearest"),
    [
        ("CartPole-v9", "CartPole-v1"),
        ("CartPol-v1", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("Pendulm-v1", "Pendulum-v1"),
    ],
)
def test_an_unknown_id_names_the_nearest(env_id: str, nearest: str):
    with pytest.raises(EnvironmentProblem, match=f"unknown environment '{env_id}'.*{nearest}"):
        make_environment(EnvironmentSpec(env_id))


def test_an_id_near_to_none_is_refused_without_a_guess():
    with pytest.raises(EnvironmentProblem) as caught:
        make_environment(EnvironmentSpec("Qqqqqq-v0"))
    assert "did you mean" not in str(caught.value)


needs_envpool = pytest.mark.skipif(
    importlib.util.find_spec("envpool") is None, reason="no EnvPool for this platform"
)


@needs_envpool
@pytest.mark.parametrize(
    ("env_id", "nearest"),
    [
        ("Pongg-v5", "Pong-v5"),
        ("pong-v5", "Pong-v5"),
        (
            "gfootball/academy_empty_goal_clos-v1",
            "gfootball/academy_empty_goal_close-v1",
        ),
    ],
)
def test_the_nearest_id_may_be_one_of_envpools(env_id: str, nearest: str):
    with pytest.raises(EnvironmentProblem, match=f"'{env_id}'.*did you mean {nearest}"):
        make_environment(EnvironmentSpec(env_id))


@needs_envpool
def test_gymnasium_refuses_an_id_of_envpools_with_the_engine_that_has_it():
    with pytest.raises(EnvironmentProblem, match=r"EnvPool has it \(--engine envpool\)"):
        make_environment(EnvironmentSpec("Pong-v5", "gymnasium"))


@pytest.mark.parametrize("env_id", ["Pong-v5", "gfootball/academy_empty_goal_close-v1"])
@pytest.mark.parametrize("checkpoints", [False, True])
def test_without_envpool_an_id_that_gymnasium_lacks_names_the_package_and_no_far_id(
    monkeypatch: pytest.MonkeyPatch, env_id: str, checkpoints: bool
):
    monkeypatch.setitem(sys.modules, "envpool", None)
    spec = EnvironmentSpec(env_id, resolve_engine(env_id, "auto", prefer="envpool"))
    for make in (lambda: make_environment(spec), LanesSpec(spec, 0, 0, 1, checkpoints=checkpoints)):
        with pytest.raises(
            EnvironmentProblem, match=r"EnvPool, .* is not installed: pip install envpool"
        ) as caught:
            make()
        assert "Ant-v5" not in str(caught.value)
        assert "--reward" not in str(caught.value)


def test_without_envpool_a_mistyped_id_of_gymnasiums_is_still_found(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(EnvironmentProblem, match=r"EnvPool, .*; did you mean CartPole-v1"):
        make_environment(EnvironmentSpec("CartPol-v1"))


def test_dict_and_tuple_observations_name_the_wrapper_that_helps():
    made = make_environment(EnvironmentSpec("impure_environment:DictObservations")).environment
    for environment, kind in ((made, "Dict"), (TupleObservations(), "Tuple")):
        with pytest.raises(EnvironmentProblem, match=f"{kind} observations.*FlattenObservation"):
            check_spaces(environment, "theirs")


def test_actions_that_no_head_serves_are_refused():
    with pytest.raises(EnvironmentProblem, match="MultiBinary actions"):
        check_spaces(MultiBinaryActions(), "bits")


class Wide(gymnasium.Env):
    """Long doubles where it is told to."""

    def __init__(self, observations: type = np.float32, actions: type = np.float32):
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), observations)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), actions)


def refuse_for_lanes(environment: Wide) -> None:
    check_observations(environment.observation_space, "wide")
    ActionForm(environment.action_space, "wide")


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long doubles are doubles here")
@pytest.mark.parametrize("kind", ["observations", "actions"])
def test_long_doubles_are_refused(kind: str):
    environment = Wide(**{kind: np.longdouble})
    said = rf"^wide has {kind} of float\d+ .np.longdouble., .* give their space np.float64"
    with pytest.raises(EnvironmentProblem, match=said):
        check_spaces(environment, "wide")
    with pytest.raises(EnvironmentProblem, match=said):
        refuse_for_lanes(environment)
    check_spaces(Wide(np.float64, np.float16), "wide")


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_spaces_that_policies_serve_pass(env_id: str):
    made = make_environment(EnvironmentSpec(env_id)).environment
    check_spaces(made, env_id)
    made.close()


def test_a_constructor_that_raises_says_what_and_where():
    with pytest.raises(EnvironmentProblem, match=r"Raising.*OSError: no licence file"):
        make_environment(EnvironmentSpec("impure_environment:Raising"))


def test_options_that_the_environment_does_not_know_say_so():
    with pytest.raises(EnvironmentProblem, match=r"CartPole-v1.*gravitas"):
        make_environment(EnvironmentSpec("CartPole-v1", options={"gravitas": 2}))


def test_a_module_that_cannot_be_imported_is_named():
    with pytest.raises(EnvironmentProblem, match="'no_such_module' cannot be imported"):
        make_environment(EnvironmentSpec("no_such_module:Env"))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os\n1 / 0", r"ZeroDivisionError: division by zero \(.*broken\.py, line 2\)"),
        ("def make(:", r"SyntaxError: invalid syntax \(.*broken\.py, line 1\)"),
        ("raise SystemExit('no licence')", r"SystemExit: no licence \(.*broken\.py, line 1\)"),
    ],
)
def test_a_module_that_fails_at_import_is_one_sentence_with_the_line(
    code: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "broken.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    said = f"^environment 'broken:Env': importing broken raised {words}$"
    with pytest.raises(EnvironmentProblem, match=said):
        make_environment(EnvironmentSpec("broken:Env"))


@pytest.mark.parametrize("env_id", [":CartPole-v1", ".impure_environment:Counting"])
def test_an_id_without_a_module_before_the_colon_is_refused(env_id: str):
    with pytest.raises(EnvironmentProblem, match=f"environment '{env_id}' names no module"):
        make_environment(EnvironmentSpec(env_id))


def test_a_factory_that_makes_something_else_is_refused():
    with pytest.raises(EnvironmentProblem, match=r"made a float, not a gymnasium\.Env"):
        make_environment(EnvironmentSpec("builtins:float"))


def test_a_factory_of_the_users_is_called():
    made = make_environment(EnvironmentSpec("impure_environment:Counting"))
    assert made.limit == 0
    observation, _ = made.environment.reset(seed=1)
    assert observation[0] == 0


def test_a_time_limit_is_lifted_off_and_reported():
    made = make_environment(EnvironmentSpec("Pendulum-v1"))
    assert made.limit == 200
    made.environment.reset(seed=0)
    steps = [made.environment.step(np.zeros(1, np.float32)) for _ in range(250)]
    assert not any(truncated for _, _, _, truncated, _ in steps)
    made.environment.close()


@pytest.mark.parametrize(("skip", "limit"), [(1, 200), (2, 100), (3, 67)])
def test_the_limit_counts_decisions(skip: int, limit: int):
    made = make_environment(EnvironmentSpec("Pendulum-v1", frame_skip=skip))
    assert made.limit == limit
    made.environment.close()


def frames_of_an_episode(spec: EnvironmentSpec) -> list[float]:
    """The step number that each decision of an episode ends at, up to the limit."""
    made = make_environment(spec)
    made.environment.reset(seed=0)
    seen: list[float] = []
    while True:
        observation, _, terminated, truncated, _ = made.environment.step(np.zeros(1, np.float32))
        seen.append(float(observation[0]))
        if terminated or truncated or len(seen) == made.limit:
            return seen


@pytest.mark.parametrize("name", ["limited", "Endless"])
def test_frame_skip_never_goes_past_a_time_limit_that_it_does_not_divide(name: str):
    options = {} if name == "limited" else {"max_episode_steps": 10}
    spec = EnvironmentSpec(f"impure_environment:{name}", frame_skip=4, options=options)
    assert frames_of_an_episode(spec) == [4, 8, 10]


def test_every_episode_with_frame_skip_has_the_whole_limit():
    spec = EnvironmentSpec("Pendulum-v1", frame_skip=3, options={"max_episode_steps": 7})
    made = make_environment(spec)
    for seed in (0, 1):
        made.environment.reset(seed=seed)
        action = np.zeros(1, np.float32)
        rewards = [made.environment.step(action)[1] for _ in range(made.limit)]
        plain = make_environment(EnvironmentSpec("Pendulum-v1")).environment
        plain.reset(seed=seed)
        singles = [plain.step(action)[1] for _ in range(7)]
        expected = [sum(singles[:3]), sum(singles[3:6]), singles[6]]
        assert rewards == pytest.approx(expected, rel=1e-12)


def test_a_factorys_own_time_limit_stays():
    spec = EnvironmentSpec("impure_environment:limited")
    made = make_environment(spec)
    assert (made.limit, made.wrapped_limit) == (0, 10)
    assert len(frames_of_an_episode(spec)) == 10
    skipping = make_environment(EnvironmentSpec("impure_environment:limited", frame_skip=4))
    assert (skipping.limit, skipping.wrapped_limit) == (0, 3)
    assert make_environment(EnvironmentSpec("impure_environment:Endless")).wrapped_limit == 0


def test_gymnasiums_own_wrappers_of_a_factory_are_taken_off_and_their_limit_is_counted():
    spec = EnvironmentSpec("impure_environment:registered")
    made = make_environment(spec)
    assert (made.limit, made.wrapped_limit) == (200, 0)
    for _ in range(2):  # the first episode's steps are checked
        made.environment.reset(seed=0)
    action = np.zeros(1, np.float32)
    ours = [made.environment.step(action) for _ in range(250)]
    assert type(made.environment.step.__self__) is type(made.environment.unwrapped)
    assert not any(truncated for _, _, _, truncated, _ in ours)
    wrapped = gymnasium.make("Pendulum-v1")
    wrapped.reset(seed=0)
    theirs = [wrapped.step(action) for _ in range(200)]
    assert [step[1] for step in ours[:200]] == [step[1] for step in theirs]
    assert theirs[-1][3]


@pytest.mark.parametrize("limit", [4, 25])
def test_a_given_time_limit_replaces_the_factorys_own(limit: int):
    options = {"max_episode_steps": limit}
    spec = EnvironmentSpec("impure_environment:limited", options=options)
    assert make_environment(spec).limit == limit
    assert len(frames_of_an_episode(spec)) == limit


def test_a_given_time_limit_replaces_the_registered_one():
    spec = EnvironmentSpec("Pendulum-v1", options={"max_episode_steps": 250})
    assert len(frames_of_an_episode(spec)) == 250


@pytest.fixture
def registered_ids() -> Iterator[None]:
    """Ids with a time limit inside: in the entry point, and in a wrapper that Gymnasium adds."""
    wrapper = gymnasium.envs.registration.WrapperSpec(
        "TimeLimit", "gymnasium.wrappers:TimeLimit", {"max_episode_steps": 10}
    )
    gymnasium.register("Within-v0", impure_environment.limited)
    gymnasium.register("Added-v0", impure_environment.Endless, additional_wrappers=(wrapper,))
    yield
    for env_id in ("Within-v0", "Added-v0"):
        del gymnasium.registry[env_id]


@pytest.mark.parametrize("limit", [4, 25])
@pytest.mark.parametrize("env_id", ["Within-v0", "Added-v0"])
def test_a_given_time_limit_replaces_that_of_an_entry_point_or_a_registered_wrapper(
    env_id: str, limit: int, registered_ids: None
):
    assert len(frames_of_an_episode(EnvironmentSpec(env_id))) == 10
    spec = EnvironmentSpec(env_id, options={"max_episode_steps": limit})
    assert len(frames_of_an_episode(spec)) == limit


def test_lanes_too_have_the_given_time_limit(registered_ids: None):
    spec = EnvironmentSpec("Within-v0", options={"max_episode_steps": 25})
    lanes = LanesSpec(spec, 0, 0, 1)()
    lanes.begin(0)
    ends = [bool(lanes.step(None, np.zeros((1, 1))).truncated[0]) for _ in range(50)]
    assert np.flatnonzero(ends).tolist() == [24, 49]


@pytest.mark.parametrize("limit", [0, "x", [1], 2.5])
def test_a_time_limit_that_is_no_number_of_steps_is_refused(limit: object):
    said = re.escape(f"max_episode_steps must be a whole number of 1 or more, got {limit!r}")
    with pytest.raises(EnvironmentProblem, match=said):
        make_environment(EnvironmentSpec("Pendulum-v1", options={"max_episode_steps": limit}))


def test_frame_skip_repeats_the_action_adds_rewards_and_stops_at_the_end():
    plain = make_environment(EnvironmentSpec("impure_environment:Counting")).environment
    made = make_environment(EnvironmentSpec("impure_environment:Counting", frame_skip=2))
    assert isinstance(made.environment, FrameSkip)
    plain.reset(seed=3)
    made.environment.reset(seed=3)
    action = np.ones(1, np.float32)
    rewards = [plain.step(action)[1] for _ in range(5)]
    skipped = [made.environment.step(action) for _ in range(3)]
    assert [observation[0] for observation, *_ in skipped] == [2, 4, 5]
    assert [step[1] for step in skipped] == [
        rewards[0] + rewards[1],
        rewards[2] + rewards[3],
        rewards[4],
    ]
    assert [step[2] for step in skipped] == [False, False, True]


def test_gymnasium_is_preferred_to_envpool():
    assert resolve_engine("CartPole-v1", "auto") == "gymnasium"
    assert resolve_engine("package.module:Env", "auto") == "gymnasium"
    assert resolve_engine("CartPole-v1", "envpool") == "envpool"


def test_atari_is_what_its_papers_see():
    made = make_environment(EnvironmentSpec("ALE/Breakout-v5"))
    space = made.environment.observation_space
    assert (space.shape, space.dtype, made.stack) == ((4, 84, 84), np.uint8, 4)
    first, _ = made.environment.reset(seed=0)
    second = made.environment.step(1)[0]
    assert (first == first[-1]).all()
    assert (second[:-1] == first[1:]).all()
    made.environment.close()


@pytest.mark.parametrize("missing", ["ale_py", "cv2"])
def test_atari_without_its_extra_names_the_extra(monkeypatch: pytest.MonkeyPatch, missing: str):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(EnvironmentProblem, match=r"ALE/Pong-v5 .*'drumline\[atari\]'.* as Pong-v5"):
        make_environment(EnvironmentSpec("ALE/Pong-v5"))


def test_fire_is_pressed_at_a_reset_where_the_game_has_it():
    pytest.importorskip("ale_py", reason="the extra `atari` is not installed")

    def first(env_id: str, **options: Any) -> np.ndarray:
        made = make_environment(EnvironmentSpec(env_id, options=options))
        observation, _ = made.environment.reset(seed=3)
        made.close()
        return np.asarray(observation)

    assert (first("ALE/Breakout-v5", fire_reset=False) != first("ALE/Breakout-v5")).any()
    assert (first("ALE/Breakout-v5", fire_reset=True) == first("ALE/Breakout-v5")).all()
    assert (first("ALE/Freeway-v5", fire_reset=False) == first("ALE/Freeway-v5")).all()


def test_another_inner_frame_skip_of_ale_names_what_takes_one():
    pytest.importorskip("ale_py", reason="the extra `atari` is not installed")
    with pytest.raises(EnvironmentProblem, match="a frame skip of 4: EnvPool's ids take another"):
        make_environment(EnvironmentSpec("ALE/Pong-v5", options={"frameskip": 2}))
