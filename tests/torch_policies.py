"""Torch modules as a user would write them, good and bad."""

import torch


def no_module(inputs: int, outputs: int) -> int:
    return inputs


class Linear(torch.nn.Sequential):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(torch.nn.Linear(inputs, 8), torch.nn.Tanh(), torch.nn.Linear(8, outputs))


class TanhNetwork(torch.nn.Sequential):
    def __init__(self, inputs: int, outputs: int):
        first, second = torch.nn.Linear(inputs, 8), torch.nn.Linear(8, 4)
        last = torch.nn.Linear(4, outputs)
        super().__init__(first, torch.nn.Tanh(), second, torch.nn.Tanh(), last)


class PartlyFrozen(Linear):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        self[0].requires_grad_(False)


class AllFrozen(Linear):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        self.requires_grad_(False)


class RandomFeatures(torch.nn.Module):
    """Draws a constant beside its parameters."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.features = torch.randn(inputs, 16)
        self.out = torch.nn.Linear(16, outputs)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(observations @ self.features))


class Scripted(torch.nn.Linear):
    def __new__(cls, inputs: int, outputs: int):
        return torch.jit.script(torch.nn.Linear(inputs, outputs))


class OneOutputTooMany(torch.nn.Linear):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs + 1)


class TwoResults(torch.nn.Linear):
    def forward(self, observations):
        return super().forward(observations), observations


class DoublePrecision(torch.nn.Linear):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs, dtype=torch.float64)


class WithoutParameters(torch.nn.Flatten):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()


class BatchNormalized(torch.nn.Sequential):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(torch.nn.BatchNorm1d(inputs), torch.nn.Linear(inputs, outputs))


class TakesNothing(torch.nn.Linear):
    def __init__(self):
        super().__init__(1, 1)


class WrongInputs(torch.nn.Linear):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs + 1, outputs)


class Untraceable(torch.nn.Linear):
    """Its result depends on a number that only the running module knows."""

    def forward(self, observations):
        outputs = super().forward(observations)
        return outputs if float(observations.sum()) < 1e9 else -outputs


class ShapedMLP(torch.nn.Sequential):
    """The MLP of td3 with one hidden layer of 16, for `--network`; it returns outputs alone."""

    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        first, last = torch.nn.Linear(*observation_shape, 16), torch.nn.Linear(16, outputs)
        super().__init__(first, torch.nn.Tanh(), last)


class Recurrent(torch.nn.Linear):
    """Its LSTM would begin at zero in every step."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        self.memory = torch.nn.LSTM(inputs, inputs)

    def forward(self, observations):
        return super().forward(self.memory(observations)[0])


class ReturnsMemory(torch.nn.Linear):
    """A recurrent network with layers of its own: it returns its next state."""

    def forward(self, observations, state=None):
        outputs = super().forward(observations) + (0.0 if state is None else state)
        return outputs, torch.tanh(outputs)


class KeepsState(torch.nn.Linear):
    """It remembers its last output itself."""

    last = 0.0

    def forward(self, observations):
        self.last = super().forward(observations) + 0.5 * self.last
        return self.last


class SharesStorage(torch.nn.Sequential):
    def __init__(self, inputs: int, outputs: int):
        first, last = torch.nn.Linear(inputs, outputs), torch.nn.Linear(outputs, outputs)
        last.weight = torch.nn.Parameter(first.weight.data[:, :outputs])
        super().__init__(first, last)


class LastIsNaN(Linear):
    """Its last output is NaN where the first number of the observation is 3 or more."""

    def forward(self, observations):
        outputs = super().forward(observations)
        last = torch.where(observations[:, :1] < 3.0, outputs[:, -1:], torch.nan)
        return torch.cat([outputs[:, :-1], last], dim=1)
