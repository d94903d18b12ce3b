"""Gradient steps of TD3 beside a plain PyTorch loop, and replay draws beside NumPy's own gather.

Both sides draw their minibatches from the same replay and alternate within every round; `ratio` is
the median over the rounds. The plain loop is what one writes first: modules, autograd, MSE, one
Adam with torch's defaults, autocast for bf16; `frozen` also takes the critic's parameters out of
the actor's graph. An actor step leaves the critic alone, a critic step includes the targets.

    python benchmarks/throughput/td3_steps.py --out benchmarks/results/td3_steps.csv
"""

import argparse
import copy
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.algorithms.first_critics import first_critics_state
from drumline.algorithms.td3 import TD3Jobs, initial_actor, initial_critics
from drumline.algorithms.td3_steps import TD3Settings
from drumline.buffers.minibatches import Minibatches
from drumline.buffers.replay import TRUNCATED, Batch, Replay, ReplayShape, ReplayWriter, one_episode
from drumline.policies.heads import Head
from drumline.tasks import GradientJob

SEED = 0
EPISODE = 1000
Run = Callable[[int], object]
"""Makes so many steps."""


def filled(observations: int, actions: int, transitions: int) -> ReplayWriter:
    """A replay of random numbers."""
    shape = ReplayShape(transitions, observations, actions, EPISODE + 1, transitions // EPISODE + 1)
    arrays = {n: np.zeros(size, kind) for n, (size, kind) in shape.layout().items()}
    writer, rng = ReplayWriter(Replay(shape, arrays)), np.random.default_rng(SEED)
    for _ in range(transitions // EPISODE):
        rows = rng.standard_normal((EPISODE + 1, observations), dtype=np.float32)
        taken = rng.uniform(-1.0, 1.0, (EPISODE, actions)).astype(np.float32)
        rewards = rng.standard_normal(EPISODE, dtype=np.float32)
        writer.append(one_episode(rows, taken, rewards, TRUNCATED))
    return writer


class Plain:
    """TD3 as one writes it first."""

    def __init__(self, settings: TD3Settings, replay: Replay, watermark: int):
        self.settings, self.replay, self.watermark = settings, replay, watermark
        self.rng = np.random.default_rng(SEED)
        self.actor = _module(settings.actor_sizes, nn.Tanh)
        self.critics = [_module(settings.critic_sizes, nn.LeakyReLU) for _ in range(2)]
        self.target_actor = copy.deepcopy(self.actor)
        self.target_critics = copy.deepcopy(self.critics)
        both = [p for critic in self.critics for p in critic.parameters()]
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), 1e-3)
        self.critic_adam = torch.optim.Adam(both, 1e-3)

    def actor_steps(self, count: int) -> None:
        for _ in range(count):
            observations = torch.from_numpy(self.replay.observations[self._rows()])
            with self._cast():
                actions = torch.tanh(self.actor(observations))
                value = self.critics[0](torch.cat([observations, actions], 1)).mean()
            self.actor_adam.zero_grad()
            (-value).backward()
            self.actor_adam.step()

    def frozen_actor_steps(self, count: int) -> None:
        self.critics[0].requires_grad_(False)
        self.actor_steps(count)
        self.critics[0].requires_grad_(True)

    def critic_steps(self, count: int) -> None:
        replay = self.replay
        for _ in range(count):
            rows = self._rows()
            now, taken, rewards = (
                torch.from_numpy(array[rows])
                for array in (replay.observations, replay.actions, replay.rewards)
            )
            after = torch.from_numpy(replay.observations[replay.following[rows]])
            ended = torch.from_numpy(replay.terminated[rows]).float()
            with self._cast():
                with torch.no_grad():
                    noise = (torch.randn_like(taken) * 0.2).clamp(-0.5, 0.5)
                    actions = (torch.tanh(self.target_actor(after)) + noise).clamp(-1.0, 1.0)
                    inputs = torch.cat([after, actions], 1)
                    values = torch.minimum(*(critic(inputs) for critic in self.target_critics))
                    targets = rewards + 0.99 * (1.0 - ended) * values[:, 0].float()
                inputs = torch.cat([now, taken], 1)
                loss = sum(
                    nn.functional.mse_loss(critic(inputs)[:, 0].float(), targets)
                    for critic in self.critics
                )
            assert isinstance(loss, torch.Tensor)
            self.critic_adam.zero_grad()
            loss.backward()
            self.critic_adam.step()
            with torch.no_grad():
                for old, new in zip(self.target_critics, self.critics, strict=True):
                    for target, live in zip(old.parameters(), new.parameters(), strict=True):
                        target.copy_(0.005 * live + 0.995 * target)

    def _rows(self) -> np.ndarray:
        return self.rng.integers(0, self.watermark, self.settings.batch_size)

    def _cast(self) -> AbstractContextManager[Any]:
        if self.settings.precision == "bf16":
            return torch.autocast("cpu", torch.bfloat16)
        return nullcontext()


