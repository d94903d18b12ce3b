"""TD3 as one file usually writes it: Gymnasium, a replay of arrays, torch modules, autograd, Adam.

The shape is that of CleanRL's script for continuous actions: one env step and one gradient step
in turn, the actor and the targets every `policy_delay` steps. Prints env steps per second.

    python benchmarks/throughput/plain_td3_loop.py '{"env": "HalfCheetah-v5", …}' --seconds 20
"""

import argparse
import json
import time
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn


def layers(inputs: int, hidden: list[int], outputs: int) -> nn.Sequential:
    sizes = [inputs, *hidden]
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(sizes[-1], outputs))


class Actor(nn.Module):
    def __init__(self, observations: int, hidden: list[int], space: Any):
        super().__init__()
        self.net = layers(observations, hidden, space.shape[0])
        self.register_buffer("reach", torch.tensor((space.high - space.low) / 2.0))
        self.register_buffer("middle", torch.tensor((space.high + space.low) / 2.0))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.net(x)) * self.reach + self.middle


class Critic(nn.Module):
    def __init__(self, observations: int, hidden: list[int], actions: int):
        super().__init__()
        self.net = layers(observations + actions, hidden, 1)

    def forward(self, x: Tensor, action: Tensor) -> Tensor:
        return self.net(torch.cat([x, action], 1)).view(-1)


class Replay:
    """Rows of transitions; a sample is copied to the device array by array."""

    def __init__(self, size: int, observations: int, actions: int, device: torch.device):
        shapes = ((size, observations), (size, observations), (size, actions), (size,), (size,))
        self.arrays = [np.zeros(shape, np.float32) for shape in shapes]
        self.count, self.device = 0, device

    def add(self, *row: Any) -> None:
        for array, part in zip(self.arrays, row, strict=True):
            array[self.count % len(array)] = part
        self.count += 1

    def sample(self, rows: int) -> list[Tensor]:
        have = min(self.count, len(self.arrays[0]))
        picks = np.random.randint(0, have, rows)  # noqa: NPY002  (as such scripts do)
        return [torch.tensor(array[picks], device=self.device) for array in self.arrays]


def run(config: dict[str, Any], seconds: float) -> float:
    torch.set_num_threads(config["threads"])
    device = torch.device(config.get("device", "cpu"))
    environment = gymnasium.make(config["env"])
    space: Any = environment.action_space
    size, hidden = environment.observation_space.shape[0], list(config["hidden"])
    actor, target_actor = (Actor(size, hidden, space).to(device) for _ in range(2))
    critics = [Critic(size, hidden, space.shape[0]).to(device) for _ in range(4)]
    (first, second), (target_first, target_second) = critics[:2], critics[2:]
    pairs = [(actor, target_actor), (first, target_first), (second, target_second)]
    for live, target in pairs:
        target.load_state_dict(live.state_dict())
    rate, polyak = config["learning_rate"], config["polyak"]
    of_actor: Any = torch.optim.Adam(list(actor.parameters()), lr=rate)
    both = [*first.parameters(), *second.parameters()]
    of_critics: Any = torch.optim.Adam(both, lr=rate)
    replay = Replay(config["replay_size"], size, space.shape[0], device)
    low, high = (torch.tensor(bound, device=device) for bound in (space.low, space.high))
    observation = environment.reset(seed=1)[0].astype(np.float32)
    made, began, warm = 0, 0.0, config["random_steps"] + 500
    while True:
        if made == warm:
            began = time.perf_counter()
        if made > warm and made % 50 == 0 and time.perf_counter() - began > seconds:
            return (made - warm) / (time.perf_counter() - began)
        if made < config["random_steps"]:
            action = space.sample()
        else:
            with torch.no_grad():
                chosen = actor(torch.Tensor(observation[None]).to(device))
                chosen += torch.randn_like(chosen) * config["exploration_noise"] * actor.reach
                action = chosen.cpu().numpy()[0].clip(space.low, space.high)
        following, reward, terminated, truncated, _ = environment.step(action)
        following = following.astype(np.float32)
        replay.add(observation, following, action, reward, float(terminated))
        observation = following
        if terminated or truncated:
            observation = environment.reset()[0].astype(np.float32)
        made += 1
        if made < config["random_steps"]:
            continue
        now, after, actions, rewards, ended = replay.sample(config["batch_size"])
        with torch.no_grad():
            noise = (torch.randn_like(actions) * 0.2).clamp(-0.5, 0.5) * actor.reach
            smoothed = (target_actor(after) + noise).clamp(low, high)
            least = torch.min(target_first(after, smoothed), target_second(after, smoothed))
            targets = rewards + (1.0 - ended) * config["discount"] * least
        mse = nn.functional.mse_loss
        loss = mse(first(now, actions), targets) + mse(second(now, actions), targets)
        of_critics.zero_grad()
        loss.backward()
        of_critics.step()
        if made % config["policy_delay"] == 0:
            value = -first(now, actor(now)).mean()
            of_actor.zero_grad()
            value.backward()
            of_actor.step()
            for live, target in pairs:
                for part, slow in zip(live.parameters(), target.parameters(), strict=True):
                    slow.data.copy_(polyak * part.data + (1.0 - polyak) * slow.data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=json.loads)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    print(run(options.config, options.seconds))
