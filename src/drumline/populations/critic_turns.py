"""When the critics of a generational method learn, from what, and who is refined by which.

own turns   Q₀ ─ z₀ → Q₁ ─ z₁ → Q₂ …    member i is refined by Qᵢ₊₁, once it is there (CEM-RL)
all first   Q₀ ─ z₀ → Q₁ … → Q_R        everybody waits for Q_R (P-CEM-RL, serial critic)
beside      Q ─ μ → Q′ ─ μ → Q″ …       who begins takes the newest (P-CEM-RL, parallel critic)
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from drumline.types import State


class Turn(NamedTuple):
    """What the critics learn next."""

    target_actor: np.ndarray
    """Whose actions the targets value."""
    steps: int


class CriticTurns(Protocol):
    """The order of the critics' jobs, and which critics refine a member."""

    def begin(self, refined: Sequence[np.ndarray], steps: int, critics: State) -> None:
        """A generation begins, whose first members are `refined`; `steps` are due for it."""
        ...

    def due(self, mean: np.ndarray) -> Turn | None:
        """Return what an idle critic does now."""
        ...

    def take(self, critics: State) -> None:
        """Take over the critics that the latest turn has made."""
        ...

    def critics_of(self, member: int) -> State | None:
        """Return what a member begins with; None: it waits."""
        ...


class TurnsOfMembers:
    """One turn for each refined member, as the target's actor, `steps` shared out among them."""

    def __init__(self, *, all_first: bool):
        """`all_first`: everybody waits for the critics of the last turn."""
        self._all_first = all_first
        self._targets: Sequence[np.ndarray] = ()
        self._steps = 0
        self._begun = 0
        self._after: list[State] = []

    def begin(self, refined: Sequence[np.ndarray], steps: int, critics: State) -> None:
        """Give every refined member the same number of steps; what is left over is left out."""
        self._steps = steps // max(1, len(refined))
        self._targets = refined if self._steps else ()
        self._begun, self._after = 0, [critics]

    def due(self, mean: np.ndarray) -> Turn | None:
        """Return the turn of the next member, in order."""
        if self._begun == len(self._targets):
            return None
        self._begun += 1
        return Turn(self._targets[self._begun - 1], self._steps)

    def take(self, critics: State) -> None:
        """Take over the critics after a member's turn."""
        self._after.append(critics)

    def critics_of(self, member: int) -> State | None:
        """Return the critics after the member's own turn, or after the last."""
        turns = len(self._targets)
        needed = turns if self._all_first else (member + 1 if member < turns else 0)
        return self._after[needed] if needed < len(self._after) else None


class TurnsBeside:
    """Job after job beside the population, whatever its generation; the target's actor is μ."""

    def __init__(self, batches: int):
        self._batches = batches
        self._critics = State()

    def begin(self, refined: Sequence[np.ndarray], steps: int, critics: State) -> None:
        """Nothing is due for a generation."""
        self._critics = critics

    def due(self, mean: np.ndarray) -> Turn | None:
        """Return one more job."""
        return Turn(mean, self._batches)

    def take(self, critics: State) -> None:
        """Take over the newest critics."""
        self._critics = critics

    def critics_of(self, member: int) -> State | None:
        """Return the newest critics."""
        return self._critics
