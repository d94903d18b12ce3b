"""Known answer that shows whether another machine computes the same bits."""

import hashlib
from dataclasses import dataclass

import numpy as np

from drumline import seeding
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.episode import EpisodeLoop
from drumline.envs.make import make_environment
from drumline.functional.low_rank import LowRank, seeded_noise
from drumline.policies.build import build_policy
from drumline.policies.spec import PolicySpec
from drumline.protocols import Worker, WorkerContext

_SEED = 20170310
_STEPS = 200
_SCALE = np.float32(0.05)


@dataclass(frozen=True)
class ProofSpec:
    """Factory of a worker that answers any task with the same SHA-256.

    It covers noise, an update's sum over it, and an episode of the run's own environment with the
    policy of those parameters.
    """

    environment: EnvironmentSpec
    policy: PolicySpec
    low_rank: LowRank | None = None

    def __call__(self, context: WorkerContext) -> Worker:
        """Build the worker inside its process."""
        made = make_environment(self.environment)
        context.on_leave(made.close)
        policy = build_policy(self.policy)
        loop = EpisodeLoop(made.environment, policy, self.environment.id, context.building)

        def answer(task: object) -> bytes:
            count = policy.parameter_count
            weights = [1.0, -0.5, 0.25, 0.125]
            keys = [0, 1, 1 << 32, 3 << 32]
            noise = seeded_noise(_SEED, self.low_rank)
            parameters = noise.weighted_sum(keys, weights, count, 1) * _SCALE
            policy.load_vector(parameters)
            seeding.seed_globals(_SEED)
            episode = loop.run(
                _SEED,
                min(limit for limit in (made.limit, _STEPS) if limit),
                noise=None,
                count_signs=False,
                keep_observations=False,
                digest=True,
                progress=context.progress,
                withdrawn=context.withdrawn,
            )
            return hashlib.sha256(parameters.tobytes() + episode.digest).digest()

        return answer
