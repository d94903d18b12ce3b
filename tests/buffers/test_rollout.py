"""Two storages in rotation, and the side list of truncated episodes."""

from typing import Any

import numpy as np
import pytest

from drumline.buffers.rollout import RolloutShape, RolloutStorage

SHAPE = RolloutShape(
    alpha=4,
    environments=3,
    observation_shape=(2,),
    observation_dtype="<f4",
    action_shape=(),
    action_dtype="<i8",
    noise_size=1,
    truncations=2,
)
BY_STEP = ("actions", "rewards", "terminated", "truncated", "log_probs", "values")


def made(shape: RolloutShape = SHAPE) -> tuple[RolloutStorage, dict[str, np.ndarray]]:
    arrays = {name: np.zeros(size, dtype) for name, (size, dtype) in shape.layout().items()}
    return RolloutStorage(shape, arrays), arrays


def test_interval_k_lives_in_storage_k_mod_2():
    storage, arrays = made()
    for name in ("observations", *BY_STEP):
        array = arrays[f"storage/{name}"]
        array[0], array[1] = 0, 1
    for interval in range(5):
        rollout = storage.read(interval)
        assert rollout.interval == interval
        for name in ("observations", *BY_STEP):
            assert (getattr(rollout, name) == interval % 2).all()


def test_reading_copies_nothing_that_is_large():
    storage, arrays = made()
    rollout = storage.read(3)
    for name in ("observations", *BY_STEP):
        view: Any = getattr(rollout, name)
        assert np.shares_memory(view, arrays[f"storage/{name}"][1])
        assert not np.shares_memory(view, arrays[f"storage/{name}"][0])
    assert rollout.observations.shape == (5, 3, 2)
    for name in BY_STEP:
        assert getattr(rollout, name).shape == (4, 3)


def test_arrays_have_the_shapes_and_types_that_were_asked_for():
    shape = RolloutShape(4, 3, (1, 8, 8), "|u1", (2,), "<f4", 2, 1)
    rollout = made(shape)[0].read(0)
    assert (rollout.observations.shape, rollout.observations.dtype) == ((5, 3, 1, 8, 8), np.uint8)
    assert (rollout.actions.shape, rollout.actions.dtype) == ((4, 3, 2), np.float32)
    assert rollout.final_observations.shape == (0, 1, 8, 8)
    assert {getattr(rollout, name).dtype for name in ("rewards", "log_probs", "values")} == {
        np.dtype(np.float32)
    }
    assert rollout.terminated.dtype == rollout.truncated.dtype == np.bool_


def test_truncated_episodes_are_listed_by_environment_and_then_by_time():
    storage, _ = made()
    for t, environment in ((0, 2), (1, 0), (3, 0), (2, 2)):
        storage.cut(1, t, environment, np.array([t, environment], np.float32))
    rollout = storage.read(1)
    assert rollout.final_environments.tolist() == [0, 0, 2, 2]
    assert rollout.final_steps.tolist() == [1, 3, 0, 2]
    assert rollout.final_observations.tolist() == [[1, 0], [3, 0], [0, 2], [2, 2]]
    assert len(storage.read(0).final_steps) == 0


def test_an_interval_that_begins_forgets_only_its_own_environments_truncations():
    storage, _ = made()
    last = np.ones(2, np.float32)
    for interval in (0, 1):
        for environment in range(3):
            storage.cut(interval, 0, environment, last)
    storage.begin(2, np.array([0, 2]), np.zeros((2, 2)))
    assert storage.read(2).final_environments.tolist() == [1]
    assert storage.read(1).final_environments.tolist() == [0, 1, 2]
    storage.begin(3, slice(0, 2), np.zeros((2, 2)))
    assert storage.read(3).final_environments.tolist() == [2]


def test_what_was_listed_outlives_the_storages_next_interval():
    storage, _ = made()
    storage.cut(0, 1, 1, np.full(2, 7, np.float32))
    rollout = storage.read(0)
    storage.begin(2, slice(0, 3), np.zeros((3, 2)))
    storage.cut(2, 3, 1, np.full(2, 8, np.float32))
    assert rollout.final_steps.tolist() == [1]
    assert rollout.final_observations.tolist() == [[7, 7]]


def test_more_truncations_than_there_is_room_for_are_refused_and_nothing_is_overwritten():
    storage, _ = made()
    for t in (0, 2):
        storage.cut(0, t, 1, np.full(2, t, np.float32))
    message = (
        r"environment 1 was truncated more than 2 times within one interval of 4 steps, "
        r"and --truncations-per-interval makes room for 2"
    )
    with pytest.raises(RuntimeError, match=message):
        storage.cut(0, 3, 1, np.full(2, 3, np.float32))
    assert storage.read(0).final_steps.tolist() == [0, 2]
