"""First parameters of a training: drawn from its seed, or those of a trained policy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.policies.first_policy import FirstPolicy, difference, trained
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.spec import PolicySpec, spec_from
from drumline.recipes.families import Config
from drumline.runs.start_policy import shown, start_policy


def start_of(config: Config) -> str:
    """Return the trained policy that a config names; a method from outside may have none."""
    start: object = getattr(config, "start_from", "")
    return start if isinstance(start, str) else ""


def first_policy(config: Config, spec: PolicySpec, drawn: np.ndarray) -> FirstPolicy:
    """Return the trained policy that a config starts from, or the `drawn` parameters `[P]`.

    ValueError for a policy of another network, other observations or other actions.
    """
    found = trained_policy(config, spec)
    return FirstPolicy(drawn) if found is None else checked_size(config, found, drawn)


def trained_policy(config: Config, spec: PolicySpec | NetworkSpec) -> FirstPolicy | None:
    """Return the trained policy that a config starts from, for a policy of `spec`, or None."""
    start = start_of(config)
    if not start:
        return None
    stored = start_policy(start)
    if stored.objective:
        raise _other(config, "it holds the parameters of an objective, which acts nowhere")
    try:
        theirs = spec_from(stored.document["policy"])
        fault = difference(theirs, spec)
    except (KeyError, TypeError, AttributeError) as error:
        raise _other(config, f"it is damaged ({error})") from error
    if fault:
        raise _other(config, fault)
    try:
        return trained(stored.tensors, spec, stored.document.get("critics", {}))
    except ValueError as error:
        raise _other(config, str(error)) from error


def checked_size(config: Config, first: FirstPolicy, drawn: np.ndarray) -> FirstPolicy:
    """Return a trained policy; ValueError unless it has as many parameters as `drawn`."""
    if first.parameters.size != drawn.size:
        raise _other(config, f"it has {first.parameters.size} parameters, and not {drawn.size}")
    return first


def trained_vector(
    config: Config, drawn: np.ndarray, tensors: Sequence[tuple[str, tuple[int, ...]]]
) -> np.ndarray:
    """Return the parameters `[P]` of an objective that a config starts from, or the `drawn` ones.

    `tensors`: names and shapes of a module's, which those of the file must equal.
    """
    start = start_of(config)
    if not start:
        return drawn
    stored = start_policy(start)
    if not stored.objective:
        raise _other(config, "it holds a policy for an environment")
    theirs = [(name, tuple(shape)) for name, shape in stored.objective.get("tensors", ())]
    if theirs != list(tensors):
        raise _other(config, "its module has other tensors")
    vector = stored.tensors["parameters"].astype(np.float32)
    return checked_size(config, FirstPolicy(vector), drawn).parameters


def described_critics(hidden: tuple[int, ...], activation: str) -> dict[str, Any]:
    """Return the description of critics in policy files."""
    return {"hidden": list(hidden), "activation": activation}


def _other(config: Config, fault: str) -> ValueError:
    return ValueError(f"--start-from {shown(start_of(config))} does not fit this run: {fault}")
