"""Sums with one pass a term: sum ← sum + w · x, rounded once, by torch's addition.

Two passes of NumPy, a product and a sum, take 1.7 times as long. A fused kernel may round the
last elements of an array differently from the others; `fused_addition` looks whether this one does.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch

Addition = Callable[[np.ndarray, np.ndarray, np.float32], None]
"""(sums, x, w) → sums += w x in place; float32 arrays of one shape."""

_LONGEST = 1_100
_SHIFTS = 20


def add_scaled(sums: np.ndarray, values: np.ndarray, factor: np.float32) -> None:
    """Add `factor · values` to `sums`."""
    if not values.flags.writeable:
        values = values.copy()  # torch knows no arrays that cannot be written
    target = torch.as_tensor(sums)
    torch.add(target, torch.as_tensor(values), alpha=float(factor), out=target)


@cache
def fused_addition() -> Addition | None:
    """Return `add_scaled` if it rounds every element once, whatever its place and the length.

    A build or a processor without fused instructions rounds twice, as NumPy's two passes do.
    """
    rng = np.random.default_rng(0)
    sums, values = rng.standard_normal((2, _LONGEST + _SHIFTS), np.float32)
    factor = np.float32(-0.7)
    with one_torch_thread():
        whole = sums.copy()
        add_scaled(whole, values, factor)
        wide = sums.astype(np.longdouble) + values.astype(np.longdouble) * np.longdouble(factor)
        if whole.tobytes() != wide.astype(np.float32).tobytes():
            return None
        for shift in range(_SHIFTS):
            for length in (1, shift + 1, 17 + shift, _LONGEST - shift, _LONGEST):
                part = sums[shift : shift + length].copy()
                add_scaled(part, values[shift : shift + length], factor)
                if part.tobytes() != whole[shift : shift + length].tobytes():
                    return None
                inside = sums.copy()
                add_scaled(inside[shift : shift + length], values[:length], factor)
                apart = sums[shift : shift + length].copy()
                add_scaled(apart, values[:length].copy(), factor)
                if inside[shift : shift + length].tobytes() != apart.tobytes():
                    return None
    return add_scaled


def roundings() -> str:
    """Return how sums of `FUSED_FROM` parameters and more round here, in words of config.json."""
    return "two roundings a term" if fused_addition() is None else "one rounding a term"


@contextmanager
def one_torch_thread() -> Generator[None]:
    """Let each operator of torch's run on the thread that calls it, meanwhile."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
