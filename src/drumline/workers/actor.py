"""The actor: answers the requests of its environments in batches of those that are ready.

It draws no random numbers: the numbers that choose an action come with the request. An answer is
therefore a pure function of the request and of the version that the request names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline.buffers.rollout import STORAGES, RolloutShape, RolloutStorage
from drumline.crew_protocols import Exchange, RoleContext
from drumline.policies.actions import ActionHead, sample
from drumline.policies.inference import Inference
from drumline.protocols import Probe
from drumline.workers.versions import Forward, forward_for

_REQUESTED = 1


@dataclass(frozen=True)
class ActorSpec:
    """Everything an actor needs; a crew calls it to build one."""

    bounds: tuple[int, ...]
    """First environment of each actor; the last entry is the number of environments."""
    shape: RolloutShape
    head: ActionHead
    inference: Callable[[], Inference]
    newest: bool = False
    """Whether to act with the newest version instead of the version of the interval's number."""

    def __call__(self, context: RoleContext) -> "Actor":
        """Build the actor inside its process."""
        return Actor(self, context)


class Actor:
    """A `Role`: `advance` answers every waiting request."""

    def __init__(self, spec: ActorSpec, context: RoleContext):
        first, last = spec.bounds[context.index : context.index + 2]
        self._own = np.arange(first, last)
        self._answers = Answers(
            context.exchange,
            RolloutStorage(spec.shape, context.arrays),
            spec.head,
            forward_for(spec.inference, context, newest=spec.newest),
            context.probe,
            context.progress,
        )

    def advance(self) -> bool:
        """Answer every waiting request; return whether there was one."""
        return self._answers.give(self._own)

    def due_seconds(self) -> float | None:
        """Return None: only a bell brings work."""
        return None


class Answers:
    """Answers to requests, for an actor process or for a driver that acts itself."""

    def __init__(
        self,
        exchange: Exchange,
        storage: RolloutStorage,
        head: ActionHead,
        forward: Forward,
        probe: Probe = lambda point: None,
        progress: Callable[[int], None] = lambda amount: None,
    ):
        self._exchange = exchange
        self._storage = storage
        self._head = head
        self._forward = forward
        self._probe = probe
        self._progress = progress

    def give(self, environments: np.ndarray) -> bool:
        """Answer every request of these environments; return whether there was one."""
        requested = environments[self._exchange.state[environments] == _REQUESTED]
        if not len(requested):
            return False
        versions = self._forward.wanted(self._exchange.version[requested])
        for version in dict.fromkeys(versions.tolist()):
            self._answer(version, requested[versions == version])
        return True

    def _answer(self, version: int, environments: np.ndarray) -> None:
        self._probe("request-received")
        storage = self._storage
        at = self._place(environments)
        outputs, values = self._forward(version, storage.observed(*at))
        storage.actions[at], storage.log_probs[at] = sample(
            self._head, outputs, storage.noise[environments]
        )
        self._probe("half-answer")
        storage.values[at] = values
        storage.versions[at] = version
        self._progress(len(environments))
        self._exchange.serve(environments)
        self._probe("answer-sent")

    def _place(self, environments: np.ndarray) -> tuple[Any, Any, Any]:
        """Return (storage, t, environments), as slices if all environments are at one step."""
        steps = self._exchange.finished[environments]
        first, last = int(environments[0]), int(environments[-1])
        if last - first + 1 == len(environments) and (steps == steps[0]).all():
            interval, t = divmod(int(steps[0]), self._storage.shape.alpha)
            return interval % STORAGES, t, slice(first, last + 1)
        intervals, t = np.divmod(steps, self._storage.shape.alpha)
        return intervals % STORAGES, t, environments
