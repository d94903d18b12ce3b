"""Rows that are stacked when they are computed on, against the same rows in one piece."""

import numpy as np
import torch

from drumline.algorithms.learned_network import LearnedNetwork
from drumline.algorithms.microbatches import Microbatches
from drumline.algorithms.stacked_rows import StackedRows
from drumline.functional.frame_stacks import stack_indices, stacked
from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic import initial_parameters
from drumline.policies.network_spec import NetworkSpec
from drumline.types import StackedFrames


def film(steps: int = 6, environments: int = 2, side: int = 36) -> StackedFrames:
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (40, 1, side, side), dtype=np.uint8)
    position = rng.integers(3, 40, (steps, environments))
    reach = rng.integers(0, 4, (steps, environments)).astype(np.uint8)
    return StackedFrames(frames, stack_indices(position, reach, 4))


def test_rows_are_chosen_before_they_are_stacked():
    rows = StackedRows.of(film())
    whole = torch.from_numpy(stacked(film()).reshape(12, 4, 36, 36))
    assert len(rows) == 12
    assert torch.equal(rows.stacked(), whole)
    assert torch.equal(rows[3:9][torch.tensor([5, 0])].stacked(), whole[[8, 3]])
    assert len(rows[12:]) == 0


def test_frames_are_not_copied_until_a_batch_is_computed_on():
    frames = film()
    rows = StackedRows.of(frames)[2:7]
    before = rows.stacked()[0, 3].clone()
    frames.frames[frames.indices.reshape(-1, 4)[2, 3]] += 1
    assert torch.equal(rows.stacked()[0, 3], before + 1)


def test_a_network_computes_the_same_bits_of_rows_and_of_whole_stacks():
    head = ActionHead("categorical", (3,))
    spec = NetworkSpec((4, 36, 36), "|u1", head, network="nature-cnn")
    network = LearnedNetwork(
        spec, initial_parameters(spec, 0), precision="fp32", microbatches=Microbatches(5)
    )
    rows, whole = StackedRows.of(film()), torch.from_numpy(stacked(film()).reshape(12, 4, 36, 36))
    for mine, other in zip(
        network.evaluate(network.live, rows), network.evaluate(network.live, whole), strict=True
    ):
        assert torch.equal(mine, other)
    assert len(network.evaluate(network.live, rows[12:]).values) == 0
