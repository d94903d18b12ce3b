"""TD3 (Fujimoto et al. 2018): twin delayed policy gradients, online or as separate jobs.

Online there is one gradient step per env step; `learn` takes the same steps as a job, for ERL. As
jobs (AES-RL), `refine` changes one actor with frozen critics, and `train_critics` changes the
critics with a frozen target policy. A job is a pure function of weights, optimiser state, replay
window and seed.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

import math
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from drumline import seeding
from drumline.algorithms.actor_networks import NetworkVector
from drumline.algorithms.dense_stack import StackVector, parameter_count
from drumline.algorithms.learning_state import UnfiniteLoss
from drumline.algorithms.td3_steps import ActorStep, CriticStep, TD3Settings
from drumline.algorithms.torch_optimizers import TorchAdam
from drumline.functional.torch_devices import host_array
from drumline.policies.mlp import uniform_vector
from drumline.policies.torch_module import initial_vector
from drumline.tasks import GradientJob
from drumline.types import Metrics, Minibatch, State

EPSILON = 1e-8
"""Adam's own, as in TD3's reference."""

V = TypeVar("V", bound=NetworkVector)

Progress = Callable[[int], None]
"""Called with the number of gradient steps since the last call."""


@runtime_checkable  # the tests check signatures at run time
class Draws(Protocol):
    """Source of minibatches for one job after another, each with its own streams."""

    def begin(self, rows: np.random.Generator, noise: np.random.Generator) -> None:
        """Start the draws of one job."""
        ...

    def draw(self, watermark: int) -> Minibatch:
        """Return the next minibatch, from the window of `watermark`."""
        ...

    def draw_observations(self, watermark: int) -> Tensor:
        """Return the observations `[1, B, D]` of the next minibatch."""
        ...


def initial_actor(settings: TD3Settings, seed: int) -> np.ndarray:
    """Return an actor's initial parameters `[P]`."""
    rng = seeding.generator(seed, "initial-actor")
    if settings.actor is not None:
        return initial_vector(settings.actor, rng)
    return uniform_vector(settings.actor_sizes, rng)


def initial_critics(settings: TD3Settings, seed: int) -> np.ndarray:
    """Return the critics' initial parameters `[K, P]`, each critic from its own stream."""
    return np.stack(
        [
            uniform_vector(settings.critic_sizes, seeding.generator(seed, "initial-critic", k))
            for k in range(settings.critics)
        ]
    )


class LearnedVectors(Generic[V]):
    """Flat parameters of K networks with their gradient and Adam's moments."""

    def __init__(self, live: V, gradient: V):
        self.live = live
        self.gradient = gradient
        self.adam = self._fresh_adam()

    def load(self, values: np.ndarray) -> None:
        """Set parameters `[K, P]` or `[P]`, and reset the optimiser."""
        self.set(values)
        self.adam = self._fresh_adam()

    def _fresh_adam(self) -> TorchAdam:
        values = self.live.values
        return TorchAdam(values.numel(), EPSILON, device=values.device)

    def set(self, values: np.ndarray) -> None:
        """Set parameters and keep the optimiser."""
        _copy(self.live, values)

    def step(self, learning_rate: float) -> None:
        """Take a descending step along the gradient."""
        self.adam.step(self.live.values.view(-1), self.gradient.values.view(-1), learning_rate)
        self.live.refresh()


def vectors_of_actor(settings: TD3Settings) -> LearnedVectors[NetworkVector]:
    """Return an actor's vectors, all zeros."""
    shape = (1, settings.actor_count)
    zeros = partial(torch.zeros, shape, device=settings.place)
    live, gradient = (settings.actor_vector(zeros()) for _ in range(2))
    return LearnedVectors(live, gradient)


def vectors_of_critics(settings: TD3Settings) -> LearnedVectors[StackVector]:
    """Return the critics' vectors, all zeros."""
    sizes = settings.critic_sizes
    shape = (settings.critics, parameter_count(sizes))
    zeros = partial(torch.zeros, shape, device=settings.place)
    live, gradient = (StackVector(zeros(), sizes, settings.precision) for _ in range(2))
    return LearnedVectors(live, gradient)


