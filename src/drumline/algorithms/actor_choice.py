"""The choice of candidates that are refined by gradient steps before their episode (RL or ES)."""

from collections.abc import Callable

from drumline import seeding
from drumline.types import State

RefineProbability = Callable[[int, int], float]
"""(n_RL, n_ES) → probability that the next candidate is refined; both counts start at 1."""


class ActorChoice:
    """Draws ES or RL for one candidate after the other (AES-RL's population control)."""

    def __init__(self, probability: RefineProbability, *, seed: int):
        self._probability = probability
        self._seed = seed
        self._rl_count = 1
        self._es_count = 1

    def refines(self, index: int) -> bool:
        """Draw for candidate `index` from its own stream, and count it."""
        probability = self._probability(self._rl_count, self._es_count)
        drawn = seeding.generator(self._seed, "es-or-rl", index).random()
        # Drawn from [0, 1): below 0 is never and below 1 is always.
        refined = bool(drawn < probability)
        self._rl_count += refined
        self._es_count += not refined
        return refined

    @property
    def rl_share(self) -> float:
        """Return n_RL / (n_RL + n_ES)."""
        return self._rl_count / (self._rl_count + self._es_count)

    def state(self) -> State:
        """Return both counts."""
        return State({}, {"rl_individuals": self._rl_count, "es_individuals": self._es_count})

    def load(self, state: State) -> None:
        """Load both counts."""
        self._rl_count = int(state.counter("rl_individuals"))
        self._es_count = int(state.counter("es_individuals"))
