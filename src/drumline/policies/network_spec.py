"""NetworkSpec: an actor-critic network as a picklable record without torch."""

from dataclasses import dataclass

from drumline.policies.actions import ActionHead


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
