"""Processor time of an env step: Gymnasium's own, the lean one, and what both are made of.

Every round draws a policy (64-64 tanh, perturbed, so that bodies move) and records its actions and
observations over episodes of at most 250 steps. The same actions are then repeated by
`gymnasium.make`'s environment with its wrappers, by the environment without them, by the lean step
and by MuJoCo's substeps alone; the policy's calls are repeated on the recorded observations. The
sides take turns episode by episode, in rotating order. What is counted is the processor time of
this process: other processes disturb it less than time by the clock. Resets are not counted.

Two whole loops follow: members' episodes one after the other, and those of eight members in turn
with one call of a policy that stacks their parameters.

    python benchmarks/throughput/lean_steps.py --out benchmarks/results/lean_steps.csv
"""

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from drumline.envs.lean_steps import LeanEnvironment
from drumline.envs.step_choice import LEAN
from drumline.policies.build import build_policy
from drumline.policies.heads import Head, action_function
from drumline.policies.mlp import initial_vector, layer_shapes
from drumline.policies.spec import PolicySpec

EPISODE = 250
MEMBERS = 8
HIDDEN = (64, 64)
CLASSIC = ("CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1")


class Recorded(NamedTuple):
    """One episode: its seed, and per step the observation and the action."""

    seed: int
    observations: list[np.ndarray]
    actions: list[Any]


def spec_of(environment: Any) -> PolicySpec:
    space = environment.action_space
    if hasattr(space, "n"):
        head = Head("discrete", choices=int(space.n))
    else:
        low, high = tuple(space.low.tolist()), tuple(space.high.tolist())
        head = Head("continuous", low=low, high=high, shape=space.shape)
    return PolicySpec(environment.observation_space.shape[0], head, HIDDEN)


def drawn(spec: PolicySpec, rng: np.random.Generator, std: float = 0.1) -> np.ndarray:
    vector = initial_vector(spec, rng)
    return vector + np.float32(std) * rng.standard_normal(vector.size, np.float32)


def record(environment: Any, policy: Any, seeds: list[int]) -> list[Recorded]:
    episodes = []
    for seed in seeds:
        observation, _ = environment.reset(seed=seed)
        episode = Recorded(seed, [], [])
        for _ in range(EPISODE):
            action = policy.act(observation)
            episode.observations.append(observation)
            episode.actions.append(action)
            observation, _, terminated, _, _ = environment.step(action)
            if terminated:
                break
        episodes.append(episode)
    return episodes


def repeated(environment: Any, episode: Recorded, step: Callable[[Any], Any]) -> float:
    """Return the processor's microseconds of a step."""
    environment.reset(seed=episode.seed)
    began = time.process_time_ns()
    for action in episode.actions:
        step(action)
    return (time.process_time_ns() - began) / len(episode.actions) / 1e3


def decided(policy: Any, episode: Recorded) -> float:
    """Return the processor's microseconds of an action."""
    began = time.process_time_ns()
    for observation in episode.observations:
        policy.act(observation)
    return (time.process_time_ns() - began) / len(episode.actions) / 1e3


def physics(environment: Any) -> Callable[[Any], None]:
    """Return the substeps alone."""
    mujoco: Any = importlib.import_module("mujoco")
    model, data, count = environment.model, environment.data, environment.frame_skip
    ctrl, simulate = data.ctrl, mujoco.mj_step

    def step(action: Any) -> None:
        ctrl[:] = action
        simulate(model, data, count)

    return step


class Stack:
    """The forward pass of several members at once, as `MLPPolicy` computes each."""

    def __init__(self, spec: PolicySpec, vectors: np.ndarray):
        shapes, count, start = layer_shapes(spec), len(vectors), 0
        self._inputs = [np.ones((count, 1, rows), np.float32) for rows, _ in shapes]
        self._values = [inputs[:, 0, :-1] for inputs in self._inputs]
        self._matrices, self._outputs = [], []
        for rows, columns in shapes:
            piece = vectors[:, start : start + rows * columns]
            self._matrices.append(np.ascontiguousarray(piece.reshape(count, rows, columns)))
            self._outputs.append(np.empty((count, 1, columns), np.float32))
            start += rows * columns
        self._rows = np.zeros((count, spec.observation_size))
        self._mean, self._inverse_std = np.zeros(spec.observation_size), np.ones(1)

    def output(self, observations: list[np.ndarray]) -> np.ndarray:
        first, rows = self._values[0], self._rows
        for row, observation in enumerate(observations):
            rows[row] = observation
        np.subtract(rows, self._mean, out=rows)
        np.multiply(rows, self._inverse_std, out=first, casting="same_kind")
        np.maximum(first, np.float32(-5.0), out=first)
        np.minimum(first, np.float32(5.0), out=first)
        for number, (inputs, matrix) in enumerate(zip(self._inputs, self._matrices, strict=True)):
            out = self._outputs[number]
            np.matmul(inputs, matrix, out=out)
            if number + 1 < len(self._inputs):
                np.tanh(out[:, 0], out=self._values[number + 1])
        return self._outputs[-1][:, 0]


