"""Rehearsal: the first steps of a run made again, because an environment must repeat itself."""

import dataclasses
import sys
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from drumline import seeding
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.lanes import Lanes
from drumline.envs.lanes_spec import LanesSpec
from drumline.envs.make import make_environment
from drumline.errors import ImpureEnvironment, WorkerError
from drumline.functional.frame_stacks import whole
from drumline.functional.torch_threads import one_torch_thread
from drumline.policies.heads import Head, stored_action_function
from drumline.protocols import Unwatched, Whereabouts
from drumline.tasks import Explore, Live, Lived
from drumline.types import Rollout, StackedFrames

_SETS = ", or follows the order of a set (then start Python with PYTHONHASHSEED=0)"
_ROUNDS = 2  # the second time in an environment that has run before: a fresh one may repeat by luck


@contextmanager
def repeating(where: str) -> Generator[None]:
    """Refuse an environment that raises at steps that it made before."""
    try:
        yield
    except ImpureEnvironment:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        own = error.error if isinstance(error, WorkerError) else f"{type(error).__name__}: {error}"
        raise _impure(where, f"raised {own}") from error


def alone(rollout: Rollout) -> Rollout:
    """Return a copy of environment 0's part of an interval."""
    fields = ("actions", "rewards", "terminated", "truncated")
    copies = {name: getattr(rollout, name)[:, :1].copy() for name in fields}
    rows = rollout.observations
    one = rows._replace(indices=rows.indices[:, :1]) if isinstance(rows, StackedFrames) else rows
    return rollout._replace(observations=whole(one)[:, :1].copy(), **copies)


def rehearse(
    lanes: LanesSpec, first: Rollout, env_id: str, whereabouts: Whereabouts | None = None
) -> None:
    """Step environment 0 through the first interval again; raises if any bit differs.

    The second time another of Gymnasium's environments takes a step after each of its steps, as in
    an executor of several: in an executor of its own, state that they share would not show.
    """
    again, observations = dataclasses.replace(lanes, count=1)(), whole(first.observations)
    several = lanes.count > 1 and lanes.environment.engine != "envpool"
    other = dataclasses.replace(lanes, first=1, count=1) if several else None
    where = f"environment 0 of {env_id}"
    noted = whereabouts or Unwatched()
    noted.enter(f"the rehearsal of {where}, --seed {lanes.root_seed}")
    try:
        with seeding.kept_globals(), repeating(where), noted.building():
            _replay(again, None, first, observations, where, noted)
            company = None if other is None else other()
            try:
                _replay(again, company, first, observations, where, noted)
            finally:
                if company is not None:
                    company.close()
    finally:
        noted.leave()
        again.close()


def _replay(
    again: Lanes,
    company: Lanes | None,
    first: Rollout,
    observations: np.ndarray,
    where: str,
    noted: Whereabouts,
) -> None:
    """Compare a begin and the steps of an interval with those recorded."""
    turn = "" if company is None else ", stepped in turn with another"
    observation = again.begin(0)
    if company is not None:
        company.begin(0)
    for t in range(len(first.rewards)):
        compare(observations[t, 0], observation[0], "observation", t, where, turn)
        steps = again.step(None, first.actions[t, :1])
        noted.step[0] = t + 1
        compare(first.rewards[t, 0], steps.rewards[0], "reward", t, where, turn)
        ended = (first.terminated[t, 0], first.truncated[t, 0])
        compare(ended, (steps.terminated[0], steps.truncated[0]), "end", t, where, turn)
        observation = steps.observations
        if company is not None:
            company.step(None, first.actions[t, :1])
    last = len(first.rewards)
    compare(observations[-1, 0], observation[0], "observation", last, where, turn)


@one_torch_thread()
def rehearse_episode(
    spec: EnvironmentSpec,
    head: Head,
    task: Live | Explore,
    lived: Lived,
    whereabouts: Whereabouts | None = None,
) -> None:
    """Make an episode's steps again in another environment; raises if any bit differs."""
    made = make_environment(spec)
    environment = made.environment
    to_environment = stored_action_function(head)
    noted = whereabouts or Unwatched()
    noted.enter(f"the rehearsal of {spec.id}, seed {task.seed}")
    try:
        with seeding.kept_globals(), repeating(spec.id), noted.building():
            for _ in range(_ROUNDS):
                seeding.seed_globals(task.seed)
                observation, _ = environment.reset(seed=task.seed)
                compare(lived.observations[0], _flat(observation), "observation", 0, spec.id)
                for t, (stored, reward) in enumerate(
                    zip(lived.actions, lived.rewards, strict=True)
                ):
                    observation, now, _, _, _ = environment.step(to_environment(stored))
                    noted.step[0] = t + 1
                    compare(reward, np.float32(now), "reward", t, spec.id)
                    after = _flat(observation)
                    compare(lived.observations[t + 1], after, "observation", t + 1, spec.id)
    finally:
        noted.leave()
        made.close()


def _flat(observation: object) -> np.ndarray:
    return np.asarray(observation, np.float32).reshape(-1)


def compare(before: object, after: object, what: str, t: int, where: str, turn: str = "") -> None:
    """Raise `ImpureEnvironment` for the first value that differed the second time."""
    if not np.array_equal(np.asarray(before), np.asarray(after), equal_nan=True):
        raise _impure(where + turn, f"gave another {what} at step {t}")


def _impure(where: str, what: str) -> ImpureEnvironment:
    sets = "" if sys.flags.hash_randomization == 0 else _SETS
    return ImpureEnvironment(
        f"{where}, run again with the same seeds and actions, {what}: "
        f"it has hidden state that reset(seed=…) does not reset{sets}, so no result could be "
        "repeated. Mend the environment, or train without the promise with --no-promise"
    )
