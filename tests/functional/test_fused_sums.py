"""Fused sums: one rounding a term, with bits that no thread, span, place or length changes."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from drumline.functional import fused_sums, perturbation
from drumline.functional.fused_sums import add_scaled, fused_addition, one_torch_thread
from drumline.functional.perturbation import (
    FUSED_FROM,
    TILE,
    counter_noise,
    table_noise,
    weighted_noise_sum,
)

SIZE = FUSED_FROM + TILE + 77
WEIGHTS = [0.5, -0.25, 0.0, 1.0, -2.0, 0.125]


def noise_of(source: str) -> perturbation.Noise:
    if source == "counter":
        return counter_noise(1)
    table = np.random.default_rng(0).standard_normal(SIZE + 999, np.float32)
    return table_noise(table, SIZE, 1)


@pytest.fixture
def checked_anew() -> Iterator[None]:
    fused_addition.cache_clear()
    yield
    fused_addition.cache_clear()


@pytest.mark.parametrize("source", ["table", "counter"])
@pytest.mark.parametrize("cut", [False, True])
def test_a_large_sum_has_the_same_bits_on_any_threads_and_is_the_plain_loop(source: str, cut: bool):
    noise = noise_of(source)
    keys = noise.keys(0, 0, len(WEIGHTS))
    ranges = [(7 * k, SIZE - TILE * k - 3) for k in range(len(keys))] if cut else None
    sums = [
        weighted_noise_sum(noise.read, keys, WEIGHTS, SIZE, ranges=ranges, threads=threads)
        for threads in (1, 2, 3, 16)
    ]
    assert len({total.tobytes() for total in sums}) == 1
    expected, scratch = np.zeros(SIZE, np.float32), np.empty(SIZE, np.float32)
    for _, k in sorted(zip(keys, range(len(keys)), strict=True)):
        start, stop = (0, SIZE) if ranges is None else ranges[k]
        whole = noise.read(keys[k], 0, SIZE, scratch)
        add_scaled(expected[start:stop], whole[start:stop], np.float32(WEIGHTS[k]))
    assert sums[0].tobytes() == expected.tobytes()


def test_a_sum_is_as_near_to_the_exact_one_as_two_passes():
    noise = noise_of("table")
    keys = noise.keys(0, 0, 200)
    weights = np.random.default_rng(2).standard_normal(200).tolist()
    exact, scratch = np.zeros(SIZE), np.empty(SIZE, np.float32)
    twice = np.zeros(SIZE, np.float32)
    for key, weight in sorted(zip(keys, weights, strict=True)):
        values = noise.read(key, 0, SIZE, scratch)
        exact += np.float64(np.float32(weight)) * values
        twice += np.float32(weight) * values
    once = weighted_noise_sum(noise.read, keys, weights, SIZE)
    assert np.abs(once - exact).mean() <= np.abs(twice - exact).mean()


def test_values_that_cannot_be_written_are_added_too():
    sums, values = np.ones(5, np.float32), np.arange(5, dtype=np.float32)
    values.flags.writeable = False
    add_scaled(sums, values, np.float32(2.0))
    assert sums.tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]


@pytest.mark.parametrize("wrong", ["last elements", "first elements", "odd addresses"])
@pytest.mark.usefixtures("checked_anew")
def test_a_kernel_that_rounds_some_places_differently_is_not_used(
    wrong: str, monkeypatch: pytest.MonkeyPatch
):
    right = fused_sums.add_scaled

    def add(sums: np.ndarray, values: np.ndarray, factor: np.float32) -> None:
        right(sums, values, factor)
        if wrong == "odd addresses":
            sums[::2] = np.nextafter(sums[::2], np.inf) if sums.ctypes.data % 8 else sums[::2]
        elif len(sums) > 1:
            place = slice(-(len(sums) % 8) or None, None) if wrong == "last elements" else 0
            sums[place] = np.nextafter(sums[place], np.inf, dtype=np.float32)

    monkeypatch.setattr(fused_sums, "add_scaled", add)
    assert fused_addition() is None
    noise, keys = noise_of("table"), [0, 16, 64]
    total = weighted_noise_sum(noise.read, keys, [1.5, -0.3, 0.7], SIZE, threads=2)
    expected, scratch = np.zeros(SIZE, np.float32), np.empty(SIZE, np.float32)
    for key, weight in zip(keys, (1.5, -0.3, 0.7), strict=True):
        expected += np.float32(weight) * noise.read(key, 0, SIZE, scratch)
    assert total.tobytes() == expected.tobytes()


def test_torch_has_the_threads_that_it_had():
    before = torch.get_num_threads()
    with one_torch_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_small_sums_import_no_torch():
    program = (
        "import sys\n"
        "from drumline.functional.perturbation import FUSED_FROM, counter_noise\n"
        "counter_noise(0).weighted_sum([1, 2], [0.5, 1.0], FUSED_FROM - 1, 2)\n"
        "print('torch' in sys.modules)\n"
        "counter_noise(0).weighted_sum([1, 2], [0.5, 1.0], FUSED_FROM, 2)\n"
        "print('torch' in sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout.split() == ["False", "True"], ended.stderr


def test_a_sum_that_rounds_twice_is_left_to_numpy(monkeypatch: pytest.MonkeyPatch):
    def twice(sums: np.ndarray, values: np.ndarray, factor: np.float32) -> None:
        sums += factor * values

    monkeypatch.setattr(fused_sums, "add_scaled", twice)
    fused_addition.cache_clear()
    try:
        assert fused_addition() is None
        assert fused_sums.roundings() == "two roundings a term"
    finally:
        fused_addition.cache_clear()
