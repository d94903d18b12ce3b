"""K actors refined in one batched call each, against the same K one after another."""

import time
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

import torch

from drumline.algorithms.dense_stack import (
    DenseStack,
    Precision,
    StackVector,
    parameter_count,
)
from drumline.algorithms.torch_optimizers import TorchAdam

ROWS = 256


class Stacked(NamedTuple):
    """Result of stacking K actors."""

    sizes: tuple[int, ...]
    count: int
    same_bits: bool
    stacked_per_second: float
    single_per_second: float
    ratio: float


class Stack:
    """Actor steps of K tanh networks up one frozen leaky-ReLU critic; actions are 1-bounded."""

    def __init__(
        self,
        actors: torch.Tensor,
        critic: torch.Tensor,
        sizes: tuple[int, ...],
        precision: Precision,
    ):
        count, self._observation_size, outputs = len(actors), sizes[0], sizes[-1]
        of_critic = (sizes[0] + outputs, *sizes[1:-1], 1)
        self.actors = StackVector(actors.clone(), sizes, precision)
        self._gradient = StackVector(torch.zeros_like(actors), sizes, precision)
        self._critic = StackVector(critic.expand(count, -1).contiguous(), of_critic, precision)
        self._policy = DenseStack(count, ROWS, sizes, "tanh", precision)
        self._value = DenseStack(count, ROWS, of_critic, "leaky-relu", precision)
        kind = self._policy.kind
        self._inputs = torch.empty(count, ROWS, of_critic[0], dtype=kind)
        self._of_actions = torch.empty(count, ROWS, outputs, dtype=kind)
        self._of_value = torch.full((count, ROWS, 1), -1.0 / ROWS)
        self._adam = TorchAdam(actors.numel(), 1e-8)

    def step(self, observations: torch.Tensor) -> None:
        """Take one step of every actor on its own rows `[K, B, D]`."""
        size = self._observation_size
        self._inputs[..., :size].copy_(observations)
        raw = self._policy.forward(self._inputs[..., :size], self.actors)
        squashed = torch.tanh(raw)
        self._inputs[..., size:].copy_(squashed)
        self._value.forward(self._inputs, self._critic)
        self._value.backward(self._of_value, self._critic, None, (size, self._of_actions))
        back = self._of_actions.float() * (1.0 - squashed * squashed)
        self._policy.backward(back, self.actors, self._gradient)
        self._gradient.collect()
        self._adam.step(self.actors.values.view(-1), self._gradient.values.view(-1), 1e-3)
        self.actors.refresh()


def stacked(
    sizes: tuple[int, ...], counts: list[int], precision: Precision, rounds: int = 9
) -> Iterator[Stacked]:
    """Alternate both ways, a tenth of a second each; processor seconds."""
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(0)
    of_critic = parameter_count((sizes[0] + sizes[-1], *sizes[1:-1], 1))
    critic = 0.05 * torch.randn(1, of_critic, generator=random)
    for count in counts:
        actors = 0.05 * torch.randn(count, parameter_count(sizes), generator=random)
        batches = torch.randn(10, count, ROWS, sizes[0], generator=random)
        together = Stack(actors, critic, sizes, precision)
        alone = [Stack(actors[k : k + 1], critic, sizes, precision) for k in range(count)]
        for batch in batches:
            together.step(batch)
            for k, one in enumerate(alone):
                one.step(batch[k : k + 1])
        same = all(
            torch.equal(together.actors.values[k], o.actors.values[0]) for k, o in enumerate(alone)
        )
        began = time.process_time()
        together.step(batches[0])
        steps = max(2, round(0.2 / (time.process_time() - began)))
        rates: list[list[float]] = [[], []]
        for _ in range(rounds):
            began = time.process_time()
            for number in range(steps):
                together.step(batches[number % 10])
            between = time.process_time()
            for k, one in enumerate(alone):
                for number in range(steps):
                    one.step(batches[number % 10, k : k + 1])
            ended = time.process_time()
            rates[0].append(count * steps / (between - began))
            rates[1].append(count * steps / (ended - between))
        ratio = median(a / b for a, b in zip(*rates, strict=True))
        yield Stacked(sizes, count, same, median(rates[0]), median(rates[1]), ratio)
