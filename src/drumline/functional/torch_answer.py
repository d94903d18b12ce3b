"""Known answer by which a process shows whether its torch computes the bits of another's."""

# pyright: reportUnknownMemberType=false
# (torch's own annotations are incomplete)

import hashlib
import math
from functools import cache

import torch
from torch import Tensor

from drumline.functional.products import multiply_by_onednn, takes_onednn
from drumline.functional.torch_threads import one_torch_thread

_SIZES = (1, 4, 8, 17, 64)
_ROWS = (1, 3, 8, 64)


@cache
def torch_answer() -> str:
    """Return the SHA-256 of small layers and their gradients on the host, as this process does.

    Torch and its libraries choose their kernels by the processor and by variables such as
    ATEN_CPU_CAPABILITY, once, when they are loaded.
    """
    found = hashlib.sha256()
    with one_torch_thread(), torch.no_grad():
        for inputs in _SIZES:
            for outputs in _SIZES:
                weight, bias = _numbers(outputs, inputs), _numbers(outputs)
                for count in _ROWS:
                    rows = _numbers(count, inputs)
                    values = torch.nn.functional.linear(rows, weight, bias)
                    found.update(values.numpy().tobytes())
                    found.update((values.t() @ rows).numpy().tobytes())
        wide = _numbers(64, 65) * 3.0
        for part in (torch.tanh(wide), torch.exp(wide), torch.log_softmax(wide, 1), wide.sum()):
            found.update(part.numpy().tobytes())
        images = torch.nn.functional.conv2d(_numbers(2, 4, 20, 20), _numbers(8, 4, 8, 8), stride=4)
        found.update(images.numpy().tobytes())
    return found.hexdigest()


@cache
def onednn_answer() -> str:
    """Return the SHA-256 of a large product by oneDNN; empty where large products are MKL's."""
    if not takes_onednn():
        return ""
    product = torch.empty(160, 128)
    with one_torch_thread(), torch.no_grad():
        multiply_by_onednn(_numbers(160, 128), _numbers(128, 128), product)
    return hashlib.sha256(product.numpy().tobytes()).hexdigest()


def _numbers(*shape: int) -> Tensor:
    """Return float32 numbers in ±1 whose products are rounded."""
    mixed = (torch.arange(math.prod(shape), dtype=torch.int64) * 2_654_435_761 + 97) % 1_000_003
    return (mixed.double() / 500_001.5 - 1.0).float().reshape(shape)