class TD3Jobs:
    """`refine` and `train_critics`, in buffers that are made once and keep nothing between jobs."""

    def __init__(self, settings: TD3Settings, draws: Draws):
        self._settings = settings
        self._draws = draws
        self._actor = vectors_of_actor(settings)
        self._critics = vectors_of_critics(settings)
        self._targets = _targets_of(self._critics.live, settings)
        self._actor_step = settings.recorded(ActorStep(settings))
        self._critic_step = settings.recorded(CriticStep(settings))
        self._critic = _first(self._critics.live, settings)
        self._learner: TD3 | None = None
        """Made at the first `learn`, which not every population asks for."""

    def refine(
        self,
        actor: np.ndarray,
        critics: np.ndarray,
        job: GradientJob,
        progress: Progress = lambda steps: None,
    ) -> np.ndarray:
        """Return the actor `[P]` after the job's ascending steps on critic 1, with a fresh Adam."""
        settings = self._settings
        self._actor.load(actor)
        _copy(self._critics.live, critics)
        self._critic.refresh()
        _begin(self._draws, job.seed)
        total = torch.zeros((), device=settings.place)
        for _ in range(job.steps):
            observations = self._draws.draw_observations(job.watermark)
            total += self._actor_step(
                observations, self._actor.live, self._critic, self._actor.gradient
            )
            self._actor.step(settings.actor_learning_rate)
            progress(1)
        refined = host_array(self._actor.live.values[0]).copy()
        # A rectifier hides NaN from the gradient, but the critic's value shows it.
        if not (math.isfinite(total) and np.isfinite(refined).all()):
            raise UnfiniteLoss(f"actor or critic is not finite in {job.steps} gradient steps")
        return refined

    def train_critics(
        self,
        state: State,
        target_actor: np.ndarray,
        job: GradientJob,
        progress: Progress = lambda steps: None,
    ) -> tuple[State, Metrics]:
        """Return the critics' state after the job's steps; the target policy is frozen."""
        settings = self._settings
        _load_critics(state, self._critics, self._targets)
        self._actor.set(target_actor)
        _begin(self._draws, job.seed)
        total = torch.zeros((), device=settings.place)
        for _ in range(job.steps):
            batch = self._draws.draw(job.watermark)
            total += self._critic_step(
                batch, self._actor.live, self._targets, self._critics.live, self._critics.gradient
            )
            self._critics.step(settings.critic_learning_rate)
            _follow(self._targets, self._critics.live, settings.polyak)
            progress(1)
        loss = float(total) / max(job.steps, 1)
        if not math.isfinite(loss):
            raise UnfiniteLoss(f"the critics' loss is {loss} after {job.steps} gradient steps")
        return critics_state(self._critics, self._targets), {"critic_loss": loss}

    def learn(
        self, state: State, job: GradientJob, progress: Progress = lambda steps: None
    ) -> tuple[State, Metrics]:
        """Return a learner's state after the job's steps, which are those of `TD3` online."""
        if self._learner is None:
            self._learner = TD3(self._settings, self._draws, 0)
        learner = self._learner
        learner.load(state)
        learner.begin_job(job.seed)
        for _ in range(job.steps):
            learner.learn(job.watermark)
            progress(1)
        return learner.state(), learner.metrics()


def critics_state(critics: LearnedVectors[StackVector], targets: StackVector) -> State:
    """Return copies of the critics, their targets and their optimiser."""
    tensors = {
        "critics": host_array(critics.live.values).copy(),
        "target_critics": host_array(targets.values).copy(),
    }
    tensors.update({f"critic_{name}": array for name, array in critics.adam.tensors().items()})
    return State(tensors, {"critic_steps": critics.adam.steps})


