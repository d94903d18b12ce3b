"""FirstPolicy: what a training begins with, drawn from its seed or taken from a trained policy."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.spec import REFERENCE, PolicySpec
from drumline.types import Moments

MEAN, INVERSE_STD = "observation_mean", "observation_inverse_std"
UNKNOWN_WEIGHT = 100_000.0
"""Observations that moments count for where a file does not say after how many env steps it was
written."""
_INITIAL = ("zero_init",)
"""Fields of a spec that say how parameters are drawn, and nothing about their meaning."""


class FirstPolicy(NamedTuple):
    """Parameters, moments of observations and reference batch before the first update."""

    parameters: np.ndarray
    moments: Moments | None = None
    reference: np.ndarray | None = None
    critics: np.ndarray | None = None
    """Parameters `[K, P]` of the critics beside an actor that gradient steps follow."""
    critics_described: Mapping[str, Any] = MappingProxyType({})

    def critics_for(self, shape: tuple[int, ...], described: Mapping[str, Any]) -> Any:
        """Return the critics `[K, P]` if they have this shape and description, else None."""
        same = self.critics is not None and self.critics.shape == shape
        return self.critics if same and dict(self.critics_described) == dict(described) else None


def trained(
    tensors: Mapping[str, np.ndarray],
    spec: PolicySpec | NetworkSpec,
    critics_described: Mapping[str, Any] = MappingProxyType({}),
    weight: float = UNKNOWN_WEIGHT,
) -> FirstPolicy:
    """Return what a policy file holds for a policy of `spec`; ValueError if something is missing.

    The variance of an observation is 1 / inverse_std², and 0 where that is 0. `weight`: number of
    observations that the moments count for. Moments of nothing (mean 0, variance 1) are left out.
    """
    parameters = tensors.get("parameters")
    if parameters is None or parameters.ndim != 1 or not np.isfinite(parameters).all():
        raise ValueError("it has no vector of finite parameters")
    moments = None
    if spec.normalize:
        mean, inverse_std = (_vector(tensors, name, spec) for name in (MEAN, INVERSE_STD))
        std = np.divide(1.0, inverse_std, out=np.zeros_like(inverse_std), where=inverse_std != 0.0)
        if mean.any() or (std != 1.0).any():
            count = max(1.0, weight)
            moments = Moments(count, mean, count * np.square(std))
    reference = None
    if isinstance(spec, PolicySpec) and spec.virtual_batch:
        shape, dtype = spec.reference_layout
        reference = tensors.get(REFERENCE)
        if reference is None or (reference.shape, reference.dtype) != (shape, np.dtype(dtype)):
            raise ValueError(f"it has no reference batch {list(shape)}")
    critics = tensors.get("critics")
    if critics is not None:
        if critics.ndim != 2 or not np.isfinite(critics).all():
            raise ValueError("its critics are no finite numbers [K, P]")
        critics = critics.astype(np.float32)
    parameters = parameters.astype(np.float32)
    return FirstPolicy(parameters, moments, reference, critics, critics_described)


def difference(
    theirs: "PolicySpec | ActorCriticSpec | NetworkSpec", ours: PolicySpec | NetworkSpec
) -> str:
    """Return how a policy's inputs, network or actions differ from those wanted; empty if not.

    Bounds of actions may differ: an environment's variant may have others.
    """
    if isinstance(theirs, ActorCriticSpec):
        theirs = theirs.network
    if isinstance(theirs, NetworkSpec) != isinstance(ours, NetworkSpec):
        if isinstance(ours, NetworkSpec):
            return "its network has no value function, and this method's has one"
        return "its network has a value function, and this method's has none"
    found, wanted = _meaning(theirs), _meaning(ours)
    for name, value in wanted.items():
        if name == "flattened" and not (found.get(name) and value):
            continue  # an older file, or a wrapper that flattens
        if found.get(name) != value:
            words = name.replace("_", " ")
            return f"{words} of its policy: {_shown(found.get(name))}; here: {_shown(value)}"
    return ""


def _meaning(spec: PolicySpec | NetworkSpec) -> dict[str, Any]:
    meant = {
        field.name: getattr(spec, field.name)
        for field in fields(spec)
        if field.name not in (*_INITIAL, "head")
    }
    if isinstance(spec, NetworkSpec):
        meant["observation_dtype"] = "bytes" if spec.observation_dtype == "|u1" else "numbers"
        if not spec.is_mlp:
            del meant["hidden"]
    head = asdict(spec.head)
    actions = {name: head[name] for name in head if name not in ("low", "high", "dtype", "start")}
    named = {**meant, "actions": actions}
    # Python may give a list of layers.
    return {name: tuple(v) if isinstance(v, list) else v for name, v in named.items()}


def _vector(
    tensors: Mapping[str, np.ndarray], name: str, spec: PolicySpec | NetworkSpec
) -> np.ndarray:
    found = tensors.get(name)
    if found is None or found.shape != (spec.observation_size,) or not np.isfinite(found).all():
        raise ValueError(f"it has no {name} of {spec.observation_size} finite numbers")
    return found.astype(np.float64)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(inside)}" for name, inside in value.items() if inside)
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value)) or "none"
    return str(value)
