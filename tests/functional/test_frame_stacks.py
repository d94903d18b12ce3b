"""Place of a row's stack on its tape, by hand."""

import numpy as np

from drumline.functional.frame_stacks import (
    Row,
    follow,
    keeps_old_frames,
    split,
    stack_indices,
    stacked,
    whole,
)
from drumline.types import StackedFrames


def test_a_stack_repeats_the_oldest_frame_within_its_reach():
    position, reach = np.array([5, 5, 5, 5]), np.array([0, 1, 2, 3], np.uint8)
    expected = [[5, 5, 5, 5], [4, 4, 4, 5], [3, 3, 4, 5], [2, 3, 4, 5]]
    assert stack_indices(position, reach, 4).tolist() == expected


def test_reach_grows_with_each_frame_and_falls_at_a_fresh_start_only():
    row = Row(np.array([3, 3, 3]), np.array([0, 0, 3], np.uint8))
    started, kept = np.array([False, True, True]), np.array([True, True, False])
    row = follow(row, started, kept, np.zeros(3, bool), 4)
    assert row.position.tolist() == [4, 5, 4]
    assert row.reach.tolist() == [1, 2, 0]
    assert row.reach.dtype == np.uint8


def test_the_last_frame_of_a_truncated_episode_lies_before_the_first_of_the_next():
    row = Row(np.array([6, 6]), np.array([2, 2], np.uint8))
    both = np.array([True, True])
    row = follow(row, both, np.array([False, True]), both, 4)
    assert row.position.tolist() == [8, 8]
    assert row.reach.tolist() == [0, 3]


def test_a_stack_of_equal_frames_holds_none_from_before():
    stacks = np.zeros((2, 4, 3, 3), np.uint8)
    stacks[1, 0, 2, 2] = 1
    assert keeps_old_frames(stacks).tolist() == [False, True]


def test_indices_have_the_shape_of_the_rows():
    position = np.full((5, 2), 7)
    assert stack_indices(position, np.zeros((5, 2), np.uint8), 4).shape == (5, 2, 4)


def test_an_observation_is_its_frames_one_after_the_other_oldest_first():
    observations = np.arange(2 * 6 * 3).reshape(2, 6, 3)
    stacks = split(observations, 3)
    assert stacks.shape == (2, 3, 2, 3)
    assert (stacks[1, 2] == observations[1, 4:]).all()
    frames = StackedFrames(stacks.reshape(6, 2, 3), np.arange(6).reshape(2, 3))
    assert (stacked(frames) == observations).all()
    assert (whole(frames) == whole(observations)).all()
