"""What a policy is made of, as picklable records; and the one place that builds one."""

from dataclasses import dataclass
from typing import Any

from drumline.policies.heads import Head
from drumline.protocols import Policy


@dataclass(frozen=True)
class PolicySpec:
    """A policy for flat observations; built alike in the driver and in every worker."""

    observation_size: int
    head: Head
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden tanh layers; empty for a linear policy."""
    bias: bool = True
    module: str | None = None
    """`package.module:Class` of a user's `torch.nn.Module`, called with (inputs, outputs)."""
    normalize: bool = True
    """Whether observations are normalised with the published moments and clipped."""
    zero_init: bool = False


def build_policy(spec: PolicySpec) -> Policy:
    """Return the policy; torch is imported only when the policy is a torch module."""
    if spec.module is not None:
        from drumline.policies.torch_module import TorchPolicy

        return TorchPolicy(spec)
    from drumline.policies.mlp import MLPPolicy

    return MLPPolicy(spec)


def initial_parameters(spec: PolicySpec, rng: Any) -> Any:
    """Return the initial parameter vector `[P]` drawn from `rng`."""
    if spec.module is not None:
        from drumline.policies.torch_module import initial_vector

        return initial_vector(spec, rng)
    from drumline.policies.mlp import initial_vector

    return initial_vector(spec, rng)
