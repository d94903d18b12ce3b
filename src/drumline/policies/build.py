"""The one place that builds a policy from its spec; torch comes in where the policy needs it."""

from typing import Any

from drumline.policies.actor_critic_policy import ActorCriticPolicy, ActorCriticSpec
from drumline.policies.initial_layers import Initialization
from drumline.policies.spec import PolicySpec
from drumline.protocols import Policy


def build_policy(spec: "PolicySpec | ActorCriticSpec", reference: Any = None) -> Policy:
    """Return the policy; torch is imported only if the policy needs it.

    `reference`: the batch of virtual batch normalisation, which may not change afterwards.
    """
    if isinstance(spec, ActorCriticSpec):
        return ActorCriticPolicy(spec)
    if spec.module is not None:
        from drumline.policies.torch_module import TorchPolicy

        return TorchPolicy(spec)
    if spec.convolutions:
        from drumline.policies.convolutional import ConvolutionalPolicy

        policy = ConvolutionalPolicy(spec)
    elif spec.virtual_batch:
        from drumline.policies.virtual_batch_mlp import VirtualBatchMLP

        policy = VirtualBatchMLP(spec)
    else:
        from drumline.policies.mlp import MLPPolicy

        return MLPPolicy(spec)
    if reference is not None:
        policy.load_reference(reference)
    return policy


def tensor_shapes(spec: PolicySpec) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the tensors in a policy's vector, in their order."""
    if spec.module is not None:
        from drumline.policies.torch_module import tensor_shapes

        return tensor_shapes(spec)
    if spec.convolutions:
        from drumline.policies.convolutional import tensor_shapes

        return tensor_shapes(spec)
    if spec.virtual_batch:
        from drumline.policies.virtual_batch_mlp import tensor_shapes

        return tensor_shapes(spec)
    from drumline.policies.mlp import tensor_shapes

    return tensor_shapes(spec)


def refuse_frozen_parts(spec: PolicySpec, *, searches: bool, differentiates: bool) -> None:
    """Raise ValueError for frozen parameters of a user's module that a method would move."""
    if spec.module is not None:
        from drumline.policies.torch_module import refuse_frozen_parts

        refuse_frozen_parts(spec, searches=searches, differentiates=differentiates)


def initial_parameters(spec: PolicySpec, rng: Any, rule: Initialization | None = None) -> Any:
    """Return the initial parameter vector `[P]` drawn from `rng`.

    `rule` is of dense layers alone: networks with convolutions and modules have their own.
    """
    if spec.module is not None:
        from drumline.policies.torch_module import initial_vector

        return initial_vector(spec, rng)
    if spec.convolutions:
        from drumline.policies.convolutional import initial_vector

        return initial_vector(spec, rng)
    from drumline.policies.mlp import PUBLISHED, initial_vector

    if spec.virtual_batch:
        from drumline.policies.virtual_batch_mlp import initial_vector
    return initial_vector(spec, rng, rule or PUBLISHED)
