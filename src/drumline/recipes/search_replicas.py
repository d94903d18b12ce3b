"""Factory of a search's replicas, which travels to every node of a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from drumline.functional.low_rank import LowRank
from drumline.recipes.families import Searching
from drumline.recipes.searched_policy import noise_in
from drumline.training.replicas import FIXED, SearchReplica


@dataclass(frozen=True)
class SearchReplicaSpec:
    """Everything that a node needs to make a replica; its state comes from the driver."""

    config: Searching
    parameter_count: int
    observation_size: int
    """0 with an objective or images."""
    low_rank: LowRank | None = None

    def __call__(self, shared: Mapping[str, np.ndarray], threads: int) -> SearchReplica:
        """Fill the node's noise table, and make the replica."""
        noise = noise_in(self.config, self.parameter_count, shared, threads, self.low_rank)
        zeros = np.zeros(self.parameter_count, np.float32)
        strategy = self.config.strategy(zeros, noise, self.observation_size, threads)
        return SearchReplica(strategy, {name: shared[name] for name in FIXED if name in shared})
