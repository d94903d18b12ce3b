"""Actor-critic modules as a user would write them, good and bad."""

import random

import numpy as np
import torch
from torch import Tensor, nn


class Plain(nn.Module):
    """Specification that the others change in one thing: one hidden layer on flat observations."""

    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__()
        size = 1
        for length in observation_shape:
            size *= length
        self.hidden = nn.Linear(size, 16)
        self.policy = nn.Linear(16, outputs)
        self.value = nn.Linear(16, 1)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.tanh(self.hidden(observations.flatten(1)))
        return self.policy(hidden), self.value(hidden)[:, 0]


class RandomFeatures(Plain):
    """Draws a constant beside its parameters."""

    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs)
        self.scale = torch.rand(observation_shape)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(observations * self.scale)


class Doubles(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(observations * 2.0)


class DoublesInPlace(Plain):
    """The same function, which writes into its input."""

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        observations *= 2.0
        return super().forward(observations)


class SubtractsBatchMean(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(observations - observations.mean(0))


class ValueSubtractsBatchMean(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        outputs, values = super().forward(observations)
        return outputs, values - values.mean()


class DependsOnBatchSize(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        outputs, values = super().forward(observations)
        return outputs * (1.0 + len(observations) / 1024), values


class DependsOnPosition(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        outputs, values = super().forward(observations)
        return outputs, values + torch.arange(len(values)) / 1024


class CountsItsCalls(Plain):
    calls = 0

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        self.calls += 1
        outputs, values = super().forward(observations)
        return outputs, values + self.calls


class WithDropout(Plain):
    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs)
        self.dropout = nn.Dropout(0.5)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(self.dropout(observations))


class WithBatchNorm(Plain):
    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs)
        self.norm = nn.BatchNorm1d(16)


class DoublePrecision(Plain):
    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs)
        self.double()


class ValuesInAColumn(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        outputs, values = super().forward(observations)
        return outputs, values[:, None]


class OutputsOnly(Plain):
    def forward(self, observations: Tensor) -> Tensor:
        return super().forward(observations)[0]


class OneOutputTooMany(Plain):
    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs + 1)


class ValueIsANumber(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, float]:
        return super().forward(observations)[0], 0.0


class ForwardRaises(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(observations[:, :1])


class NaNOutput(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        outputs, values = super().forward(observations)
        outputs[1, 0] = torch.nan
        return outputs, values


class InfiniteValues(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        outputs, values = super().forward(observations)
        return outputs, values / 0.0


class NoParameters(nn.Module):
    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__()


def no_module(observation_shape: tuple[int, ...], outputs: int) -> int:
    return outputs


class Recurrent(Plain):
    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs)
        self.memory = nn.GRU(16, 16)


class KeepsState(Plain):
    """A network with memory that no layer shows."""

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        outputs, values = super().forward(observations)
        self.last = outputs + 0.5 * getattr(self, "last", torch.zeros_like(outputs))
        return self.last, values


class ReturnsItsState(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        outputs, values = super().forward(observations)
        return outputs, values, outputs


class WithIntegers(Plain):
    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs)
        self.counts = nn.Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False)


class SharesStorage(Plain):
    """Two parameters in one memory: a flat vector would write one over the other."""

    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs)
        self.value.weight = nn.Parameter(self.policy.weight.data[:1])


class DrawsInForward(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(nn.functional.dropout(observations, training=True))


class DrawsWithAll(Plain):
    """Its first weights come from Python's, NumPy's and torch's generators."""

    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs)
        with torch.no_grad():
            self.policy.bias.fill_(random.random())
            self.value.bias.fill_(float(np.random.randn()))


class ValuesSqueezed(Plain):
    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.tanh(self.hidden(observations.flatten(1)))
        return self.policy(hidden), self.value(hidden).squeeze()


class OutputsSqueezed(Plain):
    def forward(self, observations: Tensor) -> Tensor:
        return super().forward(observations)[0].squeeze()


class PartlyFrozen(Plain):
    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs)
        self.hidden.requires_grad_(False)


class AllFrozen(Plain):
    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs)
        self.requires_grad_(False)


class ConstantBasis(Plain):
    """A constant in float32 that no cast of the module's parameters reaches."""

    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs)
        size = self.hidden.in_features
        self.basis = torch.randn(size, size)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(observations.flatten(1) @ self.basis)


class ListedConstants(Plain):
    """Constants in a list, which stay on the host."""

    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__(observation_shape, outputs)
        self.scales = [torch.rand(observation_shape)]

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(observations * self.scales[0])


class FlattensImages(nn.Module):
    """A convolution for images [C, H, W] with one hidden layer behind it."""

    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__()
        self.first = nn.Conv2d(observation_shape[0], 4, 5, 3)
        size = self.first(torch.zeros(1, *observation_shape)).numel()
        self.policy, self.value = nn.Linear(size, outputs), nn.Linear(size, 1)

    def flat(self, features: Tensor) -> Tensor:
        return features.flatten(1)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        features = self.flat(torch.relu(self.first(observations)))
        return self.policy(features), self.value(features)[:, 0]


class ViewsImages(FlattensImages):
    """The same, with a `view` that memory in another order refuses."""

    def flat(self, features: Tensor) -> Tensor:
        return features.view(len(features), -1)


class LastIsNaN(Plain):
    """Its last output is NaN where the first number of the observation is 3 or more."""

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        outputs, values = super().forward(observations)
        rows = observations.flatten(1)
        last = torch.where(rows[:, :1] < 3.0, outputs[:, -1:], torch.nan)
        return torch.cat([outputs[:, :-1], last], dim=1), values
