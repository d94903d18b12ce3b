"""First parameters of a training: drawn from its seed, or those of a trained policy."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from drumline.policies.first_policy import UNKNOWN_WEIGHT, FirstPolicy, difference, trained
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
    except (KeyError, TypeError, AttributeError, AssertionError, ValueError) as error:
        raise _other(config, f"it is damaged ({error})") from error
    if fault:
        raise _other(config, fault)
    described = stored.document.get("critics", {})
    try:
        return trained(stored.tensors, spec, described, _observations(config, stored.document))
    except ValueError as error:
        raise _other(config, str(error)) from error


def _observations(config: Config, document: Mapping[str, Any]) -> float:
    """Return how many observations the moments in a policy file count for.

    Those of all env steps before it, or as many of them as this run takes (`es`).
    """
    steps = document.get("env_steps")
    if type(steps) is not int:
        return UNKNOWN_WEIGHT
    share: float = getattr(config, "obs_stat_probability", 1.0)
    return steps * share


def checked_size(config: Config, first: FirstPolicy, drawn: np.ndarray) -> FirstPolicy:
    """Return a trained policy; ValueError unless it has as many parameters as `drawn`."""
    if first.parameters.size != drawn.size:
        raise _other(config, f"it has {first.parameters.size} parameters, and not {drawn.size}")
    return first


class TrainedVector(NamedTuple):
    """Parameters of an objective as a policy file has them."""

    vector: np.ndarray
    module: str | None
    seed: int | None
    """Seed of the module's constructor, from which its frozen parameters and buffers are."""
    trainable: str


def trained_vector(config: Config) -> TrainedVector | None:
    """Return the parameters of an objective that a config starts from, or None."""
    start = start_of(config)
    if not start:
        return None
    stored = start_policy(start)
    if not stored.objective:
        raise _other(config, "it holds a policy for an environment")
    vector, seed = stored.tensors.get("parameters"), stored.objective.get("seed")
    if vector is None or vector.ndim != 1 or not np.isfinite(vector).all():
        raise _other(config, "it has no vector of finite parameters")
    return TrainedVector(
        vector.astype(np.float32),
        stored.objective.get("module"),
        seed if type(seed) is int else None,
        str(stored.objective.get("trainable", "")),
    )


def checked_vector(
    config: Config, found: TrainedVector, module: str | None, drawn: np.ndarray
) -> np.ndarray:
    """Return a trained vector; ValueError if it is of another module, or of another length."""
    if found.module != module:
        raise _other(config, f"its torch module is {found.module}, and here it is {module}")
    if module is not None and found.trainable != config.trainable:
        raise _other(
            config, f"its --trainable is {found.trainable!r}, and here it is {config.trainable!r}"
        )
    return checked_size(config, FirstPolicy(found.vector), drawn).parameters


def described_critics(
    config: Config, hidden: tuple[int, ...], activation: str = "relu"
) -> dict[str, Any]:
    """Return the description of critics in policy files: layers, and what they are values of."""
    return {
        "hidden": list(hidden),
        "activation": activation,
        "discount": config.discount,
        "frame_skip": config.frame_skip,
    }


def _other(config: Config, fault: str) -> ValueError:
    return ValueError(f"--start-from {shown(start_of(config))} does not fit this run: {fault}")
