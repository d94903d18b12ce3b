"""Ask and tell in a user's own loop: what it is given must be a vector, and numbers."""

import numpy as np
import pytest
import torch

from drumline.algorithms import mirrored
from drumline.tasks import Evaluate


def test_a_users_own_loop_is_told_what_is_no_vector_and_what_is_no_number():
    with pytest.raises(ValueError, match=r"one vector, got shape \(2, 3\): ravel\(\) it first"):
        mirrored.one_vector(np.zeros((2, 3)))
    task = Evaluate(0, 3, -1, 64, 7, 0.1, 0, False, True)
    assert mirrored.answer(task, torch.tensor(2.5, requires_grad=True)).fitness == 2.5
    with pytest.raises(TypeError, match="the fitness of member 3 is a ndarray, not one number"):
        mirrored.answer(task, np.zeros(2))
