"""PolicySpec: a policy as a picklable record; the only place that builds one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic_policy import ActorCriticPolicy, ActorCriticSpec
from drumline.policies.heads import Head
from drumline.policies.network_spec import NetworkSpec
from drumline.protocols import Policy


@dataclass(frozen=True)
class PolicySpec:
    """A policy for flat observations; built alike in the driver and in every worker."""

    observation_size: int
    head: Head
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers; empty for a linear policy."""
    bias: bool = True
    module: str | None = None
    """`package.module:Class` of a user's `torch.nn.Module`, called with (inputs, outputs)."""
    normalize: bool = True
    """Whether observations are normalised with the published moments and clipped."""
    zero_init: bool = False
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""


def build_policy(spec: "PolicySpec | ActorCriticSpec") -> Policy:
    """Return the policy; torch is imported only if the policy needs it."""
    if isinstance(spec, ActorCriticSpec):
        return ActorCriticPolicy(spec)
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


def spec_from(document: Mapping[str, Any]) -> "PolicySpec | ActorCriticSpec":
    """Return the spec in a policy file's document."""
    fields = _with_tuples(document)
    head = None if fields.get("head") is None else Head(**_with_tuples(fields.pop("head")))
    fields.pop("head", None)
    if "network" in fields:
        network = _with_tuples(fields.pop("network"))
        actions = ActionHead(**_with_tuples(network.pop("head")))
        return ActorCriticSpec(NetworkSpec(head=actions, **network), head, **fields)
    assert head is not None, "every searched policy has a head"
    return PolicySpec(head=head, **fields)


def _with_tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with tuples for JSON's lists."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
