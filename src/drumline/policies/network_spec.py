"""NetworkSpec: an actor-critic network as a picklable record without torch."""

from dataclasses import dataclass

from drumline.policies.actions import ActionHead

NATURE_CNN = "nature-cnn"
CONVOLUTIONAL = (NATURE_CNN, "football-cnn", "impala-resnet")
_CHANNELS = (1, 3, 4)
LEAST_SIDE = 36
"""Least height and width of images, in pixels, that nature-cnn's convolutions can take."""


def image_of(shape: tuple[int, ...], dtype: str) -> tuple[int, int, int] | None:
    """Return (channels, height, width) of an image of bytes, [C, H, W] or [H, W, C]; else None.

    >>> image_of((96, 96, 3), "|u1"), image_of((4, 84, 84), "|u1"), image_of((3, 84, 84), "<f4")
    ((3, 96, 96), (4, 84, 84), None)
    """
    if len(shape) != 3 or dtype != "|u1":
        return None
    for channels, height, width in (shape, (shape[2], shape[0], shape[1])):
        if channels in _CHANNELS and min(height, width) >= LEAST_SIDE:
            return channels, height, width
    return None


def is_own(name: str) -> bool:
    """Return whether a network's name is that of a module of the user's."""
    return ":" in name


@dataclass(frozen=True)
class NetworkSpec:
    """A network from observations to action outputs and a value."""

    observation_shape: tuple[int, ...]
    observation_dtype: str
    head: ActionHead
    network: str = "mlp"
    """mlp, nature-cnn, football-cnn, impala-resnet, or `package.module:Class`."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the tanh layers of both trunks of mlp."""
    normalize: bool = False
    """Whether observations are normalised by the published moments and clipped to ±10.

    Bytes never are: they are divided by 255.
    """

    @property
    def channels_last(self) -> bool:
        """Whether a convolutional network gets images [H, W, C], as most cameras give them."""
        shape = self.observation_shape
        if self.network not in CONVOLUTIONAL or len(shape) != 3:
            return False
        return shape[0] not in _CHANNELS and shape[2] in _CHANNELS

    @property
    def is_mlp(self) -> bool:
        """Whether the forward pass needs no torch."""
        return self.network == "mlp"

    @property
    def observation_size(self) -> int:
        """Return the number of values in one observation."""
        size = 1
        for length in self.observation_shape:
            size *= length
        return size
