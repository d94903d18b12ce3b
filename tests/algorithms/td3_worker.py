"""A pool's worker that refines actors and trains critics from a shared replay."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from drumline.algorithms.td3 import TD3Jobs
from drumline.algorithms.td3_steps import TD3Settings
from drumline.buffers.minibatches import Minibatches
from drumline.buffers.replay import Replay, ReplayShape
from drumline.protocols import WorkerContext
from drumline.tasks import GradientJob
from drumline.types import State


class Refine(NamedTuple):
    """Task: refine the published actor."""

    version: int
    job: GradientJob


class Train(NamedTuple):
    """Task: train the published critics."""

    version: int
    job: GradientJob


@dataclass(frozen=True)
class TD3WorkerSpec:
    """Builds such a worker in its process."""

    settings: TD3Settings
    shape: ReplayShape

    def __call__(self, context: WorkerContext) -> Callable[[Refine | Train], np.ndarray]:
        import torch

        torch.set_num_threads(1)
        settings = self.settings
        replay = Replay(self.shape, context.shared)
        jobs = TD3Jobs(settings, Minibatches(replay, settings.batch_size, settings.noise_size))

        def work(task: Refine | Train) -> np.ndarray:
            published = context.published(task.version)
            if isinstance(task, Refine):
                actor, critics = published["actor"], published["critics"]
                return jobs.refine(actor, critics, task.job, context.progress)
            tensors = {name: array for name, array in published.items() if name != "actor"}
            state = State(tensors, {"critic_steps": 0})
            after, _ = jobs.train_critics(state, published["actor"], task.job, context.progress)
            return after.tensors["critics"]

        return work
