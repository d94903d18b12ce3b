"""Log-probabilities of stochastic actions in torch, for targets: nothing is differentiated here.

Their derivatives, and the entropy, are in `action_gradients`.
"""

import math

import torch
from torch import Tensor

from drumline.policies.actions import ActionHead

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def log_probs_of(head: ActionHead, outputs: Tensor, actions: Tensor) -> Tensor:
    """Return log π(a|s) `[N]` of outputs `[N, O]`, in float32."""
    if head.kind == "gaussian":
        size = head.sizes[0]
        mean, log_std = outputs[:, :size], outputs[:, size:]
        scaled = (actions - mean) * torch.exp(-log_std)
        return (-0.5 * scaled.square() - log_std - _LOG_SQRT_2PI).sum(1)
    if head.kind == "categorical":
        return _categorical(outputs, actions)
    parts = [
        _categorical(logits, actions[:, component])
        for component, logits in enumerate(outputs.split(head.sizes, dim=1))
    ]
    return torch.stack(parts).sum(0)


def _categorical(logits: Tensor, actions: Tensor) -> Tensor:
    return torch.log_softmax(logits, dim=1).gather(1, actions[:, None])[:, 0]
