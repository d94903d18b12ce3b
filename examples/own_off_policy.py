"""SAC (Haarnoja et al. 2018, with automatic temperature) as a method of one's own.

cd examples && drumline train own_off_policy:SAC Pendulum-v1
"""

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss, relu, softplus

from drumline import seeding
from drumline.algorithms.learning_state import LearningState, UnfiniteLoss
from drumline.algorithms.torch_optimizers import TorchAdam
from drumline.buffers.minibatches import Minibatches
from drumline.buffers.replay import Replay
from drumline.policies.heads import LOG_STD_BOUNDS
from drumline.policies.spec import PolicySpec
from drumline.policies.vector import FlatParameters
from drumline.recipes.learned_actor import gaussian_head, learned_actor
from drumline.recipes.refused_values import refuse_negative, refuse_nonpositive, refuse_outside_unit
from drumline.schedules.single_stream import SingleStreamPlan
from drumline.training.layout import Layout, StreamLayout
from drumline.training.stream_run import StreamRecipe
from drumline.types import Metrics, Minibatch, State


@dataclass(frozen=True)
class SAC:
    """Soft actor-critic for continuous actions. Every field is a flag, its comment the help."""

    env: str  # Gymnasium id, EnvPool id, or module:factory.
    seed: int = 0  # Root of every random stream.
    total_steps: int = 20_000  # Train until this many env steps have been made.
    engine: Literal["auto", "gymnasium", "envpool"] = "auto"  # auto: Gymnasium if it has the id.
    frame_skip: int = 1  # Frames for which each action is repeated.
    steps_per_update: int = 500  # Env steps per row of metrics.csv.
    random_steps: int = 1_000  # Env steps with random actions before anything is learned.
    replay_size: int = 100_000  # Transitions that are kept.
    hidden: tuple[int, ...] = (64, 64)  # Sizes of the hidden layers of actor and critics.
    learning_rate: float = 1e-3  # Step size of Adam, for actor, critics and temperature.
    batch_size: int = 128  # Transitions per gradient step.
    discount: float = 0.99  # γ.
    polyak: float = 0.005  # Share of the critics that enters the target critics at each step.
    evaluate_every: int = 10  # Updates between evaluations; 0: only at the end.
    evaluate_episodes: int = 10  # Episodes of each evaluation.
    promise: bool = True  # Whether the first update is repeated to compare its bits.

    LAYOUT: ClassVar[type[Layout]] = StreamLayout

    def __post_init__(self) -> None:
        refuse_nonpositive(self, "total_steps", "steps_per_update", "batch_size", "learning_rate")
        refuse_nonpositive(self, "frame_skip", "evaluate_episodes", "replay_size")
        refuse_negative(self, "random_steps", "evaluate_every")
        refuse_outside_unit(self, "discount", "polyak")

    def build(self, layout: Layout) -> StreamRecipe:
        """Put the parts of a run together."""
        actor = learned_actor(self, "relu", head_of=gaussian_head)
        blocks = math.ceil(self.total_steps / self.steps_per_update)
        plan = SingleStreamPlan(self.steps_per_update, blocks, self.random_steps)
        return StreamRecipe(
            config=self,
            environment=actor.environment,
            policy=actor.policy,
            shape=actor.stream_replay(plan, self.replay_size, self.batch_size),
            replay_size=self.replay_size,
            plan=plan,
            learner=partial(Learner, self, actor.policy),
            exploration=1.0,  # in units of the policy's own std
        )


class Networks(nn.Module):
    """`count` networks side by side, with ReLU between layers; inputs `[count, B, I]`.

    A layer's weights `[inputs, outputs]` stand before its biases, as in a `PolicySpec`'s vector.
    """

    def __init__(self, count: int, sizes: tuple[int, ...], rng: np.random.Generator):
        super().__init__()
        self.layers = nn.ParameterList()
        for inputs, outputs in pairwise(sizes):
            for rows in (inputs, 1):
                drawn = rng.uniform(-1.0, 1.0, (count, rows, outputs)) / math.sqrt(inputs)
                self.layers.append(torch.tensor(drawn, dtype=torch.float32))

    def forward(self, values: Tensor) -> Tensor:
        for layer in range(0, len(self.layers), 2):
            values = relu(values) if layer else values
            values = torch.baddbmm(self.layers[layer + 1], values, self.layers[layer])
        return values


