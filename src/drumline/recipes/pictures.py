"""A word about pictures that a network without convolutions would see."""

import logging
import math
from functools import cache

_LOGGER = logging.getLogger("drumline")


@cache
def warn_of_pictures(env_id: str, shape: tuple[int, ...], methods: str = "") -> None:
    """Log once that pictures go into an MLP; `methods` have convolutions, by default this one."""
    if len(shape) == 3:
        _LOGGER.warning(
            "%s has observations of shape %s, which look like pictures, and an MLP sees them as "
            "%s values without places: %s%s",
            env_id,
            list(shape),
            f"{math.prod(shape):,}",
            f"{methods} have " if methods else "",
            with_convolutions(shape),
        )


def with_convolutions(shape: tuple[int, ...]) -> str:
    """Return the flag of a network with convolutions, and the order of axes that it takes.

    >>> with_convolutions((4, 84, 84))
    '--network nature-cnn'
    """
    if shape[-1] < min(shape[:-1]):
        height, width, channels = shape
        return (
            f"--network nature-cnn, which takes [C, H, W], here {[channels, height, width]}: wrap "
            "the environment in gymnasium.wrappers.TransformObservation"
        )
    return "--network nature-cnn"


WITH_CONVOLUTIONS = "hts, a2c, ppo and impala"
"""Methods whose networks may have convolutions."""
