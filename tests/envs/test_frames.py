"""Re-stacked frames against the engine's own stacks, over lives, games and time limits."""

import numpy as np
import pytest

from drumline.envs.frames import Row, follow, keeps_old_frames, stack, stack_indices
from drumline.envs.lanes import LanesSpec
from drumline.envs.make import EnvironmentSpec

DEPTH = 4


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"episodic_life": True}, 700),
        ({}, 700),
        ({"episodic_life": True, "max_episode_steps": 30}, 250),
        ({"episodic_life": True, "use_fire_reset": False, "noop_max": 1}, 250),
    ],
    ids=["a life is an episode", "a game is an episode", "with a time limit", "without fire"],
)
def test_stacks_are_the_engines_own_over_lives_and_games(options: dict, steps: int):
    lanes = LanesSpec(EnvironmentSpec("Breakout-v5", "envpool", options=options), 1, 0, 4)()
    observations = lanes.begin(0).copy()
    row = Row(np.full(4, DEPTH - 1), np.zeros(4, np.uint8))
    tapes = np.zeros((2 * steps + DEPTH, 4, *observations.shape[2:]), np.uint8)
    every = np.arange(4)
    tapes[row.position, every] = observations[:, -1]
    rng = np.random.default_rng(0)
    lives_lost = games_over = 0
    for _ in range(steps):
        step = lanes.step(None, rng.integers(0, 4, 4))
        started = step.terminated | step.truncated
        kept = keeps_old_frames(step.observations)
        row = follow(row, started, kept, DEPTH)
        old = np.flatnonzero(started & kept)
        tapes[row.position[old] - 1, old] = step.observations[old, -2]
        tapes[row.position, every] = step.observations[:, -1]
        for lane in every:
            own = stack(tapes[:, lane], row.position[lane], row.reach[lane], DEPTH)
            assert (own == step.observations[lane]).all()
        lives_lost += len(old)
        games_over += int((started & ~kept).sum())
    assert games_over > 1
    assert lives_lost > 3 or not options.get("episodic_life")
    lanes.close()


def test_a_stack_repeats_the_oldest_frame_within_its_reach():
    tape = np.arange(10) * 11
    position, reach = np.array([5, 5, 5, 5]), np.array([0, 1, 2, 3], np.uint8)
    expected = [[55, 55, 55, 55], [44, 44, 44, 55], [33, 33, 44, 55], [22, 33, 44, 55]]
    assert stack(tape, position, reach, 4).tolist() == expected


def test_reach_grows_with_each_frame_and_falls_at_a_fresh_start_only():
    row = Row(np.array([3, 3, 3]), np.array([0, 0, 3], np.uint8))
    started, kept = np.array([False, True, True]), np.array([True, True, False])
    row = follow(row, started, kept, 4)
    assert row.position.tolist() == [4, 5, 4]
    assert row.reach.tolist() == [1, 2, 0]
    assert row.reach.dtype == np.uint8


def test_a_stack_of_equal_frames_holds_none_from_before():
    stacks = np.zeros((2, 4, 3, 3), np.uint8)
    stacks[1, 0, 2, 2] = 1
    assert keeps_old_frames(stacks).tolist() == [False, True]


def test_indices_have_the_shape_of_the_rows():
    position = np.full((5, 2), 7)
    assert stack_indices(position, np.zeros((5, 2), np.uint8), 4).shape == (5, 2, 4)
