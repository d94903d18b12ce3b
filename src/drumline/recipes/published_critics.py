"""The critics that a population's individuals are refined by, and how jobs get to see them."""

import numpy as np

from drumline import seeding
from drumline.policies.mlp import uniform_vector
from drumline.types import State
from drumline.workers.refiner import CRITIC_TENSORS

_PREFIX = "critics/"
_COUNTERS = ("critic_steps", "jobs")


class PublishedCritics:
    """The newest critics, and the arrays of the latest job: an actor and the critics beside it."""

    def __init__(self, critics: State):
        self.newest = critics
        self.latest: dict[str, np.ndarray] = {}
        self._jobs = 0

    @property
    def vectors(self) -> np.ndarray:
        """Return the newest critics' parameters `[K, P]`."""
        return self.newest.tensors["critics"]

    @property
    def steps(self) -> int:
        """Return the gradient steps of the newest critics."""
        return int(self.newest.counters["critic_steps"])

    @property
    def jobs(self) -> int:
        """Return how many versions there have been."""
        return self._jobs

    def publish(self, actor: np.ndarray, critics: State | None = None) -> int:
        """Lay out an actor with the newest critics, or with others, under a number of its own."""
        self._jobs += 1
        self.latest = self.arrays(actor, critics)
        return self._jobs

    def arrays(self, actor: np.ndarray, critics: State | None = None) -> dict[str, np.ndarray]:
        """Return what a job sees."""
        beside = self.newest if critics is None else critics
        return {
            "actor": np.array(actor, np.float32),
            **{name: beside.tensors[name] for name in CRITIC_TENSORS},
            "critic_steps": np.array([int(beside.counters["critic_steps"])], np.int64),
        }

    def state(self) -> State:
        """Return the newest critics and the number of versions."""
        tensors = {_PREFIX + name: array for name, array in self.newest.tensors.items()}
        return State(tensors, {"critic_steps": self.steps, "jobs": self._jobs})

    def load(self, state: State) -> None:
        """Take over a state."""
        for name in _COUNTERS:
            if name not in state.counters:
                raise ValueError(f"the state has no counter {name!r}")
        for name in CRITIC_TENSORS:
            if _PREFIX + name not in state.tensors:
                raise ValueError(f"the state has no tensor {_PREFIX + name!r}")
        self._jobs = int(state.counters["jobs"])
        self.newest = State(
            {name: state.tensors[_PREFIX + name] for name in CRITIC_TENSORS},
            {"critic_steps": int(state.counters["critic_steps"])},
        )


def first_critics(sizes: tuple[int, ...], seed: int) -> State:
    """Return both critics at their first parameters, targets equal and moments zero."""
    critics = np.stack(
        [uniform_vector(sizes, seeding.generator(seed, "initial-critic", k)) for k in range(2)]
    )
    zeros = np.zeros(critics.size, np.float32)
    return State(
        {
            "critics": critics,
            "target_critics": critics.copy(),
            "critic_adam_first": zeros,
            "critic_adam_second": zeros.copy(),
        },
        {"critic_steps": 0},
    )
