import random

import numpy as np
import torch

from drumline import seeding


def test_global_generators_are_as_their_own_packages_seed_them():
    seeding.seed_globals(5)
    given = torch.Generator().manual_seed(5)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=given))
    assert np.random.rand() == np.random.RandomState(5).rand()
    assert random.random() == random.Random(5).random()


def test_what_goes_on_around_an_episode_keeps_its_numbers():
    seeding.seed_globals(1)
    drawn = torch.rand(1), np.random.rand(), random.random()
    seeding.seed_globals(1)
    with seeding.kept_globals():
        seeding.seed_globals(9)
    assert (torch.rand(1), np.random.rand(), random.random()) == drawn
