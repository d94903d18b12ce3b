"""Learner of gradient steps beside a population, and the arrays of it that jobs see."""

import numpy as np

from drumline.types import State


class PublishedLearner:
    """The newest learner, and the arrays of the latest job: an actor and a learner beside it."""

    def __init__(self, newest: State, *, saved_as: str, published_as: str = ""):
        """`saved_as` and `published_as`: prefixes of the names of its arrays."""
        self.newest = newest
        self.latest: dict[str, np.ndarray] = {}
        self._saved_as = saved_as
        self._published_as = published_as
        self._jobs = 0

    @property
    def critics(self) -> np.ndarray:
        """Return the newest critics' parameters `[K, P]`."""
        return self.newest.tensors["critics"]

    @property
    def critic_steps(self) -> int:
        """Return the gradient steps of the newest critics."""
        return int(self.newest.counters["critic_steps"])

    def publish(self, actor: np.ndarray, learner: State | None = None) -> int:
        """Lay out an actor with the newest learner, or an older, under a number of its own."""
        self._jobs += 1
        self.latest = self.arrays(actor, learner)
        return self._jobs

    def arrays(self, actor: np.ndarray, learner: State | None = None) -> dict[str, np.ndarray]:
        """Return the arrays that a job sees."""
        beside = self.newest if learner is None else learner
        counters = {name: np.array([int(n)], np.int64) for name, n in beside.counters.items()}
        both = {**beside.tensors, **counters}
        return {
            "actor": np.array(actor, np.float32),
            **{self._published_as + name: array for name, array in both.items()},
        }

    def state(self) -> State:
        """Return the newest learner and the number of versions."""
        tensors = {self._saved_as + name: array for name, array in self.newest.tensors.items()}
        return State(tensors, {**self.newest.counters, "jobs": self._jobs})

    def load(self, state: State) -> None:
        """Take over a state."""
        counters = {name: int(state.counter(name)) for name in self.newest.counters}
        self._jobs = int(state.counter("jobs"))
        self.newest = State(
            {
                name: state.tensor(self._saved_as + name, like=array)
                for name, array in self.newest.tensors.items()
            },
            {**counters},
        )
