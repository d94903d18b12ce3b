import math

import pytest
import torch

from drumline.functional.reductions import euclidean_norm


@pytest.mark.parametrize("size", [1, 16_384, 16_385, 100_003])
def test_norms_are_those_of_exact_arithmetic(size: int):
    values = torch.randn(size, generator=torch.Generator().manual_seed(0))
    exact = values.double().tolist()
    norm = math.sqrt(math.fsum(x * x for x in exact))
    assert euclidean_norm(values) == pytest.approx(norm, rel=1e-6)


def test_threads_do_not_change_a_bit():
    values = torch.randn(300_007, generator=torch.Generator().manual_seed(0))
    before = torch.get_num_threads()
    seen = set()
    try:
        for threads in (1, 2, 3, 5):
            torch.set_num_threads(threads)
            seen.add(euclidean_norm(values))
    finally:
        torch.set_num_threads(before)
    assert len(seen) == 1