class Learner:
    """One Adam step of actor, critics and temperature per env step, each down its own loss."""

    def __init__(self, config: SAC, policy: PolicySpec, replay: Replay):
        torch.set_num_threads(1)
        self._config, head = config, policy.head
        low, high = torch.tensor([head.low, head.high])
        self._center, self._half = (high + low) / 2, (high - low) / 2
        self._action_size = head.action_size
        self._draws = Minibatches(replay, config.batch_size, 2 * head.action_size)
        sizes = (policy.observation_size, *config.hidden, head.output_size)
        self._actor = Networks(1, sizes, seeding.generator(config.seed, "initial-actor"))
        sizes = (policy.observation_size + head.action_size, *config.hidden, 1)
        rng = seeding.generator(config.seed, "initial-critics")
        self._critics, self._still, self._targets = (Networks(2, sizes, rng) for _ in range(3))
        self._log_temperature = nn.ParameterList([torch.zeros(1)])
        learned = nn.ModuleList([self._actor, self._critics, self._log_temperature])
        self._parameters = list(learned.parameters())
        self._live = FlatParameters(learned)
        self._adam = TorchAdam(self._live.values.numel(), 1e-8)
        self._learning = LearningState(self._live, self._adam)
        first = sum(parameter.numel() for parameter in self._actor.parameters())
        self._actor_values, critics = self._live.values[:first], self._live.values[first:-1]
        FlatParameters(self._still, critics)  # the same critics, without a gradient of the actor's
        self._critic_values, self._target_values = critics, FlatParameters(self._targets).values
        self._target_values.copy_(critics)
        self._totals, self._steps = torch.zeros(3), 0

    @property
    def actor(self) -> np.ndarray:
        return self._actor_values.numpy()

    def begin(self, block: int) -> None:
        key = seeding.key(self._config.seed, "gradient-steps", block)
        self._draws.begin(seeding.generator(key, "rows"), seeding.generator(key, "noise"))
        self._totals, self._steps = torch.zeros(3), 0

    def learn(self, watermark: int) -> bool:
        batch = self._draws.draw(watermark)
        following, acting = batch.noise.split(self._action_size, -1)
        alpha = self._live.values[-1].exp()
        targets = self._target(batch, following, alpha).expand(2, -1)
        taken = (batch.actions - self._center) / self._half
        critic_loss = mse_loss(_values(self._critics, batch.observations, taken), targets)
        actions, log_density = self._sample(batch.observations, acting)
        values = _values(self._still, batch.observations, actions).amin(0)
        actor_loss = (alpha * log_density - values).mean()
        entropy = -log_density.detach().mean()
        temperature_loss = self._log_temperature[0] * (entropy + self._action_size)  # target: −A
        self._live.gradient.zero_()
        losses = critic_loss + actor_loss + temperature_loss.sum()
        losses.backward(inputs=self._parameters)
        self._adam.step(self._live.values, self._live.gradient, self._config.learning_rate)
        self._target_values.lerp_(self._critic_values, self._config.polyak)
        self._totals += torch.stack([critic_loss.detach(), entropy, alpha])
        self._steps += 1
        return True

    @torch.no_grad()
    def _target(self, batch: Minibatch, noise: Tensor, alpha: Tensor) -> Tensor:
        actions, log_density = self._sample(batch.next_observations, noise)
        values = _values(self._targets, batch.next_observations, actions).amin(0)
        discounts = self._config.discount * ~batch.terminated
        return batch.rewards + discounts * (values - alpha * log_density)

    def _sample(self, observations: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions `[1, B, A]` in (-1, 1) and their log-densities `[B]` there."""
        mean, log_std = self._actor(observations).chunk(2, -1)
        log_std = log_std.clamp(*LOG_STD_BOUNDS)
        normal = mean + log_std.exp() * noise
        log_slope = 2.0 * (math.log(2.0) - normal - softplus(-2.0 * normal))  # of tanh
        log_density = -0.5 * (noise.square() + math.log(2.0 * math.pi)) - log_std - log_slope
        return normal.tanh(), log_density.sum(-1)[0]

    def metrics(self) -> Metrics:
        means = (self._totals / self._steps).tolist()  # nan before the first step
        if self._steps and not all(math.isfinite(mean) for mean in means):
            raise UnfiniteLoss(f"critic loss, entropy and temperature are {means}")
        return dict(zip(("critic_loss", "policy_entropy_nats", "temperature"), means, strict=True))

    def learned(self) -> dict[str, np.ndarray]:
        return {"critics": self._critic_values.numpy().copy()}

    def state(self) -> State:
        targets = State({"target_critics": self._target_values.numpy().copy()})
        return self._learning.state(targets)

    def load(self, state: State) -> None:
        targets = state.tensor("target_critics", like=self._target_values.numpy())
        self._learning.load(state)
        self._target_values.copy_(torch.from_numpy(targets))


def _values(critics: Networks, observations: Tensor, actions: Tensor) -> Tensor:
    """Return the values `[2, B]` of actions `[1, B, A]` in (-1, 1)."""
    return critics(torch.cat([observations, actions], -1).expand(2, -1, -1))[..., 0]
