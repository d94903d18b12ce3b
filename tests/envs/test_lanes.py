"""Lanes: one stream per environment, whatever the engine, the grouping or the order of calls."""

import pickle
from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
from campaigns import FAULTS
from envs.lane_streams import (
    CARTPOLE,
    DRIFTING,
    GYMNASIUM_CARTPOLE,
    HALF_CHEETAH,
    PONG,
    SPECS,
    Driver,
    history,
    name,
    streams,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from late_fault_environment import OBSERVATIONS, REWARDS

from drumline.envs.environment import EnvironmentProblem, EnvironmentSpec
from drumline.envs.held_pool import HeldPool
from drumline.envs.lanes import ActionForm, LaneHistory, Lanes, NotReproducible, episode_seed
from drumline.envs.lanes_spec import LanesSpec
from drumline.envs.timing import Constant


@pytest.mark.parametrize("spec", SPECS, ids=name)
@pytest.mark.parametrize("groups", [[1, 1, 1, 1], [2, 2], [3, 1]], ids=str)
def test_grouping_does_not_change_a_stream(spec: EnvironmentSpec, groups: list[int]):
    assert streams(spec, groups, 60) == streams(spec, [4], 60)


def test_grouping_does_not_change_an_atari_stream():
    assert streams(PONG, [1, 2], 30) == streams(PONG, [3], 30)


@pytest.mark.parametrize("spec", SPECS, ids=name)
@pytest.mark.parametrize("seed", range(3))
def test_stepping_some_lanes_at_a_time_does_not_change_a_stream(spec: EnvironmentSpec, seed: int):
    assert streams(spec, [4], 60, seed) == streams(spec, [4], 60)


@pytest.mark.parametrize("spec", SPECS, ids=name)
def test_environments_differ_and_root_seeds_differ(spec: EnvironmentSpec):
    begun = [LanesSpec(spec, seed, 0, 2)().begin(0) for seed in (0, 1)]
    if spec is DRIFTING:
        begun = [rows[:, 2] for rows in begun]
    assert len(np.unique(np.concatenate(begun), axis=0)) == 4


@settings(max_examples=15)
@given(data=st.data())
@pytest.mark.parametrize("spec", [DRIFTING, GYMNASIUM_CARTPOLE, CARTPOLE], ids=name)
def test_restored_anywhere_a_stream_goes_on_as_if_never_stopped(
    spec: EnvironmentSpec, data: st.DataObject
):
    cuts = [data.draw(st.integers(0, 70)) for _ in range(3)]
    _restore_and_compare(spec, cuts, 80)


@pytest.mark.parametrize("cuts", [[0, 9, 10], [31, 4, 27], [36, 36, 36]], ids=str)
def test_a_mujoco_stream_is_restored_across_truncations(cuts: list[int]):
    _restore_and_compare(HALF_CHEETAH, cuts, 45)


@FAULTS
def test_an_atari_stream_is_restored_across_lives_and_truncations():
    options = {"max_episode_steps": 40, "episodic_life": True}
    spec = EnvironmentSpec("Breakout-v5", "envpool", options=options)
    _restore_and_compare(spec, [50, 39, 27], 70)


@FAULTS
def test_a_stream_of_the_arcade_learning_environment_is_restored_across_truncations():
    spec = EnvironmentSpec("ALE/Breakout-v5", options={"max_episode_steps": 31})
    _restore_and_compare(spec, [70, 31, 12], 80)


def _restore_and_compare(spec: EnvironmentSpec, cuts: list[int], longest: int) -> None:
    make = LanesSpec(spec, 3, 5, len(cuts))
    undisturbed, restored = Driver(make(), 5, longest), make()
    undisturbed.run(cuts)
    shape = undisturbed.lanes.action_space.shape
    histories = [history(stream, shape, 0, 0) for stream in undisturbed.streams]
    standing = restored.restore(histories)
    for row, stream in zip(standing, undisturbed.streams, strict=True):
        last = stream.rows[-2] if len(stream.rows) > 1 else stream.rows[0]
        assert last.startswith(row.tobytes())
    assert restored.episode.tolist() == undisturbed.lanes.episode.tolist()
    other = Driver(make(), 5, longest)
    other.lanes.close()
    other.lanes = restored
    for stream, so_far in zip(other.streams, undisturbed.streams, strict=True):
        stream.rows, stream.actions = list(so_far.rows), list(so_far.actions)
    undisturbed.run([longest] * len(cuts))
    other.run([longest] * len(cuts))
    assert [s.rows for s in other.streams] == [s.rows for s in undisturbed.streams]
    undisturbed.lanes.close()
    restored.close()


@pytest.mark.parametrize("spec", [CARTPOLE, HALF_CHEETAH], ids=name)
def test_a_stream_is_restored_across_a_renewal(spec: EnvironmentSpec):
    make = LanesSpec(spec, 0, 2, 2)
    driver = Driver(make(), 2, 80)
    driver.run([25, 25])
    begun = driver.lanes.episode.copy()
    driver.lanes.renew(1)
    assert driver.lanes.episode.tolist() == (begun + 1).tolist()
    driver.run([50, 50])
    histories = [
        LaneHistory(1, int(episode) + 1, np.array(s.actions[25:]), np.array(s.ended[25:]))
        for episode, s in zip(begun, driver.streams, strict=True)
    ]
    restored = make()
    restored.restore(histories)
    assert restored.episode.tolist() == driver.lanes.episode.tolist()
    actions = np.stack([row[50] for row in driver.actions])
    expected, got = driver.lanes.step(None, actions), restored.step(None, actions)
    for before, after in zip(expected, got, strict=True):
        assert before.tobytes() == after.tobytes()


def test_a_renewal_starts_other_episodes_of_the_same_environments():
    lanes = LanesSpec(CARTPOLE, 0, 0, 2)()
    begun = lanes.begin(0).copy()
    renewed = lanes.renew(1).copy()
    assert not (begun == renewed).any()
    assert (LanesSpec(CARTPOLE, 0, 0, 2)().begin(1) == renewed).all()


def test_gymnasium_lanes_need_no_renewal_and_refuse_one():
    lanes = LanesSpec(DRIFTING, 0, 0, 1)()
    assert not lanes.needs_renewal
    with pytest.raises(RuntimeError, match="no renewal"):
        lanes.renew(1)


def test_a_gymnasium_stream_is_that_of_seeded_episodes_one_by_one():
    driver = Driver(LanesSpec(GYMNASIUM_CARTPOLE, 7, 3, 2)(), 3, 150)
    driver.run([150, 150])
    for lane in range(2):
        environment = gymnasium.make("CartPole-v1")
        episode = 0
        observation, _ = environment.reset(seed=episode_seed(7, 3 + lane, 0))
        expected = [observation.tobytes()]
        for action in driver.actions[lane]:
            observation, reward, terminated, truncated, _ = environment.step(int(action))
            assert not truncated
            if terminated:
                episode += 1
                observation, _ = environment.reset(seed=episode_seed(7, 3 + lane, episode))
            flags = repr((terminated, truncated)).encode()
            expected.append(observation.tobytes() + np.float32(reward).tobytes() + flags)
            expected.append(str(episode).encode())
        assert driver.streams[lane].rows == expected
        assert episode > 3


@pytest.mark.filterwarnings("ignore:.*precision lowered")  # by the reference pool
@pytest.mark.parametrize("spec", [CARTPOLE, HALF_CHEETAH], ids=name)
def test_an_envpool_stream_is_that_of_a_pool_of_one_without_its_phantom_steps(
    spec: EnvironmentSpec,
):
    envpool = pytest.importorskip("envpool")
    from drumline.envs.lanes import renewal_seed

    driver = Driver(LanesSpec(spec, 7, 3, 2)(), 3, 100)
    driver.run([100, 100])
    for lane in range(2):
        seed = renewal_seed(7, 3 + lane, 0)
        options = {"num_envs": 1, "seed": seed, "num_threads": 1, **spec.options}
        held = HeldPool(partial(envpool.make, spec.id, env_type="gymnasium", **options))
        pool = held.pool
        limit, length, episode = spec.options["max_episode_steps"], 0, 0
        observation = pool.reset()[0]
        dtype = driver.lanes._form.dtype
        expected = [observation[0].tobytes()]
        for action in driver.actions[lane]:
            one = np.asarray(action, dtype)[None]
            observation, reward, terminated, truncated, _ = pool.step(one)
            reward, length = reward[0], length + 1
            fell = bool(terminated[0]) or (spec is CARTPOLE and _fallen(observation[0]))
            flags = (fell, bool(truncated[0]) and not fell)
            final = observation[0].tobytes() if flags[1] else b""
            assert length <= limit
            if any(flags):
                episode, length = episode + 1, 0
                observation, nothing, *none, _ = pool.step(one)
                assert nothing[0] == 0
                assert not any(flag[0] for flag in none)
            row = observation[0].tobytes() + np.float32(reward).tobytes() + final
            expected += [row + repr(flags).encode(), str(episode).encode()]
        assert driver.streams[lane].rows == expected
        assert episode > 3


def _fallen(observation: np.ndarray) -> bool:
    return abs(float(observation[2])) > 12 * 2 * np.pi / 360 or abs(float(observation[0])) > 2.4


@pytest.mark.parametrize("limit", [9, 10, 11, 12])
def test_a_pole_that_falls_at_the_time_limit_has_terminated(limit: int):
    spec = EnvironmentSpec("CartPole-v1", "envpool", options={"max_episode_steps": limit})
    lanes = LanesSpec(spec, 0, 0, 16)()
    lanes.begin(0)
    at_limit = {"terminated": 0, "truncated": 0}
    length = np.zeros(16, int)
    for _ in range(200):
        steps = lanes.step(None, np.ones(16, int))
        length += 1
        over = steps.terminated | steps.truncated
        assert not (steps.terminated & steps.truncated).any()
        assert not (steps.truncated & (length != limit)).any()
        assert len(steps.final_observations) == steps.truncated.sum()
        assert not any(_fallen(row) for row in steps.final_observations)
        at_limit["terminated"] += int((steps.terminated & (length == limit)).sum())
        at_limit["truncated"] += int(steps.truncated.sum())
        length[over] = 0
    if limit in (9, 10):
        assert all(at_limit.values())


def test_a_life_lost_at_the_time_limit_has_terminated():
    options = {"max_episode_steps": 24, "episodic_life": True}
    spec = EnvironmentSpec("Breakout-v5", "envpool", options=options)
    lanes = LanesSpec(spec, 0, 0, 4)()
    lanes.begin(0)
    ends = []
    for step in range(60):
        steps = lanes.step(None, np.zeros(4, int))
        ends += [(step, bool(row)) for row in steps.terminated[steps.terminated | steps.truncated]]
    # a ball that no action hits is lost after 24 decisions: exactly at this limit
    assert (23, True) in ends


def test_envpool_leaves_the_arrays_of_earlier_steps_alone():
    lanes = LanesSpec(HALF_CHEETAH, 0, 0, 4)()
    lanes.begin(0)
    rng = np.random.default_rng(0)
    kept, copies = [], []
    for _ in range(200):
        steps = lanes.step(None, rng.uniform(-1, 1, (4, 6)))
        kept.append(steps)
        copies.append([array.copy() for array in steps])
    for steps, copy in zip(kept, copies, strict=True):
        for one, other in zip(steps, copy, strict=True):
            assert (one == other).all()


def test_ends_by_the_environment_keep_their_kind_and_termination_wins():
    lanes = LanesSpec(DRIFTING, 0, 0, 4)()
    first = lanes.begin(0).copy()
    steps = lanes.step(None, np.array([0, 1, 2, 3]))
    assert steps.terminated.tolist() == [False, True, False, True]
    assert steps.truncated.tolist() == [False, False, True, False]
    assert steps.final_observations[:, :2].tolist() == [[1, 2]]
    assert steps.observations[:, 0].tolist() == [1, 0, 0, 0]
    assert steps.rewards.dtype == np.float32
    assert lanes.episode.tolist() == [0, 1, 1, 1]
    assert not (steps.observations[1:, 2] == first[1:, 2]).any()
    assert lanes.step(np.array([0]), np.array([0])).final_observations.shape == (0, 3)


@pytest.mark.parametrize("engine", ["gymnasium", "envpool"])
def test_the_time_limit_truncates_after_that_many_decisions(engine: str):
    id_, options = "MountainCar-v0", {}
    spec = EnvironmentSpec(id_, engine, options=options)  # pyright: ignore[reportArgumentType]
    lanes = LanesSpec(spec, 0, 0, 1)()
    lanes.begin(0)
    cuts = [t for t in range(1, 601) if lanes.step(None, np.array([1])).truncated[0]]
    assert cuts == [200, 400, 600]


@pytest.mark.parametrize(
    ("factory", "action", "seen"),
    [
        ("continuous_echo", [[3.0, 3.0]], [1.0, 0.5]),
        ("continuous_echo", [[-3.0, -1.5]], [-1.0, -1.5]),
        ("shifted_echo", [2], [7.0]),
        ("several_echo", [[2, 3]], [2.0, 3.0]),
    ],
)
def test_actions_arrive_clipped_and_in_the_environments_own_numbers(
    factory: str, action: list, seen: list[float]
):
    lanes = LanesSpec(EnvironmentSpec(f"lane_environments:{factory}"), 0, 0, 1)()
    lanes.begin(0)
    assert lanes.step(None, np.array(action)).observations[0].tolist() == seen


def test_a_history_that_the_environment_does_not_repeat_is_refused():
    lanes = LanesSpec(EnvironmentSpec("lane_environments:forgetful"), 0, 4, 1)()
    with pytest.raises(NotReproducible, match=r"environment 4 .* ended episode 0"):
        lanes.restore([LaneHistory(0, 0, np.zeros(9, int), np.zeros(9, bool))])
    pool = LanesSpec(CARTPOLE, 0, 4, 1)()
    with pytest.raises(NotReproducible, match=r"environment 4 .* at step"):
        pool.restore([LaneHistory(0, 0, np.ones(19, int), np.zeros(19, bool))])


def test_actions_without_a_head_are_refused_with_the_environments_id():
    spaces = gymnasium.spaces
    served = [spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([3, 2]), spaces.Discrete(2, start=5)]
    for space in served:
        ActionForm(space, "mine:Env")
    for space in (spaces.Box(-1, 1, (1, 2)), spaces.Box(0, 9, (2,), np.int64)):
        said = r"^mine:Env has Box actions .*; this method serves .*: wrap .*es, td3 and aes"
        with pytest.raises(EnvironmentProblem, match=said):
            ActionForm(space, "mine:Env")
    with pytest.raises(EnvironmentProblem, match=r"^mine:Env has MultiDiscrete actions"):
        ActionForm(spaces.MultiDiscrete([[3, 2]]), "mine:Env")


def still(lanes: Lanes, steps: int) -> None:
    for _ in range(steps):
        lanes.step(None, np.zeros((lanes.count, 1), np.float32))


# Text of the right size names the executor's place, and NumPy takes None for NaN.
@pytest.mark.parametrize("fault", sorted({*OBSERVATIONS, *REWARDS} - {"text", "no reward"}))
def test_a_fault_in_a_later_episode_is_named_with_its_place(fault: str):
    spec = EnvironmentSpec("late_fault_environment:Late", options={"fault": fault})
    lanes = LanesSpec(spec, 0, 4, 3)()
    lanes.begin(0)
    _, said = {**OBSERVATIONS, **REWARDS}[fault]
    with pytest.raises(EnvironmentProblem, match=f"^the (observation|reward) is {said}") as told:
        still(lanes, 7)
    place = f"environment 4 of {spec.id}, episode 1 (seed {episode_seed(0, 4, 1)}), step 2"
    assert f" in {place}" in str(told.value)


def test_a_reward_that_is_no_number_in_an_episodes_last_step_is_named_with_its_episode():
    spec = EnvironmentSpec("late_fault_environment:Late", options={"fault": "text as reward"})
    lanes = LanesSpec(replace(spec, options={**spec.options, "max_episode_steps": 2}), 0, 4, 1)()
    lanes.begin(0)
    with pytest.raises(EnvironmentProblem, match=r"environment 4 of .*, episode 1 .*its last step"):
        still(lanes, 4)


@pytest.mark.parametrize(
    ("factory", "said"),
    [("dictionary_actions", "Dict actions"), ("dictionary_observations", "Dict observations")],
)
def test_spaces_that_lanes_cannot_serve_are_refused(factory: str, said: str):
    with pytest.raises(EnvironmentProblem, match=said):
        LanesSpec(EnvironmentSpec(f"lane_environments:{factory}"), 0, 0, 1)()


@pytest.mark.parametrize("spec", [DRIFTING, CARTPOLE], ids=name)
def test_wrong_counts_are_refused_with_their_numbers(spec: EnvironmentSpec):
    with pytest.raises(ValueError, match="got 0"):
        LanesSpec(spec, 0, 0, 0)()
    lanes = LanesSpec(spec, 0, 0, 2)()
    lanes.begin(0)
    with pytest.raises(ValueError, match=r"got \(3,\)"):
        lanes.step(None, np.zeros(3, int))
    with pytest.raises(ValueError, match="got 1"):
        lanes.restore([LaneHistory(0, 0, np.zeros(0, int), np.zeros(0, bool))])


def test_histories_of_two_renewals_cannot_share_a_pool():
    nothing = np.zeros(0, int), np.zeros(0, bool)
    with pytest.raises(ValueError, match=r"\[0, 2\]"):
        LanesSpec(CARTPOLE, 0, 0, 2)().restore(
            [LaneHistory(2, 0, *nothing), LaneHistory(0, 0, *nothing)]
        )


def test_envpool_refuses_a_frame_skip_of_ours():
    with pytest.raises(EnvironmentProblem, match="--frame-skip 2"):
        LanesSpec(EnvironmentSpec("CartPole-v1", "envpool", 2), 0, 0, 1)()


def test_a_spec_travels_and_its_copies_make_the_same_lanes():
    spec = LanesSpec(GYMNASIUM_CARTPOLE, 0, 0, 2, Constant(0.25))
    copy = pickle.loads(pickle.dumps(spec))
    assert (copy().begin(0) == spec().begin(0)).all()
    times = copy.step_times()
    assert times is not None
    assert times.next().tolist() == [0.25, 0.25]
    assert LanesSpec(DRIFTING, 0, 0, 2).step_times() is None
