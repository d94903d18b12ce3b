"""Objectives over torch modules for tests, and modules that no search can set."""

import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class Regressor(nn.Module):
    """A network behind random features that are a buffer, and a frozen scale."""

    def __init__(self):
        super().__init__()
        self.register_buffer("features", torch.randn(3, 8))
        self.inner = nn.Linear(8, 4)
        self.scale = nn.Parameter(torch.rand(1), requires_grad=False)
        self.outer = nn.Linear(4, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.scale * self.outer(torch.tanh(self.inner(torch.cos(inputs @ self.features))))


def fit(module: Regressor, seed: int) -> Tensor:
    """Negative squared error on a batch that follows the seed; it spoils the buffer behind it."""
    assert not module.training
    assert torch.get_num_threads() == 1
    inputs = torch.from_numpy(np.random.default_rng(seed).standard_normal((16, 3), np.float32))
    error = torch.square(module(inputs)[:, 0] - inputs.sum(1)).mean()
    module.features.zero_()
    module.train()
    return -error


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)
        self.other.weight = self.one.weight


class Overlapping(nn.Module):
    def __init__(self):
        super().__init__()
        memory = torch.zeros(6)
        self.one, self.other = nn.Parameter(memory[:4]), nn.Parameter(memory[3:])


class Repeating(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Parameter(torch.zeros(1).expand(5))


class SideBySide(nn.Module):
    """Two parameters in one piece of memory, beside each other: nothing is wrong with it."""

    def __init__(self):
        super().__init__()
        memory = torch.arange(6.0)
        self.one, self.other = nn.Parameter(memory[:3]), nn.Parameter(memory[3:])


class WholeNumbers(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Parameter(torch.arange(3), requires_grad=False)


class Doubles(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Parameter(torch.zeros(3, dtype=torch.float64))


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.LazyLinear(3)


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(3, 3).requires_grad_(False)


class Empty(nn.Module):
    """A module without parameters."""


class NeedsArguments(nn.Module):
    def __init__(self, size: int):
        super().__init__()


class Leaving(nn.Module):
    def __init__(self):
        super().__init__()
        sys.exit(0)


def no_module() -> dict[str, int]:
    return {}


def near_ones(module: nn.Module, seed: int) -> float:
    """Negative squared distance to ones; all tensors are in bf16."""
    assert {parameter.dtype for parameter in module.parameters()} == {torch.bfloat16}
    return -float(sum(((p.float() - 1.0) ** 2).sum() for p in module.parameters()))


class Wide(nn.Module):
    """More parameters than two tiles of noise, in tensors that begin and end within tiles."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(300, 250)
        self.second = nn.Linear(250, 300)
        self.turned = nn.Parameter(torch.randn(7, 5).T)


class Viewed(nn.Module):
    """Multiplies by a view of its matrix that was made once."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 40), nn.Linear(40, 1)
        self.turned = self.inner.weight.detach().t()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.outer(torch.tanh(inputs @ self.turned + self.inner.bias))


class Rewrapped(nn.Module):
    """Makes a parameter of its parameter at each call."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 40), nn.Linear(40, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        weight = nn.Parameter(self.inner.weight, requires_grad=False)
        return self.outer(torch.tanh(nn.functional.linear(inputs, weight)))


class Adapted(nn.Module):
    """A frozen matrix in bf16, one of whole numbers that counts its calls, and a small adapter."""

    def __init__(self):
        super().__init__()
        frozen = torch.randn(6, 3, dtype=torch.bfloat16)
        self.base = nn.Parameter(frozen, requires_grad=False)
        self.codes = nn.Parameter(torch.arange(6, dtype=torch.int8), requires_grad=False)
        self.one = nn.Parameter(torch.randn(4), requires_grad=False)
        self.same = self.one
        self.unset = nn.Parameter(torch.full((2,), torch.nan), requires_grad=False)
        self.adapter = nn.Linear(3, 6)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls = self.calls + 1.0
        wide = (inputs.to(torch.bfloat16) @ self.base.T).float() + self.codes + self.calls
        return (wide + self.adapter(inputs)).sum(-1, keepdim=True)


def fit_members(members: Any, seeds: np.ndarray) -> Tensor:
    """`fit` of several members, each on the batch of its own seed."""
    assert torch.get_num_threads() == 1
    batches = [np.random.default_rng(s).standard_normal((16, 3), np.float32) for s in seeds.flat]
    inputs = torch.from_numpy(np.stack(batches)).view(*seeds.shape, 16, 3)
    return -torch.square(members(inputs)[..., 0] - inputs.sum(-1)).mean(-1)


def one_number(members: Any, seeds: np.ndarray) -> float:
    return 0.0


def without_members(members: Any, seeds: np.ndarray) -> Tensor:
    return members(torch.zeros(16, 3))[:, 0]


class Reader(nn.Module):
    """All that a language model is made of, small: attention, norms, an embedding, convolutions."""

    def __init__(self):
        super().__init__()
        self.symbols, self.padded = nn.Embedding(9, 8), nn.Embedding(5, 8, padding_idx=0)
        self.places = nn.Parameter(torch.randn(6, 8))
        self.along = nn.Conv1d(8, 8, 3, padding=1)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 8, bias=False)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, words: Tensor, *, scale: float = 1.0) -> Tensor:
        x = self.symbols(words) + self.padded(words % 5) + self.places
        x = x + self.along(x.mT).mT
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = x + self.outer(torch.relu(self.inner(self.norm(x))))
        return scale * nn.functional.linear(x, self.symbols.weight)


class Chosen(Viewed):
    """Gives the number of the largest output, of the same view."""

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs @ self.turned + self.inner.bias).argmax(1)


class Picked(nn.Module):
    """Gives the number of the largest output of a network like others."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 40)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.inner(inputs).argmax(1)


class Caching(nn.Module):
    """Fills a buffer that begins as None, and registers another one, in its first call."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)
        self.register_buffer("scale", None)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.scale is None:
            self.scale = self.inner.weight.detach().abs().sum()
            self.register_buffer("later", torch.ones(1))
        return self.scale * self.inner(inputs)


class Exchanged(Regressor):
    """Regressor whose layers are made in another order: as many parameters, in other places."""

    def __init__(self):
        super().__init__()
        inner = self.inner
        del self.inner
        self.inner = inner
