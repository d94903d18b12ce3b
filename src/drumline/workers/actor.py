"""The actor: answers the requests of its environments in batches, whoever is ready.

It draws nothing: the numbers that choose an action come with the request, so an answer is a pure
function of the request and of the version that it asks for.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from drumline.buffers.rollout import STORAGES, RolloutShape, RolloutStorage
from drumline.policies.actions import ActionHead, sample
from drumline.policies.inference import Inference
from drumline.protocols import RoleContext
from drumline.workers.versions import VersionedInference

_REQUESTED = 1


@dataclass(frozen=True)
class ActorSpec:
    """Everything that an actor needs; called by a crew to build one."""

    bounds: tuple[int, ...]
    """First environment of each actor; the last entry is the number of all."""
    shape: RolloutShape
    head: ActionHead
    inference: Callable[[], Inference]

    def __call__(self, context: RoleContext) -> "Actor":
        """Build the actor inside its process."""
        return Actor(self, context)


class Actor:
    """A `Role`: `advance` answers every request that is there."""

    def __init__(self, spec: ActorSpec, context: RoleContext):
        self._spec = spec
        self._context = context
        self._exchange = context.exchange
        self._storage = RolloutStorage(spec.shape, context.arrays)
        self._forward = VersionedInference(spec.inference, context.published)
        self._first, last = spec.bounds[context.index : context.index + 2]
        self._own = slice(self._first, last)

    def advance(self) -> bool:
        """Answer every request that is there; returns whether there was one."""
        requested = np.flatnonzero(self._exchange.state[self._own] == _REQUESTED)
        if not len(requested):
            return False
        environments = self._first + requested
        versions = self._exchange.version[environments]
        for version in dict.fromkeys(versions.tolist()):
            self._answer(version, environments[versions == version])
        return True

    def due_seconds(self) -> float | None:
        """Only a bell helps."""
        return None

    def _answer(self, version: int, environments: np.ndarray) -> None:
        self._context.probe("request-received")
        storage = self._storage
        intervals, t = np.divmod(self._exchange.finished[environments], self._spec.shape.alpha)
        at = (intervals % STORAGES, t, environments)
        outputs, values = self._forward(version, storage.observations[at])
        storage.actions[at], storage.log_probs[at] = sample(
            self._spec.head, outputs, storage.noise[environments]
        )
        self._context.probe("half-answer")
        storage.values[at] = values
        self._context.progress(len(environments))
        self._exchange.serve(environments)
        self._context.probe("answer-sent")
