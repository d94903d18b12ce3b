"""A pass of a network on a device before a run begins, so that what fails there is refused."""

# pyright: reportUnknownMemberType=false
# (torch's own annotations are incomplete)

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from drumline.algorithms.actor_networks import OwnNetwork, OwnVector
from drumline.algorithms.learned_network import LearnedNetwork
from drumline.algorithms.microbatches import Microbatches
from drumline.functional.torch_devices import device_of
from drumline.policies.actor_critic import initial_parameters
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.spec import PolicySpec
from drumline.policies.torch_module import tensor_shapes

_ROWS = 4


def try_gradient(spec: NetworkSpec, device: str, observations: np.ndarray) -> None:
    """Raise ValueError if a device has no deterministic gradient of this network."""
    at = device_of(device)
    if observations.dtype != np.uint8:
        observations = observations.astype(np.float32)  # as the learner's preparation does
    rows = torch.from_numpy(observations).to(at)
    made = LearnedNetwork(
        spec,
        initial_parameters(spec, 0),
        precision="fp32",
        microbatches=Microbatches(len(rows)),
        device=at,
    )
    with _refusing(device, spec.network):
        outputs, values = made.forward(made.live, rows)
        (outputs.sum() + values.sum()).backward()


def try_actor(spec: PolicySpec, device: str) -> None:
    """Raise ValueError if a device has no deterministic gradient of a user's own actor."""
    at = device_of(device)
    network = OwnNetwork(spec, "fp32", learns=True, device=at)
    count = sum(math.prod(shape) for shape in tensor_shapes(spec))
    with _refusing(device, str(spec.module)):
        parameters = OwnVector(torch.zeros(1, count, device=at), spec)
        gradient = OwnVector(torch.zeros(1, count, device=at), spec)
        rows = torch.zeros(1, _ROWS, spec.observation_size, device=at)
        outputs = network.forward(rows, parameters)
        network.backward(torch.ones_like(outputs), parameters, gradient)


@contextmanager
def _refusing(device: str, network: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        words = " ".join(str(error).partition("You can turn off")[0].split())  # Drumline does not
        raise ValueError(f"--device {device} cannot train --network {network}: {words}") from error
