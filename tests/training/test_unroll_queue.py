"""Unrolls leave in the order in which they were noticed, each with its own columns."""

from typing import Any

import numpy as np

from drumline.buffers.rollout import RolloutShape, RolloutStorage
from drumline.functional.frame_stacks import whole
from drumline.training.unroll_queue import UnrollQueue
from drumline.types import Rollout

SHAPE = RolloutShape(2, 3, (1,), "<f4", (), "<i8", 1, 2)


class Words:
    """The part of an exchange that a queue looks at."""

    def __init__(self) -> None:
        self.finished = np.zeros(3, np.int64)
        self.limits: dict[int, int] = {}

    def release_to(self, environments: np.ndarray, intervals: np.ndarray) -> None:
        self.limits[int(environments[0])] = int(intervals[0])


def filled() -> tuple[RolloutStorage, dict[str, np.ndarray]]:
    """A storage in which every number says (slot, t, environment)."""
    arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in SHAPE.layout().items()}
    storage = RolloutStorage(SHAPE, arrays)
    grid = np.indices((2, 3, 3))
    arrays["storage/observations"][..., 0] = 100 * grid[0] + 10 * grid[1] + grid[2]
    storage.rewards[:] = (100 * grid[0] + 10 * grid[1] + grid[2])[:, :2]
    storage.cut(1, 0, 2, np.array([7.0], np.float32))
    storage.cut(0, 1, 2, np.array([8.0], np.float32))
    storage.truncated[1, 0, 2] = storage.truncated[0, 1, 2] = True
    return storage, arrays


def queue_on(words: Words, storage: RolloutStorage, seen: list[Any]) -> UnrollQueue:
    def fold(environment: int, unroll: Rollout, update: int) -> np.ndarray:
        seen.append((environment, unroll.interval, update))
        return unroll.rewards / 2

    return UnrollQueue(storage, words, 0, fold)


def test_unrolls_are_taken_in_order_and_their_room_is_given_back():
    words, seen = Words(), []
    queue = queue_on(words, filled()[0], seen)
    assert queue.waiting() == 0
    words.finished[:] = 1, 0, 4
    assert queue.waiting() == 2  # environment 2 has filled both of its unrolls
    words.finished[:] = 3, 2, 4
    assert queue.waiting() == 4
    rollout = queue.take(3, 5)
    assert seen == [(2, 0, 5), (2, 1, 5), (0, 0, 5)]
    assert words.limits == {2: 3, 0: 2}
    assert queue.waiting() == 1
    assert rollout.interval == 5
    # the columns of slot 0 come first
    assert whole(rollout.observations)[:, :, 0].tolist() == [
        [2, 0, 102],
        [12, 10, 112],
        [22, 20, 122],
    ]
    assert rollout.rewards.tolist() == [[1, 0, 51], [6, 5, 56]]
    assert rollout.final_environments.tolist() == [0, 2]
    assert rollout.final_steps.tolist() == [1, 0]
    assert whole(rollout.final_observations)[:, 0].tolist() == [8, 7]


def test_what_was_taken_is_a_copy():
    words, (storage, arrays) = Words(), filled()
    queue = queue_on(words, storage, [])
    words.finished[:] = 2
    assert queue.waiting() == 3
    rollout = queue.take(2, 0)
    before = np.array(rollout.observations)
    arrays["storage/observations"][:] = -1
    assert np.array_equal(rollout.observations, before)


def test_the_lag_is_that_of_every_step():
    words, (storage, _) = Words(), filled()
    queue = queue_on(words, storage, [])
    storage.versions[0] = [[3, 4, 9], [4, 4, 9]]
    words.finished[:] = 2, 2, 0
    queue.waiting()
    queue.take(2, 5)
    assert sorted(queue.lags.tolist()) == [1, 1, 1, 2]


def test_stacks_of_frames_are_made_before_their_frames_may_be_overwritten():
    shape = RolloutShape(2, 3, (2, 1, 1), "|u1", (), "<i8", 1, 2, stack=2)
    arrays = {name: np.zeros(size, dtype) for name, (size, dtype) in shape.layout().items()}
    storage = RolloutStorage(shape, arrays)
    everybody = np.arange(3)
    seen = np.zeros((3, 3, 2, 1, 1), np.uint8)  # [t, environment]: two frames
    for t in range(3):
        seen[t, :, 1, 0, 0] = 10 * t + everybody
        seen[t, :, 0] = seen[max(t - 1, 0), :, 1]
    storage.begin(0, everybody, seen[0])
    for t in range(2):
        storage.follow((0, t, everybody), seen[t + 1])
    words = Words()
    queue = queue_on(words, storage, [])
    words.finished[:] = 2, 0, 2
    assert queue.waiting() == 2
    taken = queue.take(2, 0).observations
    arrays["storage/frames"][:] = 255
    assert np.array_equal(whole(taken), seen[:, [0, 2]])
