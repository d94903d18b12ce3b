"""Known answer by which a process shows whether its NumPy computes the bits of another's."""

import hashlib
from functools import cache

import numpy as np

_SIZES = (1, 2, 4, 8, 17, 64)
_ROWS = (1, 3, 8, 64)


@cache
def numpy_answer() -> str:
    """Return the SHA-256 of small matrix products and functions, as this process computes them.

    NumPy and its BLAS choose their kernels once, when they are loaded, by the processor and by
    variables such as OPENBLAS_CORETYPE. A child that is started after one of these has changed
    would compute other bits.
    """
    found = hashlib.sha256()
    for kind in (np.float32, np.float64):
        for inputs in _SIZES:
            for outputs in _SIZES:
                matrix = _numbers(kind, inputs, outputs)
                found.update((matrix.T @ matrix).tobytes())
                for count in _ROWS:
                    rows = _numbers(kind, count, inputs)
                    found.update(np.matmul(rows, matrix).tobytes())
                    found.update(np.matmul(rows[:, None], matrix).tobytes())
        wide = _numbers(kind, 1, 257)[0] * kind(3.0)
        for function in (np.exp, np.tanh, np.sin, np.cos):
            found.update(function(wide).tobytes())
        found.update(np.log(np.abs(wide) + kind(0.1)).tobytes())
        found.update(np.add.reduce(wide).tobytes())
    return found.hexdigest()


def refuse_other_bits(answer: str) -> None:
    """Raise RuntimeError unless NumPy gives `answer` here, too; an empty one is any."""
    if answer and answer != numpy_answer():
        raise RuntimeError(
            "NumPy computes other bits in this new process than in the one that started it: a "
            "variable by which it chooses its kernels, such as OPENBLAS_CORETYPE or "
            "NPY_DISABLE_CPU_FEATURES, was changed after NumPy had been imported. Set it before "
            "Python starts"
        )


def _numbers(kind: type[np.floating], rows: int, columns: int) -> np.ndarray:
    """Return numbers in ±1 whose products are rounded; no library's draws have a part in them."""
    places = np.arange(rows * columns, dtype=np.uint64)
    mixed = (places * np.uint64(2_654_435_761) + np.uint64(97)) % np.uint64(1_000_003)
    return (mixed.astype(np.float64) / 500_001.5 - 1.0).astype(kind).reshape(rows, columns)
