"""Running the first interval of the first environment again: an environment must repeat itself."""

import dataclasses

import numpy as np

from drumline.envs.lanes import LanesSpec
from drumline.functional.frame_stacks import whole
from drumline.schedules.generational import ImpureEnvironment
from drumline.types import Rollout, StackedFrames

_ROUNDS = 2  # the second time in an environment that has run before: a fresh one may repeat by luck


def alone(rollout: Rollout) -> Rollout:
    """Return a copy of environment 0's part of an interval."""
    fields = ("actions", "rewards", "terminated", "truncated")
    copies = {name: getattr(rollout, name)[:, :1].copy() for name in fields}
    rows = rollout.observations
    one = rows._replace(indices=rows.indices[:, :1]) if isinstance(rows, StackedFrames) else rows
    return rollout._replace(observations=whole(one)[:, :1].copy(), **copies)


def rehearse(lanes: LanesSpec, first: Rollout, env_id: str) -> None:
    """Step environment 0 through the first interval again; raises if any bit differs."""
    again, observations = dataclasses.replace(lanes, count=1)(), whole(first.observations)
    try:
        for _ in range(_ROUNDS):
            observation = again.begin(0)
            for t in range(len(first.rewards)):
                _compare(observations[t, 0], observation[0], "observation", t, env_id)
                steps = again.step(None, first.actions[t, :1])
                _compare(first.rewards[t, 0], steps.rewards[0], "reward", t, env_id)
                ended = (first.terminated[t, 0], first.truncated[t, 0])
                _compare(ended, (steps.terminated[0], steps.truncated[0]), "end", t, env_id)
                observation = steps.observations
            last = len(first.rewards)
            _compare(observations[-1, 0], observation[0], "observation", last, env_id)
    finally:
        again.close()


def _compare(before: object, after: object, what: str, t: int, env_id: str) -> None:
    if not np.array_equal(np.asarray(before), np.asarray(after), equal_nan=True):
        raise ImpureEnvironment(
            f"environment 0 of {env_id}, run again with the same seeds and actions, gave another "
            f"{what} at step {t}: it has hidden state that reset(seed=…) does not reset, so no "
            "result could be repeated. Mend the environment, or train without the promise with "
            "--no-promise"
        )
