"""An environment whose bits depend on the number of NumPy's threads, as large products' do."""

import numpy as np
from impure_environment import Counting
from threadpoolctl import threadpool_info


def threads() -> int:
    return max(p["num_threads"] for p in threadpool_info() if p["internal_api"] == "openblas")


class CountsThreads(Counting):
    """Its rewards do."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward + threads(), terminated, truncated, info


class ThreadedSearch:
    """An optimiser whose vectors do, as those of a large covariance matrix."""

    def __init__(self, start, seed):
        self.vector = start.astype(np.float64)

    def ask(self):
        return self.vector.copy()

    def tell(self, vector, fitness):
        self.vector += 0.01 * threads()
