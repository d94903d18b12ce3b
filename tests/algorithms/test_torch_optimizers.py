"""Optimiser steps on one flat vector against torch's own."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from drumline.algorithms.torch_optimizers import TorchAdam, TorchRMSProp

SIZE = 6
RATES = (0.1, 0.02, 0.3, 0.001)
Build = Callable[[], Any]


def gradients() -> list[torch.Tensor]:
    rng = np.random.default_rng(0)
    return [torch.from_numpy(rng.standard_normal(SIZE).astype(np.float32)) for _ in RATES]


@pytest.mark.parametrize(
    ("build", "theirs"),
    [
        (lambda: TorchAdam(SIZE), lambda p: torch.optim.Adam(p, eps=1e-5)),
        (lambda: TorchAdam(SIZE, epsilon=0.1), lambda p: torch.optim.Adam(p, eps=0.1)),
        (lambda: TorchRMSProp(SIZE), lambda p: torch.optim.RMSprop(p, alpha=0.99, eps=1e-5)),
        (
            lambda: TorchRMSProp(SIZE, alpha=0.9, epsilon=0.1),
            lambda p: torch.optim.RMSprop(p, alpha=0.9, eps=0.1),
        ),
    ],
)
def test_steps_are_torchs_own(build: Build, theirs: Callable[[Any], torch.optim.Optimizer]):
    mine, optimizer = torch.linspace(-1, 1, SIZE), build()
    parameter = torch.nn.Parameter(mine.clone())
    reference = theirs([parameter])
    for rate, gradient in zip(RATES, gradients(), strict=True):
        optimizer.step(mine, gradient.clone(), rate)
        parameter.grad = gradient.clone()
        reference.param_groups[0]["lr"] = rate
        reference.step()
        assert mine.numpy() == pytest.approx(parameter.detach().numpy(), abs=1e-6)
    assert optimizer.steps == len(RATES)


@pytest.mark.parametrize("build", [lambda: TorchAdam(SIZE), lambda: TorchRMSProp(SIZE)])
def test_a_step_goes_on_from_saved_moments_bit_for_bit(build: Build):
    one, other = build(), build()
    mine = torch.linspace(-1, 1, SIZE)
    for gradient in gradients()[:2]:
        one.step(mine, gradient, 0.1)
    theirs = mine.clone()
    other.load(one.tensors(), one.steps)
    saved = one.tensors()
    for gradient in gradients()[2:]:
        one.step(mine, gradient, 0.1)
        other.step(theirs, gradient, 0.1)
    assert mine.numpy().tobytes() == theirs.numpy().tobytes()
    assert all(saved[name].tobytes() != tensor.tobytes() for name, tensor in one.tensors().items())


@pytest.mark.parametrize("build", [lambda: TorchAdam(SIZE), lambda: TorchRMSProp(SIZE)])
def test_moments_that_are_missing_or_of_another_size_are_named(build: Build):
    for name in build().tensors():
        tensors = build().tensors()
        tensors[name] = np.zeros(SIZE + 1, np.float32)
        with pytest.raises(ValueError, match=rf"'{name}' of shape \[{SIZE}\]"):
            build().load(tensors, 1)
        del tensors[name]
        with pytest.raises(ValueError, match=name):
            build().load(tensors, 1)
