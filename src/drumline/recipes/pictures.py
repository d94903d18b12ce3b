"""The network for images, and a word about pictures that a network without convolutions sees."""

import logging
import math
from functools import cache

from drumline.policies.network_spec import LEAST_SIDE, NATURE_CNN, image_of

_LOGGER = logging.getLogger("drumline")

AUTO = "auto"
"""Value of `--network` that takes nature-cnn for images of bytes, and mlp for all else."""
WITH_CONVOLUTIONS = "hts, a2c, ppo and impala"
"""Methods whose networks may have convolutions."""


def chosen_network(env_id: str, named: str, shape: tuple[int, ...], dtype: str) -> str:
    """Return the network's name, and log once which one `auto` takes for images."""
    if named != AUTO:
        return named
    if image_of(shape, dtype) is None:
        return "mlp"
    _say_choice(env_id, shape)
    return NATURE_CNN


@cache
def _say_choice(env_id: str, shape: tuple[int, ...]) -> None:
    _LOGGER.warning(
        "%s has images of shape %s: --network %s, the network of Mnih et al. (2015), is taken "
        "(--network mlp for none with convolutions)",
        env_id,
        list(shape),
        NATURE_CNN,
    )


@cache
def warn_of_pictures(env_id: str, shape: tuple[int, ...], dtype: str, methods: str = "") -> None:
    """Log once that pictures go into an MLP; `methods` have convolutions, by default this one."""
    if len(shape) == 3:
        _LOGGER.warning(
            "%s has observations of shape %s, which look like pictures, and an MLP sees them as "
            "%s values without places: %s%s",
            env_id,
            list(shape),
            f"{math.prod(shape):,}",
            f"{methods} have " if methods else "",
            with_convolutions(shape, dtype),
        )


def with_convolutions(shape: tuple[int, ...], dtype: str) -> str:
    """Return the flag of a network with convolutions, and what an image lacks for it.

    >>> with_convolutions((4, 84, 84), "|u1")
    '--network nature-cnn'
    """
    if image_of(shape, dtype):
        return f"--network {NATURE_CNN}"
    return (
        f"--network {NATURE_CNN}, for images of bytes with 1, 3 or 4 channels and "
        f"{LEAST_SIDE} x {LEAST_SIDE} pixels or more: wrap the environment in "
        "gymnasium.wrappers.TransformObservation or ResizeObservation"
    )
