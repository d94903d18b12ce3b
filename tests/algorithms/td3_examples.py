"""Small replays and settings that tests of TD3 share, and TD3 written plainly with autograd."""

import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from drumline.algorithms.td3_steps import TD3Settings
from drumline.buffers.minibatches import Minibatches
from drumline.buffers.replay import TERMINATED, Replay, ReplayShape, ReplayWriter, one_episode
from drumline.policies.heads import Head
from drumline.types import Minibatch

CONTINUOUS = TD3Settings(
    4,
    Head("squashed", (-0.4, -1.0), (0.4, 3.0), (2,)),
    actor_hidden=(8, 6),
    critic_hidden=(9, 5),
    critic_activation="leaky-relu",
    actor_activation="tanh",
    batch_size=16,
    actor_learning_rate=1e-3,
    critic_learning_rate=1e-3,
)
DISCRETE = replace(CONTINUOUS, head=Head("discrete", choices=3), critic_activation="tanh")
DDPG = replace(CONTINUOUS, critics=1, target_noise=0.0, policy_delay=1, actor_activation="relu")
UNSCALED = replace(CONTINUOUS, scale_target_noise=False)
ALL = {"continuous": CONTINUOUS, "discrete": DISCRETE, "ddpg": DDPG, "unscaled": UNSCALED}


def filled(settings: TD3Settings, episodes: int = 12, seed: int = 0) -> ReplayWriter:
    """A replay of random episodes of 5 steps."""
    size = 1 if settings.discrete else settings.head.action_size
    shape = ReplayShape(100, settings.observation_size, size, 20, 100)
    arrays = {n: np.zeros(s, k) for n, (s, k) in shape.layout().items()}
    writer, rng = ReplayWriter(Replay(shape, arrays)), np.random.default_rng(seed)
    for _ in range(episodes):
        observations = rng.standard_normal((6, settings.observation_size), dtype=np.float32)
        if settings.discrete:
            actions = rng.integers(0, settings.head.choices, (5, 1)).astype(np.float32)
        else:
            low, high = np.array(settings.head.low), np.array(settings.head.high)
            actions = rng.uniform(low, high, (5, size)).astype(np.float32)
        rewards = rng.standard_normal(5, dtype=np.float32)
        writer.append(one_episode(observations, actions, rewards, TERMINATED))
    return writer


def draws(settings: TD3Settings, writer: ReplayWriter | None = None) -> Minibatches:
    """Minibatches of such a replay."""
    replay = (writer or filled(settings)).replay
    return Minibatches(replay, settings.batch_size, settings.noise_size)


def begun(minibatches: Minibatches, seed: int = 3) -> Minibatches:
    """The same, ready to draw."""
    minibatches.begin(np.random.default_rng(seed), np.random.default_rng(seed + 1))
    return minibatches


def module(sizes: tuple[int, ...], hidden: str, vector: np.ndarray) -> nn.Sequential:
    """A plain torch network with the parameters of a flat vector."""
    activation = {"tanh": nn.Tanh, "relu": nn.ReLU, "leaky-relu": nn.LeakyReLU}[hidden]
    layers: list[nn.Module] = []
    start = 0
    for inputs, outputs in pairwise(sizes):
        linear = nn.Linear(inputs, outputs)
        both = vector[start : start + (inputs + 1) * outputs].reshape(inputs + 1, outputs)
        start += both.size
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(both[:-1].T.copy()))
            linear.bias.copy_(torch.from_numpy(both[-1].copy()))
        layers += [linear, activation()]
    return nn.Sequential(*layers[:-1])


def flat(network: nn.Sequential) -> np.ndarray:
    """The parameters of such a network as a flat vector."""
    parts = []
    for layer in network:
        if isinstance(layer, nn.Linear):
            weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
            parts += [weight.T.ravel(), bias]
    return np.concatenate(parts)


class PlainTD3:
    """The reference: modules, autograd and torch's Adam, straight from the paper."""

    def __init__(self, settings: TD3Settings, actor: np.ndarray, critics: np.ndarray):
        self.settings = settings
        self.actor = module(settings.actor_sizes, settings.actor_activation, actor)
        self.critics = [
            module(settings.critic_sizes, settings.critic_activation, vector) for vector in critics
        ]
        self.target_actor = copy.deepcopy(self.actor)
        self.target_critics = copy.deepcopy(self.critics)
        of_critics = [p for critic in self.critics for p in critic.parameters()]
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), settings.actor_learning_rate)
        self.critic_adam = torch.optim.Adam(of_critics, settings.critic_learning_rate)
        self.low = torch.tensor(settings.head.low)
        self.high = torch.tensor(settings.head.high)

    def act(self, actor: nn.Module, observations: torch.Tensor) -> torch.Tensor:
        half = (self.high - self.low) / 2
        return torch.tanh(actor(observations)) * half + (self.high + self.low) / 2

    def value(self, critic: nn.Module, observations: torch.Tensor, actions: torch.Tensor):
        return critic(torch.cat([observations, actions], -1))[..., 0]

    def critic_step(self, batch: Minibatch) -> float:
        settings = self.settings
        following = batch.next_observations[0]
        with torch.no_grad():
            if settings.discrete:
                probabilities = torch.softmax(self.target_actor(following), -1)
                values = torch.stack([critic(following) for critic in self.target_critics])
                after = (probabilities * values.min(0).values).sum(-1)
            else:
                actions = self.act(self.target_actor, following)
                if settings.noise_size:
                    unit = (self.high - self.low) / 2 if settings.scale_target_noise else 1.0
                    bound = settings.target_noise_clip * unit * torch.ones_like(self.low)
                    noise = batch.noise[0] * settings.target_noise * unit
                    actions = actions + torch.minimum(torch.maximum(noise, -bound), bound)
                    actions = torch.minimum(torch.maximum(actions, self.low), self.high)
                values = [self.value(c, following, actions) for c in self.target_critics]
                after = torch.stack(values).min(0).values
            ends = batch.terminated.float()
            targets = batch.rewards + settings.discount * (1.0 - ends) * after
        loss = torch.zeros(())
        for critic in self.critics:
            if settings.discrete:
                taken = critic(batch.observations[0])
                values = taken.gather(1, batch.actions[0].long())[:, 0]
            else:
                values = self.value(critic, batch.observations[0], batch.actions[0])
            loss = loss + nn.functional.mse_loss(values, targets)
        self.critic_adam.zero_grad()
        loss.backward()
        self.critic_adam.step()
        return float(loss.detach())

    def actor_step(self, observations: torch.Tensor) -> float:
        if self.settings.discrete:
            probabilities = torch.softmax(self.actor(observations), -1)
            value = (probabilities * self.critics[0](observations)).sum(-1).mean()
        else:
            actions = self.act(self.actor, observations)
            value = self.value(self.critics[0], observations, actions).mean()
        self.actor_adam.zero_grad()
        (-value).backward()
        self.actor_adam.step()
        return float(value.detach())

    def follow(self) -> None:
        with torch.no_grad():
            pairs = [(self.target_actor, self.actor)]
            pairs += list(zip(self.target_critics, self.critics, strict=True))
            for target, live in pairs:
                for old, new in zip(target.parameters(), live.parameters(), strict=True):
                    old.lerp_(new, self.settings.polyak)