def _module(sizes: tuple[int, ...], hidden: type[nn.Module]) -> nn.Sequential:
    layers = [
        m for inputs, outputs in pairwise(sizes) for m in (nn.Linear(inputs, outputs), hidden())
    ]
    return nn.Sequential(*layers[:-1])


def contenders(settings: TD3Settings, writer: ReplayWriter) -> dict[str, tuple[Run, Run]]:
    """Return what is measured → (ours, the plain way)."""
    replay, watermark = writer.replay, writer.watermark
    jobs = TD3Jobs(settings, Minibatches(replay, settings.batch_size, settings.noise_size))
    actor, critics = initial_actor(settings, SEED), initial_critics(settings, SEED)
    state = first_critics_state(critics)
    plain = Plain(settings, replay, watermark)

    def refine(count: int) -> None:
        jobs.refine(actor, critics, GradientJob(count, watermark, SEED))

    def train(count: int) -> None:
        jobs.train_critics(state, actor, GradientJob(count, watermark, SEED))

    return {
        "actor step": (refine, plain.actor_steps),
        "actor step, frozen critic": (refine, plain.frozen_actor_steps),
        "critic step": (train, plain.critic_steps),
    }


def gathers(writer: ReplayWriter, batch_size: int) -> dict[str, tuple[Run, Run]]:
    """Return our draw of whole minibatches, and NumPy's indexing of the same arrays."""
    replay, watermark = writer.replay, writer.watermark
    batch = Batch.allocate(batch_size, replay.shape)
    rng = np.random.default_rng(SEED)
    chosen = [rng.integers(0, watermark, batch_size) for _ in range(64)]

    def ours(count: int) -> None:
        for number in range(count):
            replay.gather(chosen[number % 64], batch)

    def plain(count: int) -> None:
        for number in range(count):
            rows = chosen[number % 64]
            _ = replay.observations[rows], replay.actions[rows], replay.rewards[rows]
            _ = replay.terminated[rows], replay.observations[replay.following[rows]]

    return {"replay gather": (ours, plain)}


def measure(ours: Run, plain: Run, seconds: float, rounds: int) -> dict[str, object]:
    """Alternate both sides; as many steps each time as fill `seconds`."""
    counts = []
    for run in (ours, plain):
        run(3)
        began = time.perf_counter()
        run(10)
        counts.append(max(10, int(seconds * 10 / (time.perf_counter() - began))))
    rates: list[list[float]] = [[], []]
    for _ in range(rounds):
        for side, run in enumerate((ours, plain)):
            began = time.perf_counter()
            run(counts[side])
            rates[side].append(counts[side] / (time.perf_counter() - began))
    ratios = [a / b for a, b in zip(*rates, strict=True)]
    return {
        "ours_per_second": f"{median(rates[0]):.1f}",
        "plain_per_second": f"{median(rates[1]):.1f}",
        "ratio": f"{median(ratios):.3f}",
        "ratio_min": f"{min(ratios):.3f}",
        "ratio_max": f"{max(ratios):.3f}",
        "rounds": rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--precisions", nargs="*", default=["fp32", "bf16"])
    parser.add_argument("--hidden", type=int, nargs="*", default=[400, 300])
    parser.add_argument("--observations", type=int, default=17)
    parser.add_argument("--actions", type=int, default=6)
    parser.add_argument("--transitions", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    size = options.actions
    head = Head("squashed", (-1.0,) * size, (1.0,) * size, (size,))
    writer = filled(options.observations, size, options.transitions)
    rows = []
    for precision in options.precisions:
        layers = tuple(options.hidden)
        settings = TD3Settings(
            options.observations,
            head,
            layers,
            layers,
            actor_activation="tanh",
            critic_activation="leaky-relu",
            precision=precision,
        )
        pairs = contenders(settings, writer)
        if precision == options.precisions[0]:
            pairs |= gathers(writer, settings.batch_size)
        for name, (ours, plain) in pairs.items():
            row = {
                "measured": name,
                "precision": "-" if name == "replay gather" else precision,
                "hidden": " ".join(map(str, layers)),
                "observations": options.observations,
                "actions": size,
                "batch": settings.batch_size,
                "threads": 1,
                **measure(ours, plain, options.seconds, options.rounds),
            }
            rows.append({**row, "torch": torch.__version__, **provenance([SEED])})
            print(row, flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
