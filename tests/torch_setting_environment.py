"""Environments that set torch for their own ends, as one that loads a learned model does."""

import torch
from impure_environment import Counting


class Plain(Counting):
    """Sets nothing."""


class AtFirstReset(Counting):
    """Makes float64 the default, and switches gradients off, when it is first reset."""

    loaded = False

    def reset(self, *, seed=None, options=None):
        if not self.loaded:
            self.loaded = True
            torch.set_default_dtype(torch.float64)
            torch.set_grad_enabled(False)
        return super().reset(seed=seed)


class AtEveryReset(Counting):
    """Does the same at every reset, and when it is made."""

    def __init__(self):
        torch.set_grad_enabled(False)

    def reset(self, *, seed=None, options=None):
        torch.set_default_dtype(torch.float64)
        torch.set_flush_denormal(True)
        torch.set_grad_enabled(False)
        return super().reset(seed=seed)


class AtFirstStep(Counting):
    """Does so in its first step."""

    def step(self, action):
        if not hasattr(self, "loaded"):
            self.loaded = True
            torch.set_default_dtype(torch.float64)
            torch.set_grad_enabled(False)
            torch.set_default_device("meta")
        return super().step(action)
