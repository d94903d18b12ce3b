"""Frames stored once: what is read back against the engine's own stacks, and what it takes."""

import os
from typing import Any

import numpy as np
import pytest
from campaigns import cases

from drumline.buffers.frame_tapes import RestackingFailed
from drumline.buffers.rollout import STORAGES, RolloutShape, RolloutStorage
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.lanes_spec import LanesSpec
from drumline.functional.frame_stacks import whole
from drumline.protocols import PublishedLayout
from drumline.runtime.shared_arrays import SharedArrays

ALPHA = 16


def shape_for(observation: tuple[int, ...], environments: int, stack: int, alpha: int = ALPHA):
    return RolloutShape(alpha, environments, observation, "|u1", (), "<i8", 1, 4, stack)


def made(shape: RolloutShape) -> RolloutStorage:
    arrays = {name: np.zeros(size, dtype) for name, (size, dtype) in shape.layout().items()}
    return RolloutStorage(shape, arrays)


def pool(env_id: str, **options: Any) -> EnvironmentSpec:
    return EnvironmentSpec(env_id, "envpool", options=options)


WATCHED = {
    "lives": (pool("Breakout-v5", episodic_life=True), 640, {"kept", "fresh"}),
    "games": (pool("Breakout-v5"), 640, {"fresh"}),
    "lives and time limits": (
        pool("Breakout-v5", episodic_life=True, max_episode_steps=30),
        256,
        {"kept", "cut"},
    ),
    "without fire": (
        pool("Breakout-v5", episodic_life=True, use_fire_reset=False, noop_max=1),
        256,
        {"kept"},
    ),
    "colours": (pool("Pong-v5", gray_scale=False, stack_num=3, max_episode_steps=40), 128, {"cut"}),
    "football": (
        pool("gfootball/academy_empty_goal_close-v1", max_episode_steps=20),
        48,
        {"cut"},
    ),
    "ale-py": (EnvironmentSpec("ALE/Pong-v5", options={"max_episode_steps": 30}), 64, {"cut"}),
    "gymnasium": (EnvironmentSpec("lane_environments:filmed"), 200, {"fresh", "cut"}),
    "newest first": (EnvironmentSpec("lane_environments:NewestFirst"), 64, {"cut"}),
}
"""Environments, env steps of each lane, and the kinds of begun episode that are met in them."""


