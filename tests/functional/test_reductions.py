import math

import pytest
import torch

from drumline.functional.reductions import euclidean_norm, fixed_order_sum


@pytest.mark.parametrize("size", [1, 16_384, 16_385, 100_003])
def test_sums_and_norms_are_those_of_exact_arithmetic(size: int):
    values = torch.randn(size, generator=torch.Generator().manual_seed(0))
    exact = values.double().tolist()
    assert float(fixed_order_sum(values)) == pytest.approx(math.fsum(exact), abs=1e-3)
    norm = math.sqrt(math.fsum(x * x for x in exact))
    assert euclidean_norm(values) == pytest.approx(norm, rel=1e-6)


def test_threads_do_not_change_a_bit():
    values = torch.randn(300_007, generator=torch.Generator().manual_seed(0))
    before = torch.get_num_threads()
    seen = set()
    try:
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            seen.add((float(fixed_order_sum(values)), euclidean_norm(values)))
    finally:
        torch.set_num_threads(before)
    assert len(seen) == 1


def test_a_sum_has_ones_as_gradient():
    values = torch.zeros(40_000, requires_grad=True)
    fixed_order_sum(values).backward()
    assert values.grad is not None
    assert bool((values.grad == 1).all())
