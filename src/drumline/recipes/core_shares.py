"""Executors on the core of the learner: a prediction from measured costs.

With a core for each executor and one for the learner, an update waits for the longer side. Where
the steps of known environments take much longer than learning, all cores step, and the learner
takes its time from them. Bits do not depend on it (docs/measured/hts-rl.md).
"""

import math
from itertools import pairwise

from drumline.envs.step_choice import LEAN_PATH, step_path
from drumline.training.actor_critic_parts import ActorCriticParts

_STEP_MICROSECONDS = {
    "CartPole-v1": 2.4,
    "MountainCar-v0": 1.6,
    "Pendulum-v1": 3.4,
    "Acrobot-v1": 11.4,
    "Reacher-v5": 36.0,
    "Pusher-v5": 44.0,
    "InvertedPendulum-v5": 19.0,
    "InvertedDoublePendulum-v5": 48.0,
    "HalfCheetah-v5": 39.0,
    "Hopper-v5": 83.0,
    "Swimmer-v5": 72.0,
    "Walker2d-v5": 101.0,
    "Ant-v5": 211.0,
    "Humanoid-v5": 274.0,
    "HumanoidStandup-v5": 439.0,
}
"""A core's time for a lean step (benchmarks/results/lean_steps.csv). Only the ratio to the costs of
learning counts, which another processor changes less than the times."""

_ACTING = 8.0
_MINIBATCH = 200.0
_ROW = 90e-6
"""Microseconds of an executor for the policy and the storage, of a minibatch, and of a row's
forward and backward pass for each weight (hts_throughput.csv)."""
_LEAST_GAIN = 1.5
"""Least predicted gain: less was none when measured, where processes share a core."""


def all_cores_step(parts: ActorCriticParts, cores: int, groups: int = 1) -> bool:
    """Return whether executors on all cores are predicted to be faster than on all but one.

    The cores are those of one of the groups, which share the rows of a minibatch. True where actors
    and learner wait for a device most of the time. Else False where no cost is known: without a
    lean step, for networks on images, and for an `mlp` that learns on a device.
    """
    environment, network = parts.lanes.environment, parts.network
    if parts.config.device != "cpu" and not network.is_mlp:
        return cores > 1
    step = _STEP_MICROSECONDS.get(environment.id)
    plain = not environment.options and environment.frame_skip == 1 and not environment.flatten
    on_cores = network.network == "mlp" and parts.config.device == "cpu"
    if step is None or not plain or not on_cores or cores < 2:
        return False
    if step_path(environment.id, environment.engine) != LEAN_PATH:
        return False
    learning = _learning(parts, groups)
    apart = max(learning, (step + _ACTING) / (cores - 1))
    each = step + _ACTING * cores / (cores - 1)  # a call acts for fewer environments
    together = max(learning, (each + learning) / cores)
    return _LEAST_GAIN * together < apart


def _learning(parts: ActorCriticParts, groups: int) -> float:
    """Return the microseconds of a group's learner for an env step of the group."""
    config, network, shape = parts.config, parts.network, parts.shape
    ppo = config.learner == "ppo"
    passes, minibatches = (config.epochs, config.minibatches) if ppo else (1, 1)
    rows = shape.environments * shape.alpha / minibatches / groups
    sizes = (math.prod(network.observation_shape), *network.hidden, network.head.output_size)
    weights = 2 * sum(inputs * outputs for inputs, outputs in pairwise(sizes))
    return passes * (_MINIBATCH / rows + _ROW * weights)
