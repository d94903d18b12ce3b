"""PPO and A2C as one file usually writes them: EnvPool, torch modules, autograd, Adam.

The shape is that of CleanRL's EnvPool scripts: float tensors for a whole rollout, a distribution
object per step, a Python loop for GAE, shuffled minibatches. Prints env steps per second.

    python benchmarks/throughput/plain_loop.py '{"env": "Pong-v5", …}' --seconds 20
"""

import argparse
import json
import time
from typing import Any

import envpool
import numpy as np
import torch
from torch import nn


def layer(module: nn.Module, gain: float = 2**0.5) -> nn.Module:
    nn.init.orthogonal_(module.weight, gain)  # pyright: ignore
    nn.init.zeros_(module.bias)  # pyright: ignore
    return module


class ActorCritic(nn.Module):
    def __init__(self, observations: Any, actions: Any):
        super().__init__()
        self.images = len(observations.shape) == 3
        self.discrete = hasattr(actions, "n")
        size = int(actions.n) if self.discrete else int(np.prod(actions.shape))
        if self.images:
            self.trunk = nn.Sequential(
                layer(nn.Conv2d(observations.shape[0], 32, 8, 4)),
                nn.ReLU(),
                layer(nn.Conv2d(32, 64, 4, 2)),
                nn.ReLU(),
                layer(nn.Conv2d(64, 64, 3, 1)),
                nn.ReLU(),
                nn.Flatten(),
                layer(nn.Linear(64 * 7 * 7, 512)),
                nn.ReLU(),
            )
            self.policy, self.value = layer(nn.Linear(512, size), 0.01), layer(nn.Linear(512, 1), 1)
        else:
            self.trunk = nn.Identity()
            inputs = int(np.prod(observations.shape))
            self.policy, self.value = tanh_net(inputs, size, 0.01), tanh_net(inputs, 1, 1.0)
        if not self.discrete:
            self.log_std = nn.Parameter(torch.zeros(1, size))

    def look(self, x: torch.Tensor) -> torch.Tensor:
        return self.trunk(x / 255.0 if self.images else x)

    def forward(self, x: torch.Tensor, action: torch.Tensor | None = None) -> tuple[Any, ...]:
        hidden = self.look(x)
        outputs = self.policy(hidden)
        if self.discrete:
            distribution: Any = torch.distributions.Categorical(logits=outputs)
        else:
            std = self.log_std.expand_as(outputs).exp()
            distribution = torch.distributions.Normal(outputs, std)
        action = distribution.sample() if action is None else action
        log_prob, entropy = distribution.log_prob(action), distribution.entropy()
        if not self.discrete:
            log_prob, entropy = log_prob.sum(1), entropy.sum(1)
        return action, log_prob, entropy, self.value(hidden)


def tanh_net(inputs: int, outputs: int, gain: float) -> nn.Module:
    first, second = layer(nn.Linear(inputs, 64)), layer(nn.Linear(64, 64))
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), layer(nn.Linear(64, outputs), gain))


class Running:
    """Mean and variance of everything seen, a batch at a time."""

    def __init__(self, shape: tuple[int, ...]):
        self.mean, self.variance, self.count = np.zeros(shape), np.ones(shape), 1e-4

    def add(self, batch: np.ndarray) -> None:
        mean, variance, count = batch.mean(0), batch.var(0), len(batch)
        delta, total = mean - self.mean, self.count + count
        squares = self.variance * self.count + variance * count
        squares += np.square(delta) * self.count * count / total
        self.mean, self.variance = self.mean + delta * count / total, squares / total
        self.count = total


