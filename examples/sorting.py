"""A transformer of two layers learns to sort; the reward is 1 for a sorted sequence, else 0.

    drumline train es --objective sorting:exact_match --policy sorting:Sorter \\
        --population-size 100 --learning-rate 0.05 --total-steps 20000

Nothing is differentiated: a whole sequence is right or wrong.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

LENGTH, SYMBOLS, WIDTH, BATCH = 4, 2, 8, 64


class Sorter(nn.Module):
    """Returns the logits [B, LENGTH, SYMBOLS] of the sorted sequence, all places at once."""

    def __init__(self):
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, WIDTH)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.logits = nn.Linear(WIDTH, SYMBOLS, bias=False)

    def forward(self, sequences: Tensor) -> Tensor:
        x = self.symbols(sequences) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.logits(x)


class Layer(nn.Module):
    """Attention over the places, and a network at each place."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.inner, self.outer = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x)
        scores = self.query(y) @ self.key(y).transpose(-1, -2) / WIDTH**0.5
        x = x + scores.softmax(dim=-1) @ self.value(y)
        return x + self.outer(torch.relu(self.inner(self.between(x))))


def exact_match(module: Sorter, seed: int) -> float:
    """Return the share of a batch that is sorted without a mistake."""
    sequences = torch.from_numpy(batch(seed))
    answers = module(sequences).argmax(dim=-1)
    return (answers == sequences.sort(dim=-1).values).all(dim=-1).float().mean().item()


def exact_match_of_members(members: Callable[[Tensor], Tensor], seeds: np.ndarray) -> np.ndarray:
    """Return the same share for each of several members, on the batch of its own seed.

    drumline train es --objective sorting:exact_match_of_members --policy sorting:Sorter \\
        --noise low-rank:1 --members-per-call 10 --population-size 100 --learning-rate 0.05
    """
    sequences = torch.from_numpy(np.stack([batch(seed) for seed in seeds]))
    answers = members(sequences).argmax(dim=-1)
    right = (answers == sequences.sort(dim=-1).values).all(dim=-1)
    return right.float().mean(dim=-1).numpy()


def batch(seed: int) -> np.ndarray:
    """Return zeros and ones [BATCH, LENGTH] out of order, each number of ones equally likely.

    Sequences that are sorted already would reward a copy, which is hard to leave again.
    """
    rng = np.random.default_rng(seed)
    ones = rng.integers(LENGTH + 1, size=(BATCH, 1))
    drawn = rng.permuted((np.arange(LENGTH) < ones).astype(np.int64), axis=1)
    ascending = (np.diff(drawn, axis=1) >= 0).all(axis=1, keepdims=True)
    return np.where(ascending, drawn[:, ::-1], drawn)
