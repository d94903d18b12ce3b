"""PolicySpec: a policy as a picklable record, also as policy files hold it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.heads import Head
from drumline.policies.network_spec import NetworkSpec

REFERENCE = "reference_frames"
"""Name of the reference batch in memory, checkpoints and policy files."""

LATE_FIELDS = ("convolutions", "image", "virtual_batch", "scale_bytes", "flattened")
"""Fields of a spec that the policy files of plain MLPs and modules leave out."""


@dataclass(frozen=True)
class PolicySpec:
    """A policy that is searched; built alike in the driver and in every worker."""

    observation_size: int
    head: Head
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers; empty for a linear policy."""
    bias: bool = True
    module: str | None = None
    """`package.module:Class` of a user's `torch.nn.Module`, called with (inputs, outputs)."""
    module_shape: tuple[int, ...] = ()
    """Shape that `module` is called with in place of the inputs, and takes observations in
    (`--network`); empty: flat ones (`--policy`)."""
    scale_bytes: bool = False
    """Whether observations are bytes, which an MLP or a module of `module_shape` gets divided by
    255."""
    normalize: bool = True
    """Whether observations are normalised with the published moments and clipped."""
    zero_init: bool = False
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the hidden layers."""
    convolutions: str = ""
    """a3c-cnn or nature-cnn for images of bytes; empty: an MLP or a module."""
    image: tuple[int, ...] = ()
    """Channels, height and width of those images."""
    virtual_batch: int = 0
    """Observations in the reference batch of virtual batch normalisation; 0: there is none."""
    flattened: tuple[int, ...] = ()
    """Shape of observations of several axes, whose values the policy takes in their order; empty:
    vectors, and files that do not say it."""

    @property
    def observation_scale(self) -> float:
        """Return the factor of observations: 1/255 of bytes that are scaled, else 1."""
        return 1.0 / 255.0 if self.scale_bytes else 1.0

    @property
    def reference_layout(self) -> tuple[tuple[int, ...], str]:
        """Return shape and dtype of the reference batch: images of bytes, or flat observations."""
        if self.convolutions:
            return (self.virtual_batch, *self.image), "|u1"
        return (self.virtual_batch, self.observation_size), "<f4"


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
    if "module_bytes" in fields:  # the name while modules alone were scaled
        fields["scale_bytes"] = fields.pop("module_bytes")
    return PolicySpec(head=head, **fields)


def _with_tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with tuples for JSON's lists."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
