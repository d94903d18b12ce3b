"""Random streams with names: the only module that seeds a generator.

A stream is named by the root seed and by *what is computed* (role, index, counter), never by the
process that computes it. No worker index enters a seed.
"""

import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

_MASK = (1 << 64) - 1


def key(root_seed: int, role: str, *names: int | str) -> int:
    """Return the 128-bit Philox key of a named stream: SHA-256 over its name.

    >>> key(0, "episode", 3) == key(0, "episode", 3)
    True
    >>> key(0, "episode", 3) == key(0, "episode", 4)
    False
    """
    name = "\x1f".join([str(int(root_seed)), role, *(str(part) for part in names)])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "little")


def generator(root_seed: int, role: str, *names: int | str) -> np.random.Generator:
    """Return the generator of a named stream (Philox4x64-10; Salmon et al. 2011)."""
    return np.random.Generator(np.random.Philox(key=key(root_seed, role, *names)))


def raw(root_seed: int, count: int, role: str, *names: int | str) -> np.ndarray:
    """Return the first `count` raw uint64 words of a named stream."""
    return np.random.Philox(key=key(root_seed, role, *names)).random_raw(count)


def seeds(root_seed: int, count: int, role: str, *names: int | str) -> list[int]:
    """Return `count` seeds in [0, 2³¹); a longer list begins with the shorter one.

    >>> seeds(7, 4, "episode", 0)[:2] == seeds(7, 2, "episode", 0)
    True
    """
    return (raw(root_seed, count, role, *names) & np.uint64(0x7FFFFFFF)).tolist()


def counter_generator(stream_key: int, *counter: int) -> np.random.Generator:
    """Return a generator at a 256-bit counter of up to three words under `stream_key`.

    The lowest word is left to the generator itself, so neighbouring counters never overlap
    within 2⁶⁴ draws.
    """
    words = [0, *(int(word) & _MASK for word in counter)] + [0] * (3 - len(counter))
    return np.random.Generator(np.random.Philox(key=stream_key, counter=words))


def seed_globals(seed: int) -> None:
    """Seed Python's, NumPy's and (where it is loaded) torch's global generators."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    if "torch" in sys.modules:
        seed_torch(seed)


@contextmanager
def kept_globals() -> Iterator[None]:
    """Restore the global generators at the end: the caller's random numbers stay the same."""
    torch: Any = sys.modules.get("torch")
    python, numpy = random.getstate(), np.random.get_state()
    of_torch = None if torch is None else torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None:
            torch.set_rng_state(of_torch)


def draws(call: Callable[[], object]) -> bool:
    """Return whether a call takes numbers from Python's, NumPy's or torch's global generator."""
    with kept_globals():
        seed_globals(0)
        call()
        after = _next_numbers()
        seed_globals(0)
        return after != _next_numbers()


def _next_numbers() -> tuple[float, ...]:
    torch: Any = sys.modules.get("torch")
    of_torch = () if torch is None else (float(torch.rand(())),)
    return (random.random(), float(np.random.random()), *of_torch)


def seed_torch(seed: int) -> None:
    """Seed torch's global generator, which must be loaded; the caller has forked it."""
    torch: Any = sys.modules["torch"]
    if _accelerator_there():
        torch.manual_seed(seed)
    else:
        # manual_seed formats the stack for every kind of accelerator that is not there: a
        # millisecond or more in each episode.
        torch.default_generator.manual_seed(seed)


@cache
def _accelerator_there() -> bool:
    torch: Any = sys.modules["torch"]
    return bool(torch.accelerator.is_available())