@pytest.mark.parametrize(
    "name", cases(WATCHED, quick=["lives and time limits", "gymnasium", "newest first"])
)
def test_stacks_are_the_engines_own_over_lives_and_games(name: str):
    spec, steps, expected = WATCHED[name]
    lanes = LanesSpec(spec, 1, 0, 4)()
    storage = made(shape_for(lanes.observation_space.shape, 4, lanes.stack))
    rng, everybody, seen = np.random.default_rng(0), np.arange(4), set[str]()
    standing = lanes.begin(0).copy()
    for interval in range(steps // ALPHA):
        slot = interval % STORAGES
        storage.begin(interval, slice(0, 4), standing)
        own, finals = [standing], []
        for t in range(ALPHA):
            step = lanes.step(None, rng.integers(0, lanes.action_space.n, 4))
            storage.terminated[slot, t], storage.truncated[slot, t] = step[2:4]
            cut = np.flatnonzero(step.truncated)
            for lane, final in zip(cut.tolist(), step.final_observations, strict=True):
                storage.cut(interval, t, lane, final)
                finals.append((lane, t, final.copy()))
            standing = step.observations.copy()
            storage.follow((slot, t, slice(0, 4)), standing)
            own.append(standing)
            assert (storage.observed(slot, t + 1, everybody) == standing).all()
            started, flat = step.terminated | step.truncated, standing.reshape(4, lanes.stack, -1)
            old = (flat[:, :-1] != flat[:, -1:]).any(axis=(1, 2))
            seen |= {"kept"} if (started & old).any() else set()
            seen |= {"fresh"} if (step.terminated & ~old).any() else set()
        rollout = storage.read(interval)
        assert (whole(rollout.observations) == np.stack(own)).all()
        finals.sort(key=lambda final: final[:2])
        assert rollout.final_environments.tolist() == [lane for lane, _, _ in finals]
        assert rollout.final_steps.tolist() == [t for _, t, _ in finals]
        for found, (_, _, final) in zip(whole(rollout.final_observations), finals, strict=True):
            assert (found == final).all()
        seen |= {"cut"} if finals else set()
    assert seen >= expected
    lanes.close()


def test_lanes_at_different_places_are_stored_as_if_together():
    rng = np.random.default_rng(0)
    together, apart = (made(shape_for((4, 2, 2), 3, 4)) for _ in range(2))
    frames = rng.integers(0, 256, (STORAGES, ALPHA + 1, 3, 4, 2, 2), dtype=np.uint8)
    for slot in range(STORAGES):
        for t in range(1, ALPHA + 1):
            frames[slot, t, :, :-1] = frames[slot, t - 1, :, 1:]
        together.begin(slot, slice(0, 3), frames[slot, 0])
        apart.begin(slot, np.array([2, 0, 1]), frames[slot, 0, [2, 0, 1]])
        for t in range(ALPHA):
            together.follow((slot, t, slice(0, 3)), frames[slot, t + 1])
    order = [np.arange(3), np.array([1, 2]), np.array([0])]
    done = np.zeros(3, int)
    while (done < 2 * ALPHA).any():
        chosen = order[rng.integers(3)]
        chosen = chosen[done[chosen] < 2 * ALPHA]
        slot, t = np.divmod(done[chosen], ALPHA)
        apart.follow((slot, t, chosen), frames[slot, t + 1, chosen])
        done[chosen] += 1
        slot, t = np.divmod(done[chosen] - 1, ALPHA)
        assert (apart.observed(slot, t + 1, chosen) == frames[slot, t + 1, chosen]).all()
    for interval in range(2):
        mine, other = (whole(one.read(interval).observations) for one in (together, apart))
        assert (mine == frames[interval]).all()
        assert (other == frames[interval]).all()


def test_a_stack_of_unknown_frames_is_refused_with_its_environment():
    storage = made(shape_for((4, 2, 2), 2, 4))
    storage.begin(0, slice(0, 2), np.zeros((2, 4, 2, 2), np.uint8))
    storage.terminated[0, 0] = [False, True]
    with pytest.raises(RestackingFailed, match="environment 1 began an episode"):
        storage.follow((0, 0, slice(0, 2)), np.arange(32).reshape(2, 4, 2, 2).astype(np.uint8))


def test_reading_copies_no_frame():
    shape = shape_for((4, 84, 84), 3, 4)
    arrays = {name: np.zeros(size, dtype) for name, (size, dtype) in shape.layout().items()}
    rollout = RolloutStorage(shape, arrays).read(1)
    for observations in (rollout.observations, rollout.final_observations):
        assert not isinstance(observations, np.ndarray)
        assert np.shares_memory(observations.frames, arrays["storage/frames"])


def test_episodes_may_end_at_every_step():
    storage = made(shape_for((4, 2, 2), 1, 4))
    rng = np.random.default_rng(0)
    stacks = np.repeat(rng.integers(1, 256, (ALPHA + 1, 1, 1, 2, 2), dtype=np.uint8), 4, axis=2)
    storage.begin(0, slice(0, 1), stacks[0])
    storage.truncated[0] = True
    for t in range(ALPHA):
        storage.cut(0, t, 0, np.full((4, 2, 2), t, np.uint8))
        storage.follow((0, t, slice(0, 1)), stacks[t + 1])
    rollout = storage.read(0)
    assert (whole(rollout.observations) == stacks).all()
    assert whole(rollout.final_observations)[:, -1, 0, 0].tolist() == list(range(ALPHA))


def test_atari_storages_take_little_more_than_a_frame_a_transition():
    alpha, environments, frame = 128, 16, 84 * 84
    shape = shape_for((4, 84, 84), environments, 4, alpha)
    shared = SharedArrays.create(PublishedLayout(shape.layout()))
    storage = RolloutStorage(shape, shared.arrays)
    stacks = np.ones((environments, 4, 84, 84), np.uint8)
    for interval in range(STORAGES):
        storage.begin(interval, slice(0, environments), stacks)
        for t in range(alpha):
            storage.terminated[interval, t] = t % 32 == 31  # as often as lives are lost in Breakout
            stacks[:, :-1] = stacks[:, 1:]
            stacks[:, -1] += 1
            if t % 32 == 31:
                stacks[:, :-1] = stacks[:, 1:]
                stacks[:, -1] += 1
            storage.follow((interval, t, slice(0, environments)), stacks)
    taken = resident_bytes(shared.fd)
    transitions = STORAGES * alpha * environments
    assert frame < taken / transitions < 1.1 * frame
    assert taken < 150e6
    shared.close()


def resident_bytes(fd: int) -> int:
    return os.fstat(fd).st_blocks * 512
