"""The operations of a path's matrix products, and the speed at which a core makes them."""

import time
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

BATCH, OBSERVATIONS, ACTIONS = 256, 17, 6
"""Of the gradient steps: HalfCheetah's sizes."""


class Layer(NamedTuple):
    """A matrix product: rows for one observation, inputs and outputs."""

    rows: int
    inputs: int
    outputs: int

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.inputs * self.outputs


def mlp(*sizes: int) -> list[Layer]:
    return [Layer(1, *pair) for pair in pairwise(sizes)]


def forward_flops(layers: Sequence[Layer]) -> int:
    return sum(layer.flops for layer in layers)


def learning_flops(layers: Sequence[Layer]) -> int:
    """Return the operations of a pass forward and backward; nothing needs the inputs' gradient."""
    return 3 * forward_flops(layers) - layers[0].flops


def actor_step_flops(actor: Sequence[Layer], critic: Sequence[Layer]) -> int:
    """Return those of TD3's actor step for a row: the critic passes on a gradient, and has none."""
    return learning_flops(actor) + 2 * forward_flops(critic)


def critic_step_flops(actor: Sequence[Layer], critic: Sequence[Layer]) -> int:
    """Return those of TD3's critic step for a row: the targets, and both critics' passes."""
    return forward_flops(actor) + 2 * forward_flops(critic) + 2 * learning_flops(critic)


def peak_flops(threads: int, seconds: float = 0.2, precision: str = "fp32") -> float:
    """Return the operations per second of the best of three sizes of matrix products.

    Of float32 it is the better of torch's two libraries.
    """
    import torch

    from drumline.functional.products import multiply_by_onednn

    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    ways = [lambda left, right, out: torch.mm(left, right, out=out)]
    if precision == "fp32" and torch.backends.mkldnn.is_available():
        ways.append(multiply_by_onednn)
    before, best = torch.get_num_threads(), 0.0
    torch.set_num_threads(threads)
    for size, way in product((512, 1024, 2048), ways):
        left, right, out = (torch.ones(size, size, dtype=kind) for _ in range(3))
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            start = time.perf_counter()
            way(left, right, out)
            best = max(best, 2.0 * size**3 / (time.perf_counter() - start))
    torch.set_num_threads(before)
    return best


def networks() -> dict[str, list[Layer]]:
    """Return the layers of both networks on Pong's images and actions."""
    from drumline.policies.convolutional import NETWORKS

    found = {}
    for name, network in NETWORKS.items():
        layers, side, depth = [], 84, 4
        for outputs, kernel, stride in network.convolutions:
            side = (side - kernel) // stride + 1
            layers.append(Layer(side * side, depth * kernel * kernel, outputs))
            depth = outputs
        found[name] = [*layers, *mlp(side * side * depth, network.hidden, 6)]
    return found


def hts_layers(config: dict[str, Any]) -> list[list[Layer]]:
    """Return the layers of what an observation passes: two MLPs, or one network on images."""
    sizes = {"CartPole-v1": (4, 2), "HalfCheetah-v5": (OBSERVATIONS, ACTIONS)}
    if config["network"] == "mlp":
        inputs, outputs = sizes[str(config["env"])]
        return [mlp(inputs, *config["hidden"], last) for last in (outputs, 1)]
    layers = networks()[str(config["network"])]
    return [[*layers[:-1], Layer(1, layers[-1].inputs, layers[-1].outputs + 1)]]


def gradient_limit(kind: str, hidden: Sequence[int], peak: float) -> float:
    """Return the steps per second at which a step's matrix products would be at the peak."""
    actor = mlp(OBSERVATIONS, *hidden, ACTIONS)
    critic = mlp(OBSERVATIONS + ACTIONS, *hidden, 1)
    flops = (actor_step_flops if kind == "actor" else critic_step_flops)(actor, critic)
    return peak / (BATCH * flops)
