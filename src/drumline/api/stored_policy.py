"""A policy file as a policy and an environment; its sizes are compared before any memory is taken.

The description in a file may announce any network. Only one whose parameters are in the file is
built.
"""

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

import msgspec
import numpy as np

from drumline.api.foreign_code import CodeTrust
from drumline.envs.environment import EnvironmentSpec
from drumline.errors import ObjectiveProblem
from drumline.policies import convolutional, virtual_batch_mlp
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.build import build_policy
from drumline.policies.first_policy import INVERSE_STD, MEAN
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.spec import REFERENCE, PolicySpec, spec_from
from drumline.protocols import Policy
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.policy_files import StoredPolicy, saved_policies
from drumline.workers.objective import Objective, refuse_other_parameters

MOMENTS = (MEAN, INVERSE_STD)


def load_policy(stored: StoredPolicy, trust: CodeTrust) -> Policy:
    """Return a saved policy with its parameters and observation moments."""
    if stored.objective:
        raise RunError(
            f"{stored.path} holds the parameters of an objective, which acts in no environment: "
            "drumline evaluate gives its value, and in Python run.parameters() the vector and "
            "run.module() a torch module"
        )
    trust.policy(stored)
    spec = policy_spec(stored)
    policy = build_policy(spec, stored.tensors.get(REFERENCE))
    parameters = stored.tensors["parameters"]
    if policy.vector.shape != parameters.shape:
        raise _damaged(stored, f"{parameters.size} parameters for {policy.vector.size}")
    policy.load_vector(parameters)
    if MOMENTS[0] in stored.tensors:
        policy.load_moments(*(stored.tensors[name] for name in MOMENTS))
    return policy


def environment_of(stored: StoredPolicy) -> EnvironmentSpec:
    """Return the environment of a saved policy."""
    return _converted(
        stored, "environment", lambda: EnvironmentSpec(**stored.document["environment"])
    )


def stored_objective(stored: StoredPolicy) -> Objective:
    """Return the objective of a policy file; RunError unless its parameters fit it."""
    objective = _converted(stored, "objective", lambda: Objective(**stored.objective))
    tensor = stored.tensors.get("parameters")
    wanted = ((objective.dimensions,), np.dtype(np.float32))
    found = None if tensor is None else (tensor.shape, tensor.dtype)
    if found != wanted or min(objective.seeds_per_call, objective.members_per_call) < 1:
        raise _damaged(stored, f"no vector of {objective.dimensions} parameters")
    return objective


def stored_module(stored: StoredPolicy, trust: CodeTrust) -> Any:
    """Return the module of a policy file's objective in float32, with its parameters."""
    if not stored.objective.get("module"):
        raise RunError(f"{stored.path} holds no parameters of a torch module of an objective")
    trust.policy(stored)
    objective = stored_objective(stored)
    from drumline.policies.searched_module import SearchedModule

    assert objective.module is not None
    made = SearchedModule(objective.module, objective.seed, trainable=objective.trainable)
    try:
        refuse_other_parameters(objective.module, made.shapes, objective.tensors)
    except ObjectiveProblem as error:
        raise RunError(f"{stored.path}: {error}") from error
    if made.parameter_count != objective.dimensions:
        raise _damaged(stored, f"{objective.dimensions} parameters for {made.parameter_count}")
    module = made.with_parameters(stored.tensors["parameters"])
    for parameter in made.parameters.values():
        parameter.requires_grad_(True)  # as the class made it
    return module


