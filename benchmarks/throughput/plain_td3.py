"""The plain loop of `td3_steps.py` in a process of its own: aes.py says when it takes steps.

Reads "actor SECONDS" or "critic SECONDS" and answers with processor seconds per step.
"""

import sys
import time

import torch
from td3_steps import Plain, filled

from drumline.algorithms.td3_steps import TD3Settings
from drumline.policies.heads import Head


def main() -> None:
    torch.set_num_threads(1)
    precision, observations, size, *hidden = sys.argv[1:]
    layers, actions = tuple(map(int, hidden)), int(size)
    settings = TD3Settings(
        int(observations),
        Head("squashed", (-1.0,) * actions, (1.0,) * actions, (actions,)),
        layers,
        layers,
        actor_activation="tanh",
        critic_activation="leaky-relu",
        precision=precision,  # pyright: ignore[reportArgumentType] - "fp32" or "bf16"
    )
    writer = filled(settings.observation_size, actions, 20_000)
    plain = Plain(settings, writer.replay, writer.watermark)
    steps = {"actor": plain.frozen_actor_steps, "critic": plain.critic_steps}
    for run in steps.values():
        run(3)
    print("ready", flush=True)
    for line in sys.stdin:
        name, seconds = line.split()
        count, began, spent = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - began < float(seconds):
            steps[name](5)
            count += 5
        print((time.process_time() - spent) / count, flush=True)


if __name__ == "__main__":
    main()
