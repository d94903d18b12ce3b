"""Minibatches on a device are those of the host, in the same tensors each time."""

import pytest
import torch
from algorithms.td3_examples import CONTINUOUS, DISCRETE, begun, draws

from drumline.algorithms.device_draws import DeviceDraws
from drumline.algorithms.td3_steps import TD3Settings
from drumline.types import Minibatch


def copied(batch: Minibatch) -> list[bytes]:
    return [part.numpy().tobytes() for part in batch]


@pytest.mark.parametrize("settings", [CONTINUOUS, DISCRETE], ids=["continuous", "discrete"])
def test_each_draw_has_the_bytes_of_the_hosts_in_the_tensors_of_the_one_before(
    settings: TD3Settings,
):
    expected = begun(draws(settings))
    found = DeviceDraws(begun(draws(settings)), torch.device("cpu", 0))
    batches, seen = set(), set()
    for _ in range(10):
        one, other = expected.draw(60), found.draw(60)
        assert copied(other) == copied(one)
        assert [part.shape for part in other] == [part.shape for part in one]
        assert [part.dtype for part in other] == [part.dtype for part in one]
        batches.add(id(other))
        seen.add(copied(one)[0])
    assert len(batches) == 1
    assert len(seen) == 10


def test_observations_alone_do_not_change_the_last_minibatch():
    expected = begun(draws(CONTINUOUS))
    found = DeviceDraws(begun(draws(CONTINUOUS)), torch.device("cpu", 0))
    batch = copied(expected.draw(60))
    drawn = found.draw(60)
    one = expected.draw_observations(60).numpy().tobytes()
    assert found.draw_observations(60).numpy().tobytes() == one
    assert copied(drawn) == batch
