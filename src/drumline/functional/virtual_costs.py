"""Costs of gradient steps under the virtual clock: a rule of networks and batch, not measured.

    cost = overhead + multiply-adds · nanoseconds each

An actor step multiplies forward through actor and critic, back through the critic to the actions,
and back through the actor: batch · (3 A − A₁ + 2 C − C₁) for A and C weights, of which A₁ and C₁
are in the first layers, whose inputs need no gradient. A step of K critics multiplies forward
through the target policy, the targets and the critics, and back: batch · (A + K (4 C − C₁)).
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


@dataclass(frozen=True)
class GradientRate:
    """Speed of the processor that the virtual clock assumes."""

    overhead: int
    """Nanoseconds of a gradient step besides its multiply-adds."""
    picoseconds: int
    """Picoseconds of a multiply-add."""

    def step(self, multiply_adds: int) -> int:
        """Return the nanoseconds of a step as a whole number."""
        return self.overhead + multiply_adds * self.picoseconds // 1000


class GradientWork(NamedTuple):
    """Multiply-adds of a gradient step."""

    actor: int
    critic: int


def gradient_work(
    actor_sizes: tuple[int, ...], critic_sizes: tuple[int, ...], critics: int, batch_size: int
) -> GradientWork:
    """Return the multiply-adds of an actor's and of all critics' gradient step."""
    actor, critic = _weights(actor_sizes), _weights(critic_sizes)
    of_actor = 3 * sum(actor) - actor[0] + 2 * sum(critic) - critic[0]
    of_critics = sum(actor) + critics * (4 * sum(critic) - critic[0])
    return GradientWork(batch_size * of_actor, batch_size * of_critics)


def _weights(sizes: tuple[int, ...]) -> list[int]:
    return [inputs * outputs for inputs, outputs in pairwise(sizes)]