class TD3:
    """Learner of a single stream: a critic step per call, an actor step per `policy_delay`."""

    def __init__(
        self,
        settings: TD3Settings,
        draws: Draws,
        seed: int,
        *,
        actor: np.ndarray | None = None,
        critics: np.ndarray | None = None,
    ):
        """`actor` `[P]`, `critics` `[K, P]`: parameters at the start; None: drawn from the seed."""
        self._settings = settings
        self._draws = draws
        self._seed = seed
        self._actor = vectors_of_actor(settings)
        self._critics = vectors_of_critics(settings)
        self._actor.load(initial_actor(settings, seed) if actor is None else actor)
        self._critics.load(initial_critics(settings, seed) if critics is None else critics)
        self._target_actor = settings.actor_vector(self._actor.live.values.clone())
        self._targets = _targets_of(self._critics.live, settings)
        self._critic = _first(self._critics.live, settings)
        self._actor_step = settings.recorded(ActorStep(settings))
        self._critic_step = settings.recorded(CriticStep(settings))
        self._losses = torch.zeros(2, device=settings.place)
        self._critic_losses, self._policy_values = self._losses.unbind()
        self._counts = [0, 0]

    @property
    def actor(self) -> np.ndarray:
        """Return the actor's parameters `[P]`, in place where the host has them."""
        return host_array(self._actor.live.values[0])

    @property
    def critics(self) -> np.ndarray:
        """Return the critics' parameters `[K, P]`, in place where the host has them."""
        return host_array(self._critics.live.values)

    def begin(self, block: int) -> None:
        """Start the random streams of a block of steps."""
        self.begin_job(seeding.key(self._seed, "gradient-steps", block))

    def begin_job(self, seed: int) -> None:
        """Start the random streams of a job."""
        _begin(self._draws, seed)
        self._losses.zero_()
        self._counts = [0, 0]

    def learn(self, watermark: int) -> bool:
        """Take one critic step and, if it is due, an actor step; return whether it was."""
        settings = self._settings
        batch = self._draws.draw(watermark)
        loss = self._critic_step(
            batch, self._target_actor, self._targets, self._critics.live, self._critics.gradient
        )
        self._critic_losses.add_(loss)
        self._critics.step(settings.critic_learning_rate)
        self._counts[0] += 1
        if self._critics.adam.steps % settings.policy_delay:
            return False
        self._critic.refresh()
        value = self._actor_step(
            batch.observations, self._actor.live, self._critic, self._actor.gradient
        )
        self._policy_values.add_(value)
        self._actor.step(settings.actor_learning_rate)
        self._counts[1] += 1
        _follow(self._targets, self._critics.live, settings.polyak)
        _follow(self._target_actor, self._actor.live, settings.polyak)
        return True

    def metrics(self) -> Metrics:
        """Return the means of the block (nan without steps); UnfiniteLoss if not finite."""
        totals = self._losses.cpu().tolist()
        loss, value = (
            total / count if count else math.nan
            for total, count in zip(totals, self._counts, strict=True)
        )
        if not math.isfinite(sum(totals)):
            raise UnfiniteLoss(f"critic loss {loss}, value of the policy {value}")
        return {
            "critic_loss": loss,
            "policy_value": value,
            "gradient_steps": float(self._critics.adam.steps),
        }

    def learned(self) -> dict[str, np.ndarray]:
        """Return a copy of the critics, which a fingerprint covers besides the actor."""
        return {"critics": self.critics.copy()}

    def state(self) -> State:
        """Return copies of all learned state."""
        critics = critics_state(self._critics, self._targets)
        tensors = {
            "actor": self.actor.copy(),
            "target_actor": host_array(self._target_actor.values[0]).copy(),
            **{f"actor_{name}": array for name, array in self._actor.adam.tensors().items()},
            **critics.tensors,
        }
        return State(tensors, {"actor_steps": self._actor.adam.steps, **critics.counters})

    def load(self, state: State) -> None:
        """Load a state."""
        _load_critics(state, self._critics, self._targets)
        self._critic.refresh()
        self._actor.set(state.tensor("actor"))
        _copy(self._target_actor, state.tensor("target_actor"))
        _load_adam(state, self._actor.adam, "actor")


def _begin(draws: Draws, seed: int) -> None:
    draws.begin(
        seeding.generator(seed, "minibatch-rows"), seeding.generator(seed, "minibatch-noise")
    )


def _targets_of(critics: StackVector, settings: TD3Settings) -> StackVector:
    return StackVector(critics.values.clone(), settings.critic_sizes, settings.precision)


def _first(critics: StackVector, settings: TD3Settings) -> StackVector:
    return StackVector(critics.values[:1], settings.critic_sizes, settings.precision)


def _follow(targets: NetworkVector, live: NetworkVector, share: float) -> None:
    targets.values.lerp_(live.values, share)
    targets.refresh()


def _copy(into: NetworkVector, values: np.ndarray) -> None:
    shape = tuple(into.values.shape)
    if values.shape not in (shape, shape[1:]):
        raise ValueError(f"parameters of shape {list(shape)} are needed, got {list(values.shape)}")
    into.values.copy_(torch.from_numpy(np.array(values, np.float32)).view(shape))
    into.refresh()


def _load_critics(state: State, critics: LearnedVectors[StackVector], targets: StackVector) -> None:
    critics.set(state.tensor("critics"))
    _copy(targets, state.tensor("target_critics"))
    _load_adam(state, critics.adam, "critic")


def _load_adam(state: State, adam: TorchAdam, name: str) -> None:
    steps = int(state.counter(f"{name}_steps"))
    moments = ("adam_first", "adam_second")
    adam.load({moment: state.tensor(f"{name}_{moment}") for moment in moments}, steps)
