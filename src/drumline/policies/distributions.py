"""Log-probabilities and entropies of stochastic actions in torch, for gradients."""

import math

import torch
from torch import Tensor

from drumline.policies.actions import ActionHead

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def log_prob_and_entropy(
    head: ActionHead, outputs: Tensor, actions: Tensor
) -> tuple[Tensor, Tensor]:
    """Return log π(a|s) `[N]` and the entropy in nats `[N]`, in float32."""
    outputs = outputs.float()
    if head.kind == "gaussian":
        size = head.sizes[0]
        mean, log_std = outputs[:, :size], outputs[:, size:]
        scaled = (actions - mean) * torch.exp(-log_std)
        log_probs = (-0.5 * scaled.square() - log_std - _LOG_SQRT_2PI).sum(1)
        return log_probs, (log_std + 0.5 + _LOG_SQRT_2PI).sum(1)
    if head.kind == "categorical":
        return _categorical(outputs, actions)
    start = 0
    parts: list[tuple[Tensor, Tensor]] = []
    for component, size in enumerate(head.sizes):
        parts.append(_categorical(outputs[:, start : start + size], actions[:, component]))
        start += size
    return (
        torch.stack([log_probs for log_probs, _ in parts]).sum(0),
        torch.stack([entropy for _, entropy in parts]).sum(0),
    )


def _categorical(logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    log_probs = torch.log_softmax(logits, dim=1)
    chosen = log_probs.gather(1, actions[:, None])[:, 0]
    return chosen, -(log_probs.exp() * log_probs).sum(1)
