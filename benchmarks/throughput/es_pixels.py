"""Networks on images in `es`: one forward pass, virtual batch normalisation, and whole episodes.

    forward    µs for one image: ours in NumPy, and the same layers in torch on one thread
    reference  ms for the statistics of the reference batch, once for each member
    episode    env steps per second of processor time: an evaluator's episodes, and a bare loop
               that steps EnvPool and calls the same network

All are processor time of one process, in turns, so that other programs on the machine matter less.
`--one-action` counts, of 200 perturbations of an initial policy, those that take a single action in
200 frames of a game, with virtual batch normalisation and without (Salimans et al. 2017, §2.2).

    python benchmarks/throughput/es_pixels.py --out benchmarks/results/es_pixels.csv
    python benchmarks/throughput/es_pixels.py --one-action Pong-v5,Freeway-v5 --out \\
        benchmarks/results/es_one_action.csv
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline import seeding
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.make import make_environment
from drumline.envs.reference_frames import fill_with_random_play
from drumline.functional.perturbation import counter_reader, perturb
from drumline.policies.build import build_policy, initial_parameters
from drumline.policies.convolutional import NETWORKS, ConvolutionalPolicy
from drumline.policies.exported_module import torch_policy
from drumline.policies.heads import Head
from drumline.policies.spec import PolicySpec
from drumline.tasks import Evaluate
from drumline.workers.evaluator import EvaluatorSpec

FRAMES = 128


def spec_for(network: str, choices: int, frames: int) -> PolicySpec:
    image = (4, 84, 84)
    head = Head("discrete", choices=choices)
    size = 4 * 84 * 84
    return PolicySpec(
        size, head, (), normalize=False, convolutions=network, image=image, virtual_batch=frames
    )


def seconds(call: Callable[[], Any], times: int) -> float:
    """Processor seconds of one call."""
    began = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - began) / times


class Alone:
    """The context of a worker without a pool."""

    def __init__(self, shared: Mapping[str, np.ndarray], parameters: np.ndarray):
        self.shared = shared
        self._published = {"parameters": parameters}

    def published(self, version: int) -> Mapping[str, np.ndarray]:
        return self._published

    def progress(self, amount: int) -> None:
        pass

    def probe(self, point: str) -> None:
        pass

    def withdrawn(self) -> bool:
        return False

    def building(self) -> Any:
        return nullcontext()

    def on_leave(self, close: Callable[[], None]) -> None:
        pass


def measured(network: str, env: str, steps: int, turns: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    environment = EnvironmentSpec(env, "envpool", options={"max_episode_steps": steps})
    made = make_environment(environment)
    spec = spec_for(network, int(made.environment.action_space.n), FRAMES)
    frames = np.zeros((FRAMES, *spec.image), np.uint8)
    fill_with_random_play(frames, environment, 0)
    policy = build_policy(spec)
    assert isinstance(policy, ConvolutionalPolicy)
    policy.load_reference(frames)
    parameters = initial_parameters(spec, seeding.generator(0, "initial-parameters"))
    policy.load_vector(parameters)
    module = torch_policy(spec, parameters, None, frames)
    image = frames[5]

    def by_torch() -> np.ndarray:
        with torch.inference_mode():
            return module.outputs(torch.from_numpy(image)[None])[0].numpy()

    worker = EvaluatorSpec(environment, spec, noise_seed=0)(
        Alone({"reference_frames": frames}, parameters)
    )

    def episode() -> int:
        task = Evaluate(0, 0, 1, 0, 0, 0.02, 0, contributes=False, training=True)
        return worker(task).length

    def bare() -> int:
        observation, _ = made.environment.reset(seed=0)
        for length in range(1, steps + 1):
            action = int(policy.output(observation).argmax())
            observation, _, terminated, truncated, _ = made.environment.step(action)
            if terminated or truncated:
                return length
        return steps

    for call in (by_torch, episode, bare):
        call()
    found: dict[str, list[float]] = {
        name: [] for name in ("numpy", "torch", "reference", "episode", "bare", "share")
    }
    for _ in range(turns):
        found["numpy"].append(seconds(lambda: policy.output(image), 300))
        found["torch"].append(seconds(by_torch, 300))
        found["reference"].append(seconds(policy.loaded, 10))
        rates: dict[str, float] = {}
        for name, call in (("episode", episode), ("bare", bare)):
            began = time.process_time()
            length = call()
            rates[name] = length / (time.process_time() - began)
            found[name].append(rates[name])
        found["share"].append(rates["episode"] / rates["bare"])
    made.close()
    thousand = 1000.0 / median(found["episode"])
    return {
        "network": network,
        "env": env,
        "episode_steps": steps,
        "turns": turns,
        "numpy_forward_us": round(1e6 * median(found["numpy"]), 1),
        "torch_forward_us": round(1e6 * median(found["torch"]), 1),
        "reference_ms": round(1e3 * median(found["reference"]), 2),
        "reference_share_of_1000_steps": round(median(found["reference"]) / thousand, 4),
        "episode_steps_per_second": round(median(found["episode"])),
        "bare_steps_per_second": round(median(found["bare"])),
        "episode_share_of_bare": round(median(found["share"]), 3),
    }


def one_action(network: str, env: str, frames: int, std: float, members: int) -> dict[str, Any]:
    """Count perturbations of an initial policy that take one action in all of 200 frames."""
    environment = EnvironmentSpec(env, "envpool")
    made = make_environment(environment)
    spec = spec_for(network, int(made.environment.action_space.n), frames)
    made.close()
    reference = np.zeros((FRAMES, *spec.image), np.uint8)
    fill_with_random_play(reference, environment, 0)
    seen = np.zeros((200, *spec.image), np.uint8)
    fill_with_random_play(seen, environment, 1)
    policy = build_policy(spec)
    assert isinstance(policy, ConvolutionalPolicy)
    if frames:
        policy.load_reference(reference)
    parameters = initial_parameters(spec, seeding.generator(0, "initial-parameters"))
    read, alone, kinds = counter_reader(0), 0, []
    for member in range(members):
        perturb(parameters, read, member, std, policy.vector, None)
        policy.loaded()
        actions = {int(policy.output(image).argmax()) for image in seen}
        kinds.append(len(actions))
        alone += len(actions) == 1
    return {
        "network": network,
        "env": env,
        "normalization": "virtual-batch" if frames else "none",
        "std": std,
        "perturbations": members,
        "of_one_action": alone,
        "mean_number_of_actions": round(float(np.mean(kinds)), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--env", default="Pong-v5")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--one-action", default="", help="games, as in Pong-v5,Freeway-v5")
    options = parser.parse_args()
    if options.one_action:
        games = options.one_action.split(",")
        rows = [
            one_action(network, game, frames, std, 200)
            for game in games
            for network in NETWORKS
            for std in (0.005, 0.02)
            for frames in (0, FRAMES)
        ]
    else:
        rows = [measured(name, options.env, options.steps, options.turns) for name in NETWORKS]
    for row in rows:
        print(row, flush=True)
    write_table(options.out, [{**row, **provenance([0], "envpool", "torch")} for row in rows])


if __name__ == "__main__":
    main()