def policy_spec(stored: StoredPolicy) -> "PolicySpec | ActorCriticSpec":
    """Return the spec of a saved policy; RunError unless its parameters fit it."""
    spec = _converted(stored, "policy", lambda: spec_from(stored.document["policy"]))
    for name in ("parameters", *(name for name in MOMENTS if MOMENTS[0] in stored.tensors)):
        tensor = stored.tensors.get(name)
        if tensor is None or tensor.ndim != 1 or tensor.dtype.kind != "f":
            raise _damaged(stored, f"no vector {name!r}")
    count = stored.tensors["parameters"].size
    network = spec.network if isinstance(spec, ActorCriticSpec) else spec
    outputs = network.head.output_size
    if isinstance(network, PolicySpec) and network.convolutions:
        _check_convolutions(stored, network, count)
        _check_reference(stored, network)
        if MOMENTS[0] in stored.tensors or network.module is not None:
            raise _damaged(stored, "images have neither observation moments nor a module")
        return spec
    if isinstance(network, NetworkSpec):
        shape, code = network.observation_shape, ":" in network.network
    else:
        shape, code = (network.observation_size,), network.module is not None
    if isinstance(network, NetworkSpec) and network.normalize and MOMENTS[0] not in stored.tensors:
        raise _damaged(stored, f"no vector {MOMENTS[0]!r}")
    if min((*shape, *network.hidden, outputs), default=0) < 1:
        raise _damaged(stored, "a size below 1")
    if MOMENTS[0] in stored.tensors:
        sizes = {stored.tensors[name].size for name in MOMENTS}
        if sizes != {prod(shape)}:
            raise _damaged(stored, f"{sorted(sizes)} observation moments for {prod(shape)} values")
    # A network of the user's own says itself how many parameters it has.
    convolves = isinstance(network, NetworkSpec) and not network.is_mlp
    image = convolves and len(shape) == 3
    least = 0 if code else _least_parameters(shape, network.hidden, outputs, image)
    announced = spec.parameter_count if isinstance(spec, ActorCriticSpec) else count
    if isinstance(network, PolicySpec):
        _check_reference(stored, network)
        if network.virtual_batch and not code:
            announced = virtual_batch_mlp.parameter_count(network)
    if announced != count or least > count:
        raise _damaged(
            stored, f"a network of {max(announced, least)} parameters or more, not {count}"
        )
    return spec


def _check_convolutions(stored: StoredPolicy, spec: PolicySpec, count: int) -> None:
    """Raise RunError unless the parameters are those of the network."""
    known = spec.convolutions in convolutional.NETWORKS and len(spec.image) == 3
    if not known or min(*spec.image, spec.head.output_size) < 1:
        raise _damaged(stored, f"no images {list(spec.image)} for {spec.convolutions!r}")
    try:
        announced = convolutional.parameter_count(spec)
    except ValueError as error:
        raise _damaged(stored, str(error)) from error
    if announced != count:
        raise _damaged(stored, f"a network of {announced} parameters, not {count}")


def _check_reference(stored: StoredPolicy, spec: PolicySpec) -> None:
    """Raise RunError unless the reference batch is that of the network, if it has one."""
    reference, (shape, dtype) = stored.tensors.get(REFERENCE), spec.reference_layout
    wanted = (shape, np.dtype(dtype))
    if (
        spec.virtual_batch < 0
        or (reference is None) == bool(spec.virtual_batch)
        or (reference is not None and (reference.shape, reference.dtype) != wanted)
    ):
        raise _damaged(stored, f"no reference batch {list(shape)} of {wanted[1]}")


def _least_parameters(
    shape: tuple[int, ...], hidden: tuple[int, ...], outputs: int, image: bool
) -> int:
    """Return a lower bound of a network's parameters, from which its memory follows."""
    if image:  # behind the convolutions: 256 or more outputs of 1/8² of the places or more
        return 16 * prod(shape[1:]) + 32 * shape[0]
    return sum(a * b for a, b in pairwise((prod(shape), *hidden, outputs)))


def _converted(stored: StoredPolicy, what: str, make: Callable[[], Any]) -> Any:
    """Return a record of plain values with each value checked against its field's type."""
    try:
        record = make()
        msgspec.convert(msgspec.to_builtins(record), type(record))
    except (
        *(ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError),
        msgspec.MsgspecError,
    ) as error:
        raise _damaged(stored, f"its {what}: {error}") from error
    return record


def _damaged(stored: StoredPolicy, fault: str) -> RunError:
    return RunError(f"{stored.path} is damaged ({fault}); give another --policy")


def refuse_changed_module(folder: RunFolder, recipe: Any) -> None:
    """Raise RunError if an objective's module has other parameters than a saved policy's had."""
    searched = getattr(recipe, "searched", getattr(recipe, "environment", None))
    if not isinstance(searched, Objective) or searched.module is None:
        return
    for stored in saved_policies(folder):
        recorded = stored_objective(stored).tensors
        try:
            refuse_other_parameters(searched.module, dict(searched.tensors), recorded)
        except ObjectiveProblem as error:
            raise RunError(f"{folder.shown} cannot go on: {error}") from error