def run(config: dict[str, Any], seconds: float) -> float:
    torch.set_num_threads(config["threads"])
    n, steps, gamma, lambda_ = config["num_envs"], config["alpha"], 0.99, config["gae_lambda"]
    envs = envpool.make(config["env"], env_type="gymnasium", num_envs=n, seed=1)
    observations, actions = envs.observation_space, envs.action_space
    device = torch.device(config.get("device", "cpu"))
    agent = ActorCritic(observations, actions).to(device)
    optimizer: Any = torch.optim.Adam(agent.parameters(), lr=config["learning_rate"], eps=1e-5)
    obs = torch.zeros((steps, n, *observations.shape), device=device)
    taken = torch.zeros((steps, n, *actions.shape), device=device)
    log_probs, rewards, dones, values = (torch.zeros((steps, n), device=device) for _ in range(4))
    normalize = config["normalize_observations"]
    seen, returns, spread = Running(observations.shape), np.zeros(n), Running(())

    def given(raw: np.ndarray) -> torch.Tensor:
        if not normalize:
            return torch.Tensor(raw).to(device)
        seen.add(raw)
        scaled = (raw - seen.mean) / np.sqrt(seen.variance + 1e-8)
        return torch.Tensor(np.clip(scaled, -10, 10)).to(device)

    now, done = given(envs.reset()[0]), torch.zeros(n, device=device)
    made, began = 0, 0.0
    while True:
        if made == 2 * steps * n:
            began = time.perf_counter()
        if made > 2 * steps * n and time.perf_counter() - began > seconds:
            return (made - 2 * steps * n) / (time.perf_counter() - began)
        for t in range(steps):
            obs[t], dones[t] = now, done
            with torch.no_grad():
                action, log_prob, _, value = agent(now)
            taken[t], log_probs[t], values[t] = action, log_prob, value.flatten()
            raw, reward, terminated, truncated, _ = envs.step(action.cpu().numpy())
            ended = np.logical_or(terminated, truncated)
            if config["scale_rewards"]:
                returns = returns * gamma + reward
                spread.add(returns)
                returns[ended] = 0.0
                reward = np.clip(reward / np.sqrt(spread.variance + 1e-8), -10, 10)
            elif config["clip_rewards"]:
                reward = np.sign(reward)
            rewards[t] = torch.tensor(reward)
            now, done = given(raw), torch.Tensor(ended).to(device)
        made += steps * n
        with torch.no_grad():
            following = agent.value(agent.look(now)).flatten()
            advantages = torch.zeros_like(rewards)
            last: Any = 0.0
            for t in reversed(range(steps)):
                alive = 1.0 - (done if t == steps - 1 else dones[t + 1])
                after = following if t == steps - 1 else values[t + 1]
                delta = rewards[t] + gamma * after * alive - values[t]
                advantages[t] = last = delta + gamma * lambda_ * alive * last
        flat = [x.reshape(steps * n, *x.shape[2:]) for x in (obs, taken, log_probs, advantages)]
        update(agent, optimizer, flat, (advantages + values).reshape(-1), config)


def update(
    agent: ActorCritic, optimizer: Any, flat: list[Any], targets: Any, config: dict[str, Any]
) -> None:
    obs, taken, before, advantages = flat
    order = np.arange(len(obs))
    ppo = config["learner"] == "ppo"
    size = len(obs) // (config["minibatches"] if ppo else 1)
    for _ in range(config["epochs"] if ppo else 1):
        if ppo:
            np.random.shuffle(order)  # noqa: NPY002  (as such scripts do)
        for start in range(0, len(obs), size):
            rows = order[start : start + size]
            _, log_prob, entropy, value = agent(obs[rows], taken[rows])
            chosen = advantages[rows]
            if ppo:
                chosen = (chosen - chosen.mean()) / (chosen.std() + 1e-8)
                ratio = (log_prob - before[rows]).exp()
                clipped = torch.clamp(ratio, 1 - config["clip"], 1 + config["clip"])
                policy_loss = torch.max(-chosen * ratio, -chosen * clipped).mean()
            else:
                policy_loss = -(chosen * log_prob).mean()
            value_loss = 0.5 * ((value.flatten() - targets[rows]) ** 2).mean()
            loss = policy_loss - config["entropy_coefficient"] * entropy.mean() + 0.5 * value_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=json.loads)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    print(run(options.config, options.seconds))
