"""Fused steps against the plain loop over float64 scalars and against torch.optim."""

import hashlib
import math

import pytest
import torch
from torch import Tensor

from drumline.functional.torch_steps import adam_step_, clip_by_global_norm_, rmsprop_step_


def gradients(steps: int, size: int) -> Tensor:
    return torch.randn(steps, size, generator=torch.Generator().manual_seed(1))


def run_adam(start: Tensor, steps: Tensor) -> list[Tensor]:
    parameters, first, second = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
    for count, gradient in enumerate(steps, start=1):
        adam_step_(parameters, gradient, first, second, count, learning_rate=0.01)
    return [parameters, first, second]


def run_rmsprop(start: Tensor, steps: Tensor) -> list[Tensor]:
    parameters, second = start.clone(), torch.zeros_like(start)
    for gradient in steps:
        rmsprop_step_(parameters, gradient, second, learning_rate=0.01)
    return [parameters, second]


def test_adam_is_the_papers_loop():
    start, steps = torch.linspace(-1, 1, 5), gradients(20, 5)
    plain, m, v = start.tolist(), [0.0] * 5, [0.0] * 5
    for t, gradient in enumerate(steps.tolist(), start=1):
        for j, g in enumerate(gradient):
            m[j] = 0.9 * m[j] + 0.1 * g
            v[j] = 0.999 * v[j] + 0.001 * g * g
            m_hat, v_hat = m[j] / (1 - 0.9**t), v[j] / (1 - 0.999**t)
            plain[j] -= 0.01 * m_hat / (math.sqrt(v_hat) + 1e-5)
    parameters, first, second = run_adam(start, steps)
    assert parameters.tolist() == pytest.approx(plain, abs=2e-6)
    assert first.tolist() == pytest.approx(m, abs=2e-6)
    assert second.tolist() == pytest.approx(v, abs=2e-6)


def test_rmsprop_is_the_plain_loop_with_epsilon_outside_the_root():
    start, steps = torch.linspace(-1, 1, 5), gradients(20, 5)
    plain, v = start.tolist(), [0.0] * 5
    for gradient in steps.tolist():
        for j, g in enumerate(gradient):
            v[j] = 0.99 * v[j] + 0.01 * g * g
            plain[j] -= 0.01 * g / (math.sqrt(v[j]) + 1e-5)
    parameters, second = run_rmsprop(start, steps)
    assert parameters.tolist() == pytest.approx(plain, abs=2e-6)
    assert second.tolist() == pytest.approx(v, abs=2e-6)


def test_steps_are_those_of_torchs_optimisers():
    start, steps = torch.linspace(-1, 1, 1_001), gradients(10, 1_001)
    for ours, make in (
        (run_adam, lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-5)),
        (run_rmsprop, lambda p: torch.optim.RMSprop(p, lr=0.01, alpha=0.99, eps=1e-5)),
    ):
        parameter = torch.nn.Parameter(start.clone())
        optimizer = make([parameter])
        for gradient in steps:
            parameter.grad = gradient.clone()
            optimizer.step()
        torch.testing.assert_close(ours(start, steps)[0], parameter.detach(), rtol=0, atol=2e-6)


@pytest.mark.parametrize("run", [run_adam, run_rmsprop])
def test_threads_do_not_change_a_bit(run):
    size = 100_003
    start, steps = torch.linspace(-1, 1, size), gradients(2, size)
    before = torch.get_num_threads()
    digests = set()
    try:
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            data = b"".join(part.numpy().tobytes() for part in run(start, steps))
            digests.add(hashlib.sha256(data).digest())
    finally:
        torch.set_num_threads(before)
    assert len(digests) == 1


def test_a_step_leaves_the_gradient_alone_and_works_where_it_requires_one():
    parameters = torch.zeros(100, requires_grad=True)
    gradient = gradients(1, 100)[0]
    before, second = gradient.clone(), torch.zeros(100)
    rmsprop_step_(parameters, gradient, second, learning_rate=0.1)
    adam_step_(parameters, gradient, torch.zeros(100), second, 1, learning_rate=0.1)
    assert torch.equal(gradient, before)
    assert parameters.grad_fn is None


def test_counting_adams_steps_from_0_is_refused():
    x = torch.zeros(1)
    with pytest.raises(ValueError, match="got 0"):
        adam_step_(x, x, x, x, 0, learning_rate=0.1)


def test_a_long_gradient_is_cut_to_the_norm_and_a_short_one_kept():
    gradient = torch.tensor([3.0, 4.0])
    assert clip_by_global_norm_(gradient, 10.0) == 5.0
    assert gradient.tolist() == [3.0, 4.0]
    assert clip_by_global_norm_(gradient, 0.5) == 5.0
    assert gradient.tolist() == pytest.approx([0.3, 0.4])
    assert clip_by_global_norm_(torch.zeros(3), 0.5) == 0.0


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite_is_not_made_to_look_healthy(bad: float):
    gradient = torch.tensor([1.0, bad])
    assert not math.isfinite(clip_by_global_norm_(gradient, 0.5))
    assert bool(gradient.isnan().all())
