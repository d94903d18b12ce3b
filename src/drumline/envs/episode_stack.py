"""Several episodes side by side in one worker: one call of the policy for a step of each.

Only for environments whose steps are Drumline's own (`lean_steps.py`): they keep their state in
themselves and read no global generator, so that it cannot matter what runs between two steps.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from drumline.envs.episode import GREATEST, WITHDRAWN_EVERY, Episode, NonFinite
from drumline.envs.lean_steps import LeanEnvironment
from drumline.functional.torch_threads import one_torch_thread


class StackedPolicy(Protocol):
    """A policy for the members in places 0 … `count` − 1, as `policies.stacked_mlp` has it."""

    count: int
    vectors: list[np.ndarray]
    rows: list[np.ndarray]
    observations: list[np.ndarray]

    def outputs(self, active: int) -> np.ndarray:
        """Return the raw outputs `[active, O]` of the first places."""
        ...

    def actions(self, outputs: np.ndarray, noise: np.ndarray | None) -> Sequence[Any]:
        """Return an action for each row of outputs."""
        ...

    def move(self, source: int, target: int) -> None:
        """Copy the parameters and the observation of one place to another."""
        ...


class Beginning(NamedTuple):
    """An episode to run."""

    seed: int
    limit: int
    """Steps after which it is cut; 0 for none."""
    load: Callable[[np.ndarray], None]
    """Writes the parameters into a vector `[P]`."""
    noise: Callable[[], np.ndarray] | None
    """Draws a block of action noise, a row per step; None for all episodes or for none."""
    keep_observations: bool


class _Place:
    """One of the episodes that run side by side."""

    __slots__ = ("began", "environment", "kept", "noise", "number", "signs", "stop", "total")

    def __init__(self, environment: LeanEnvironment):
        self.environment = environment
        self.number = self.began = self.stop = 0
        self.total = self.signs = 0.0
        self.kept: list[np.ndarray] | None = None
        self.noise: Iterator[np.ndarray] = iter(())


class EpisodeStack:
    """Runs episodes of as many environments as the policy has places."""

    def __init__(self, environments: Sequence[LeanEnvironment], policy: StackedPolicy):
        self._policy = policy
        self._places = [_Place(environment) for environment in environments]

    @one_torch_thread()
    def run(
        self,
        beginnings: Sequence[Beginning],
        *,
        count_signs: bool,
        probe: Callable[[str], None],
        progress: Callable[[int], None],
        withdrawn: Callable[[], bool],
    ) -> list[Episode | None]:
        """Run all episodes, each until its end; None for those that were withdrawn before.

        NonFinite as in `EpisodeLoop`, without a place: the episodes are to be run again singly.
        """
        policy = self._policy
        waiting = deque(enumerate(beginnings))
        ended: list[Episode | None] = [None] * len(beginnings)
        noisy = beginnings[0].noise is not None
        rows, size = policy.rows, policy.rows[0].size
        running: list[_Place] = []
        spare = list(self._places)
        now = 0
        for index in range(min(policy.count, len(beginnings))):
            running.append(spare.pop())
            self._begin(running[index], index, *waiting.popleft(), now, probe)
        while running:
            active = len(running)
            _refuse_unfinite(policy.observations[active])
            outputs = policy.outputs(active)
            _refuse_nan(outputs)
            noise = np.array([next(place.noise) for place in running]) if noisy else None
            actions = policy.actions(outputs, noise)
            now += 1
            over: list[int] = []
            for index, place in enumerate(running):
                reward, terminated = place.environment.advance(actions[index], rows[index])
                place.total += reward
                if place.kept is not None:
                    place.kept.append(rows[index].copy())
                if count_signs:
                    place.signs += float(np.sign(reward))
                if terminated or now == place.stop:
                    over.append(index)
            progress(active)
            for index in reversed(over):
                place = running[index]
                ended[place.number] = _episode(place, now, size)
                probe("episode-ended")
                if waiting:
                    self._begin(place, index, *waiting.popleft(), now, probe)
                    continue
                last = len(running) - 1
                if index != last:
                    policy.move(last, index)
                    running[index] = running[last]
                running.pop()
            if now % WITHDRAWN_EVERY == 0 and running and withdrawn():
                for place in running:
                    ended[place.number] = _episode(place, now, size)
                break
        return ended

    def _begin(
        self,
        place: _Place,
        index: int,
        number: int,
        beginning: Beginning,
        now: int,
        probe: Callable[[str], None],
    ) -> None:
        """Begin an episode in a place, whose row gets its first observation."""
        beginning.load(self._policy.vectors[index])
        probe("episode-begun")
        observation, _ = place.environment.reset(seed=beginning.seed)
        self._policy.rows[index][:] = observation
        place.number, place.began, place.total, place.signs = number, now, 0.0, 0.0
        place.stop = now + beginning.limit if beginning.limit else 0
        place.kept = [observation] if beginning.keep_observations else None
        if beginning.noise is not None:
            place.noise = _rows(beginning.noise)


def _rows(noise: Callable[[], np.ndarray]) -> Iterator[np.ndarray]:
    while True:
        yield from noise()


def _refuse_unfinite(observations: np.ndarray) -> None:
    """Raise NonFinite if an observation is not finite; normalisation would clip it."""
    # Squares of finite numbers may be infinite: only then does the slower check decide.
    if not np.vdot(observations, observations) < np.inf and not np.isfinite(observations).all():
        raise NonFinite("an observation is not finite")


def _refuse_nan(outputs: np.ndarray) -> None:
    """Raise NonFinite if an output is NaN; a NaN reaches every output of its member."""
    firsts = outputs[:, 0]
    if not firsts.dot(firsts) >= 0.0:
        raise NonFinite("a policy's output is NaN")


def _episode(place: _Place, now: int, size: int) -> Episode:
    length, rows = now - place.began, None
    if not -GREATEST < place.total < GREATEST:
        raise NonFinite(f"the return is {place.total}")
    if place.kept is not None:
        rows = np.concatenate(place.kept[:length], axis=None, dtype=np.float64)
        rows = rows.reshape(length, size)
        if not np.isfinite(rows).all():
            raise NonFinite("an observation is not finite")
    return Episode(float(place.total), place.signs, length, rows, b"")
