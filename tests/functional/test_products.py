"""Products by oneDNN: the same numbers as torch's own to rounding, and bits by shapes alone."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

from drumline.functional import products
from drumline.functional.products import (
    multiply_by_onednn,
    onednn_pays,
    quicken,
    takes_onednn,
)

SHAPES = [(256, 256, 256), (100, 400, 300), (33, 97, 801)]


def drawn(*shape: int) -> torch.Tensor:
    rng = np.random.default_rng(sum(shape))
    return torch.from_numpy(rng.standard_normal(shape, np.float32))


@pytest.fixture
def asked_anew() -> Iterator[None]:
    takes_onednn.cache_clear()
    yield
    takes_onednn.cache_clear()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch):
    """Large products go to oneDNN, whatever processor this is."""
    monkeypatch.setattr(products, "takes_onednn", lambda: True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_biases", [False, True])
def test_products_are_right_to_rounding(shape: tuple[int, int, int], with_biases: bool):
    rows, inner, columns = shape
    left, right = drawn(rows, inner), drawn(inner, columns)
    biases = drawn(columns) if with_biases else None
    out = torch.empty(rows, columns)
    multiply_by_onednn(left, right, out, biases)
    exact = left.double() @ right.double() + (0.0 if biases is None else biases.double())
    torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_bits_depend_neither_on_the_place_of_an_array_nor_on_its_strides(
    shape: tuple[int, int, int],
):
    rows, inner, columns = shape
    left, right = drawn(rows, inner), drawn(inner, columns)
    expected = torch.empty(rows, columns)
    multiply_by_onednn(left, right, expected)
    for shift in (1, 3, 16):
        flat = torch.zeros(rows * inner + 99)
        elsewhere = flat[shift : shift + rows * inner].view(rows, inner)
        elsewhere.copy_(left)
        wide = torch.zeros(rows, inner + 13)
        wide[:, shift % 13 : shift % 13 + inner] = left
        for moved in (elsewhere, wide[:, shift % 13 : shift % 13 + inner], left.t().clone().t()):
            found = torch.empty(rows, columns)
            multiply_by_onednn(moved, right, found)
            assert found.numpy().tobytes() == expected.numpy().tobytes()


DIGEST = """
import hashlib, sys, torch
sys.path[:0] = {path!r}
from functional.test_products import SHAPES, drawn
from drumline.functional.products import multiply_by_onednn
torch.set_num_threads(int(sys.argv[1]))
found = hashlib.sha256()
for rows, inner, columns in SHAPES:
    out = torch.empty(rows, columns)
    multiply_by_onednn(drawn(rows, inner), drawn(inner, columns), out)
    found.update(out.numpy().tobytes())
print(found.hexdigest())
"""


def test_bits_do_not_depend_on_threads():
    code = DIGEST.format(path=sys.path)
    found = [
        subprocess.run(
            [sys.executable, "-c", code, threads], capture_output=True, text=True, check=True
        ).stdout
        for threads in ("1", "2", "3")
    ]
    assert len(found[0]) > 60
    assert len(set(found)) == 1


@pytest.mark.usefixtures("taken")
def test_layers_have_the_gradients_of_torchs_own():
    made = [nn.Sequential(nn.Linear(400, 300), nn.ReLU(), nn.Linear(300, 3)) for _ in range(2)]
    made[1].load_state_dict(made[0].state_dict())
    quick = quicken(made[1])
    assert type(quick[0]) is not nn.Linear
    results: list[list[torch.Tensor]] = []
    for module in (made[0], quick):
        inputs = drawn(64, 400).requires_grad_()
        module(inputs).pow(2).sum().backward()
        gradients = [parameter.grad for parameter in module.parameters()]
        assert inputs.grad is not None
        results.append([inputs.grad, *(each for each in gradients if each is not None)])
    assert len(results[0]) == 5
    for found, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("kind", ["no bias", "three axes", "float64"])
def test_what_onednn_is_not_given_stays_with_torchs_own(kind: str):
    torch_dtype = torch.float64 if kind == "float64" else torch.float32
    plain = nn.Linear(256, 256, bias=kind != "no bias", dtype=torch_dtype)
    inputs = drawn(256, 256).to(torch_dtype)
    inputs = (inputs[None] if kind == "three axes" else inputs).requires_grad_()
    expected = plain(inputs)
    found = quicken(plain)(inputs)
    found.sum().backward()
    assert torch.equal(found, expected)


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("shape", [(64, 64, 64), (4096, 1024, 1), (4, 1024, 1024)])
def test_small_and_narrow_products_stay_with_torchs_own(shape: tuple[int, int, int]):
    assert not onednn_pays(*shape)
    assert onednn_pays(256, 256, 256)
    rows, inner, columns = shape
    plain, inputs = nn.Linear(inner, columns), drawn(rows, inner)
    expected = plain(inputs)
    assert torch.equal(quicken(plain)(inputs), expected)


@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize(
    ("maker", "capability", "taken"),
    [
        ("AuthenticAMD", "AVX512", True),
        ("AuthenticAMD", "AVX2", False),
        ("GenuineIntel", "AVX512", False),
        ("GenuineIntel", "AVX512_VNNI", False),
    ],
)
def test_the_processor_decides(
    maker: str, capability: str, taken: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(products, "_maker", lambda: maker)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert takes_onednn() == taken
    plain = nn.Linear(400, 300)
    assert (type(quicken(plain)) is nn.Linear) != taken
