"""Gradients of TD3's critics and actor on one minibatch, by hand, for every kind of action.

L(θ)  = Σ_k mean (Q_k(s, a) − y)²,   y = r + γ min_k Q′_k(s′, ã)         (Fujimoto et al. 2018)
J(φ)  = mean Q_1(s, π_φ(s)),         discrete: mean Σ_a π_φ(a|s) Q_1(s, a)
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from drumline.algorithms.actor_networks import (
    ActorNetwork,
    NetworkVector,
    OwnNetwork,
    OwnVector,
)
from drumline.algorithms.dense_stack import (
    DenseStack,
    Hidden,
    Precision,
    StackVector,
    parameter_count,
)
from drumline.functional.double_q import (
    expected_values,
    one_step_targets,
    pessimistic_values,
    smoothed_actions,
    squared_error_gradient,
)
from drumline.functional.recorded_work import RecordedCall
from drumline.functional.torch_devices import device_of
from drumline.policies.heads import Head
from drumline.policies.spec import PolicySpec
from drumline.policies.torch_module import build_module
from drumline.types import Minibatch

_aten: Any = torch.ops.aten


@dataclass(frozen=True)
class TD3Settings:
    """Settings of networks, losses and steps; picklable, so that workers build the same."""

    observation_size: int
    head: Head
    """squashed or discrete."""
    actor_hidden: tuple[int, ...] = (256, 256)
    critic_hidden: tuple[int, ...] = (256, 256)
    actor_activation: Literal["tanh", "relu"] = "relu"
    critic_activation: Hidden = "relu"
    critics: int = 2
    """2: TD3; 1: DDPG's single critic."""
    batch_size: int = 256
    discount: float = 0.99
    polyak: float = 0.005
    """Share of the live parameters in the target's new ones, at each step."""
    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    target_noise: float = 0.2
    """Std of the noise on target actions; 0: none."""
    target_noise_clip: float = 0.5
    scale_target_noise: bool = True
    """Whether both are in units of half the action range (TD3's author) or of actions (AES-RL)."""
    policy_delay: int = 2
    """Critic steps per actor step if both learn together."""
    precision: Precision = "fp32"
    """bf16: dtype of the layers; parameters and optimisers stay in float32."""
    observation_scale: float = 1.0
    """Factor of the minibatches' observations, for actor and critics."""
    actor: PolicySpec | None = None
    """Actor of the user's own (`PolicySpec.module`), in place of the layers above; None: those."""
    device: str = "cpu"
    """Device of parameters and gradient steps; minibatches are drawn on the host."""

    def __post_init__(self) -> None:
        if self.head.kind not in ("squashed", "discrete"):
            raise ValueError(f"TD3 serves squashed and discrete actions, not {self.head.kind}")

    @property
    def discrete(self) -> bool:
        """Whether actions are discrete."""
        return self.head.kind == "discrete"

    @cached_property
    def place(self) -> torch.device | None:
        """Return the device, there and set up; None for the host."""
        return device_of(self.device)

    @property
    def actor_sizes(self) -> tuple[int, ...]:
        """Return the layer sizes of the actor."""
        return (self.observation_size, *self.actor_hidden, self.head.output_size)

    @property
    def actor_count(self) -> int:
        """Return the number of the actor's parameters."""
        if self.actor is None:
            return parameter_count(self.actor_sizes)
        return sum(parameter.numel() for parameter in build_module(self.actor).parameters())

    def place_observations(self, observations: Tensor, inputs: Tensor) -> None:
        """Write observations `[1, B, D]`, scaled, into the first D columns of `inputs`."""
        columns = inputs[..., : self.observation_size]
        if self.observation_scale == 1.0:
            columns.copy_(observations)
        else:
            torch.mul(observations, self.observation_scale, out=columns)

    def recorded(self, step: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Return a step as it is taken on the device, where the next call overwrites its result.

        An actor of the user's may do what no recording repeats.
        """
        if self.place is None or self.actor is not None:
            return step
        return RecordedCall(step, self.place)

    def actor_network(self, *, learns: bool = True) -> ActorNetwork:
        """Return an actor's forward and, if it `learns`, backward passes."""
        if self.actor is not None:
            return OwnNetwork(self.actor, self.precision, learns=learns, device=self.place)
        return DenseStack(
            1, self.batch_size, self.actor_sizes, self.actor_activation, self.precision, self.place
        )

    def actor_vector(self, values: Tensor) -> NetworkVector:
        """Return a vector `[1, P]` in the form of `actor_network`."""
        if self.actor is not None:
            return OwnVector(values, self.actor)
        return StackVector(values, self.actor_sizes, self.precision)

    @property
    def critic_sizes(self) -> tuple[int, ...]:
        """Return the layer sizes of a critic; for discrete actions, one output per action."""
        inputs = self.observation_size + (0 if self.discrete else self.head.action_size)
        outputs = self.head.output_size if self.discrete else 1
        return (inputs, *self.critic_hidden, outputs)

    @property
    def noise_size(self) -> int:
        """Return the number of random values that smooth one target action."""
        return 0 if self.discrete or not self.target_noise else self.head.action_size


class Bounds(NamedTuple):
    """Bounds of continuous actions as tensors `[A]`."""

    low: Tensor
    high: Tensor
    center: Tensor
    half: Tensor

    @staticmethod
    def of(head: Head, device: torch.device | None = None) -> "Bounds":
        """Return the bounds of a head; empty for discrete actions."""
        low = torch.tensor(head.low, dtype=torch.float32).to(device or "cpu")
        high = torch.tensor(head.high, dtype=torch.float32).to(device or "cpu")
        return Bounds(low, high, (low + high) * 0.5, (high - low) * 0.5)


class CriticStep:
    """The gradient of all critics on one minibatch."""

    def __init__(self, settings: TD3Settings):
        self._settings = settings
        self._bounds = Bounds.of(settings.head, settings.place)
        rows, count = settings.batch_size, settings.critics
        sizes, hidden = settings.critic_sizes, settings.critic_activation
        self._target_policy = settings.actor_network(learns=False)
        made = (count, rows, sizes, hidden, settings.precision, settings.place)
        self._targets, self._values = DenseStack(*made), DenseStack(*made)
        kind = self._values.kind
        # Both read one array: a batch stride of 0 costs nothing.
        self._inputs = torch.empty(1, rows, sizes[0], dtype=kind, device=settings.place)
        self._next_inputs = torch.empty_like(self._inputs)
        unit = self._bounds.half
        if not settings.scale_target_noise:
            unit = torch.ones((), device=settings.place)
        self._noise_std = settings.target_noise * unit
        self._noise_bound = settings.target_noise_clip * unit

    def __call__(
        self,
        batch: Minibatch,
        target_actor: NetworkVector,
        target_critics: StackVector,
        critics: StackVector,
        gradient: StackVector,
    ) -> Tensor:
        """Fill `gradient`; return the loss."""
        settings = self._settings
        targets = one_step_targets(
            batch.rewards,
            batch.terminated,
            self._next_values(batch, target_actor, target_critics),
            settings.discount,
        )
        size = settings.observation_size
        settings.place_observations(batch.observations, self._inputs)
        if not settings.discrete:
            self._inputs[..., size:].copy_(batch.actions)
        outputs = self._values.forward(self._both(self._inputs), critics)
        if settings.discrete:
            chosen = batch.actions.long().expand(settings.critics, -1, 1)
            taken = outputs.gather(2, chosen)[..., 0]
            error, loss = squared_error_gradient(taken, targets)
            full = torch.zeros_like(outputs).scatter_(2, chosen, error[..., None])
        else:
            error, loss = squared_error_gradient(outputs[..., 0], targets)
            full = error[..., None]
        self._values.backward(full, critics, gradient)
        gradient.collect()
        return loss

    def _next_values(self, batch: Minibatch, actor: NetworkVector, critics: StackVector) -> Tensor:
        settings, bounds = self._settings, self._bounds
        size = settings.observation_size
        settings.place_observations(batch.next_observations, self._next_inputs)
        raw = self._target_policy.forward(self._next_inputs[..., :size], actor).float()
        if settings.discrete:
            values = pessimistic_values(self._target_values(critics))
            return expected_values(torch.softmax(raw[0], -1), values)
        actions = torch.tanh(raw) * bounds.half + bounds.center
        if settings.noise_size:
            noise = batch.noise * self._noise_std
            noise = torch.clamp(noise, -self._noise_bound, self._noise_bound)
            actions = smoothed_actions(actions, noise, bounds.low, bounds.high)
        self._next_inputs[..., size:].copy_(actions)
        return pessimistic_values(self._target_values(critics))[:, 0]

    def _target_values(self, critics: StackVector) -> Tensor:
        return self._targets.forward(self._both(self._next_inputs), critics)

    def _both(self, inputs: Tensor) -> Tensor:
        return inputs.expand(self._settings.critics, -1, -1)


class ActorStep:
    """The gradient of an actor on one minibatch, from a frozen critic."""

    def __init__(self, settings: TD3Settings):
        self._settings = settings
        self._bounds = Bounds.of(settings.head, settings.place)
        rows = settings.batch_size
        self._policy = settings.actor_network()
        sizes, hidden = settings.critic_sizes, settings.critic_activation
        self._value = DenseStack(1, rows, sizes, hidden, settings.precision, settings.place)
        own: dict[str, Any] = {"dtype": self._policy.kind, "device": settings.place}
        self._inputs = torch.empty(1, rows, sizes[0], **own)
        self._of_actions = torch.empty(1, rows, settings.head.output_size, **own)
        self._of_value = torch.full((1, rows, 1), -1.0 / rows, device=settings.place)

    def __call__(
        self,
        observations: Tensor,
        actor: NetworkVector,
        critic: StackVector,
        gradient: NetworkVector,
    ) -> Tensor:
        """Fill `gradient` with that of −J; return J, the mean value of the policy's actions."""
        settings, bounds = self._settings, self._bounds
        size = settings.observation_size
        settings.place_observations(observations, self._inputs)
        raw = self._policy.forward(self._inputs[..., :size], actor)
        if settings.discrete:
            probabilities = torch.softmax(raw.float(), -1)
            values = self._value.forward(self._inputs, critic)
            expected = expected_values(probabilities, values)
            back = probabilities * (values - expected[..., None]) * (-1.0 / settings.batch_size)
        else:
            squashed = torch.tanh(raw.float())
            self._inputs[..., size:].copy_(squashed * bounds.half + bounds.center)
            expected = self._value.forward(self._inputs, critic)
            self._value.backward(self._of_value, critic, None, (size, self._of_actions))
            back = _aten.tanh_backward(self._of_actions.float() * bounds.half, squashed)
        self._policy.backward(back, actor, gradient)
        gradient.collect()
        return expected.mean()
