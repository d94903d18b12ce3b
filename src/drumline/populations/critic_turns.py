"""Turns of a generational method's critics: their order, and the critics that refine a member.

own turns   Q₀ ─ z₀ → Q₁ ─ z₁ → Q₂ …    member i is refined by Qᵢ₊₁, once it is there (CEM-RL)
all first   Q₀ ─ z₀ → Q₁ … → Q_R        all members wait for Q_R (P-CEM-RL, serial critic)
beside      Q ─ μ → Q′ ─ μ → Q″ …       a member takes the newest (P-CEM-RL, parallel critic)
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from drumline.types import State


class Turn(NamedTuple):
    """Next job of the critics."""

    target_actor: np.ndarray
    """Parameters `[P]` of the actor whose actions the targets value."""
    steps: int


class CriticTurns(Protocol):
    """The order of the critics' jobs, and which critics refine a member."""

    def begin(self, refined: Sequence[np.ndarray], steps: int, critics: State) -> None:
        """Begin a generation whose first members are `refined`; `steps` critic steps are due."""
        ...

    def due(self, mean: np.ndarray) -> Turn | None:
        """Return an idle critic's next turn; None: no turn is due."""
        ...

    def take(self, critics: State) -> None:
        """Record the critics that the latest turn has made."""
        ...

    def critics_of(self, member: int) -> State | None:
        """Return the critics that refine a member; None: the member waits for them."""
        ...


class TurnsOfMembers:
    """One turn for each refined member, which is the target's actor; `steps` are shared equally."""

    def __init__(self, *, all_first: bool):
        """`all_first`: every member waits for the critics of the last turn."""
        self._all_first = all_first
        self._targets: Sequence[np.ndarray] = ()
        self._steps = 0
        self._begun = 0
        self._after: list[State] = []

    def begin(self, refined: Sequence[np.ndarray], steps: int, critics: State) -> None:
        """Give every refined member the same number of steps; a remainder is dropped."""
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
        """Record the critics after a member's turn."""
        self._after.append(critics)

    def critics_of(self, member: int) -> State | None:
        """Return the critics after the member's own turn, or after the last."""
        turns = len(self._targets)
        needed = turns if self._all_first else (member + 1 if member < turns else 0)
        return self._after[needed] if needed < len(self._after) else None


class TurnsBeside:
    """Jobs one by one beside the population, across generations; the target's actor is μ."""

    def __init__(self, batches: int):
        self._batches = batches
        self._critics = State()

    def begin(self, refined: Sequence[np.ndarray], steps: int, critics: State) -> None:
        """Begin a generation: no critic steps are due for it."""
        self._critics = critics

    def due(self, mean: np.ndarray) -> Turn | None:
        """Return one more job."""
        return Turn(mean, self._batches)

    def take(self, critics: State) -> None:
        """Record the newest critics."""
        self._critics = critics

    def critics_of(self, member: int) -> State | None:
        """Return the newest critics."""
        return self._critics