def one_after_the_other(
    environments: list[Any], policies: list[Any], steps: int, seed: int
) -> tuple[float, list[float]]:
    """Return microseconds of a step of the loop, and the members' summed rewards."""
    returns, began = [], time.process_time_ns()
    environment = environments[0]
    for member, policy in enumerate(policies):
        output, to_action, step = policy.output, policy.to_action, environment.step
        observation, _ = environment.reset(seed=seed + member)
        total, number = 0.0, 0
        while number < steps:
            observation, reward, terminated, truncated, _ = step(
                to_action(output(observation), None)
            )
            total += reward
            number += 1
            if terminated or truncated:
                observation, _ = environment.reset(seed=seed + member)
        returns.append(float(total))
    return (time.process_time_ns() - began) / steps / len(policies) / 1e3, returns


def in_turn(
    environments: list[Any], stack: Stack, spec: PolicySpec, steps: int, seed: int
) -> tuple[float, list[float]]:
    """The same with one call of the policies for all members' next actions."""
    began = time.process_time_ns()
    members = list(enumerate(environments))
    to_action = action_function(spec.head)
    observations = [environment.reset(seed=seed + member)[0] for member, environment in members]
    returns = [0.0] * len(environments)
    for _ in range(steps):
        outputs = stack.output(observations)
        for member, environment in members:
            observation, reward, terminated, truncated, _ = environment.step(
                to_action(outputs[member], None)
            )
            returns[member] += reward
            if terminated or truncated:
                observation, _ = environment.reset(seed=seed + member)
            observations[member] = observation
    spent = time.process_time_ns() - began
    return spent / steps / len(environments) / 1e3, [float(total) for total in returns]


def one_round(env: str, lean: type[LeanEnvironment], number: int) -> list[dict[str, float]]:
    """Return the microseconds of every part, for each episode of the round."""
    wrapped: Any = gymnasium.make(env)
    bare, ours = wrapped.unwrapped, lean(gymnasium.make(env).unwrapped)
    spec, rng = spec_of(bare), np.random.default_rng(number)
    policy = build_policy(spec)
    policy.load_vector(drawn(spec, rng))
    sides: dict[str, Callable[[Recorded], float]] = {
        "wrapped": lambda episode: repeated(wrapped, episode, wrapped.step),
        "lean": lambda episode: repeated(ours, episode, ours.step),
        "bare": lambda episode: repeated(bare, episode, bare.step),
        "policy": lambda episode: decided(policy, episode),
    }
    if env not in CLASSIC:
        substeps = physics(bare)
        sides["physics"] = lambda episode: repeated(bare, episode, substeps)
    found = []
    for turn, episode in enumerate(record(bare, policy, [number, number + 1, number + 2])):
        order = [*sides][turn:] + [*sides][:turn]
        found.append({name: sides[name](episode) for name in order})
    wrapped.close()
    ours.close()
    return found


def members_round(env: str, lean: type[LeanEnvironment], number: int) -> dict[str, float]:
    """Return the microseconds of a step of both loops over members, and whether they agree."""
    environments: list[Any] = [lean(gymnasium.make(env).unwrapped) for _ in range(MEMBERS)]
    spec, rng = spec_of(environments[0]), np.random.default_rng(number)
    vectors = np.stack([drawn(spec, rng) for _ in range(MEMBERS)])
    policies = [build_policy(spec) for _ in vectors]
    for member, vector in zip(policies, vectors, strict=True):
        member.load_vector(vector)
    stack, steps = Stack(spec, vectors), 60
    alone, returns = one_after_the_other(environments, policies, steps, number)
    turns, again = in_turn(environments, stack, spec, steps, number)
    for environment in environments:
        environment.close()
    return {"alone": alone, "in_turn": turns, "same": float(returns == again)}


def row_of(
    env: str, episodes: list[dict[str, float]], members: list[dict[str, float]]
) -> dict[str, object]:
    def middle(name: str) -> str:
        return f"{median(one[name] for one in episodes):.2f}" if name in episodes[0] else ""

    loops = [(one["wrapped"] + one["policy"]) / (one["lean"] + one["policy"]) for one in episodes]
    turns = [one["alone"] / one["in_turn"] for one in members]
    return {
        "environment": env,
        "wrapped_microseconds": middle("wrapped"),
        "bare_microseconds": middle("bare"),
        "lean_microseconds": middle("lean"),
        "physics_microseconds": middle("physics"),
        "policy_microseconds": middle("policy"),
        "loop_ratio_median": f"{median(loops):.3f}",
        "loop_ratio_min": f"{min(loops):.3f}",
        "loop_ratio_max": f"{max(loops):.3f}",
        "alone_microseconds": f"{median(one['alone'] for one in members):.2f}",
        "in_turn_microseconds": f"{median(one['in_turn'] for one in members):.2f}",
        "in_turn_ratio_median": f"{median(turns):.3f}",
        "in_turn_same_returns": all(one["same"] for one in members),
        "members": MEMBERS,
        "episodes": len(episodes),
        "rounds": len(members),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--envs", nargs="*")
    options = parser.parse_args()
    tasks = {
        name: LEAN[spec.entry_point]
        for name, spec in gymnasium.registry.items()
        if isinstance(spec.entry_point, str) and spec.entry_point in LEAN and name != "CartPole-v0"
    }
    names = options.envs or list(tasks)
    episodes: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    members: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with threadpool_limits(1):
        for number in range(options.rounds):
            for name in names:
                episodes[name] += one_round(name, tasks[name], number)
                members[name].append(members_round(name, tasks[name], number))
            print(f"round {number + 1} of {options.rounds}", flush=True)
    where = provenance(list(range(options.rounds)))
    rows = [{**row_of(name, episodes[name], members[name]), **where} for name in names]
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
