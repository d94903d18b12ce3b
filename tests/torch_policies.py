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
