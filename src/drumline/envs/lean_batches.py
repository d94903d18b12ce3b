"""Steps of several classic-control tasks in one call: the bits of `lean_classic.py` in less time.

A step of one cart takes 2 µs, one of 64 in a call of NumPy 20: states are columns of an array, and
the environments themselves only reset. Every expression has the order of its lean step. `fitting`
compares the bits before a process uses a batch.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from drumline import seeding
from drumline.envs.lean_classic import CartPole, MountainCar, Pendulum
from drumline.envs.lean_steps import LeanEnvironment

LEAST_TOGETHER = 10
"""Environments from which on one call takes less time than a step of each."""

_COMPARED_STEPS = 48
_COMPARED = 16
_TURN = 2 * math.pi


class Stepped(NamedTuple):
    """One step of k environments."""

    states: np.ndarray
    """`[S, k]` float64."""
    observations: np.ndarray
    """`[k, D]` float32."""
    rewards: np.ndarray
    """`[k]` float64."""
    terminated: np.ndarray
    """`[k]` bool."""


class Batch(NamedTuple):
    """The numbers that make a task's state, and a step of several states."""

    size: int
    """S, numbers of a state."""
    step: Callable[[np.ndarray, np.ndarray], Stepped]
    """(states `[S, k]`, actions `[k, ...]` within their space) → a step; it changes neither."""


def _cart_pole(states: np.ndarray, actions: np.ndarray) -> Stepped:
    x, x_dot, theta, theta_dot = states
    force = _FORCES[actions]
    cosine, sine = np.cos(theta), np.sin(theta)
    push = (force + 0.05 * (theta_dot * theta_dot) * sine) / 1.1
    theta_acc = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * (cosine * cosine) / 1.1))
    x_acc = push - 0.05 * theta_acc * cosine / 1.1
    rates = np.concatenate((x_dot, x_acc, theta_dot, theta_acc)).reshape(4, -1)
    states = states + 0.02 * rates
    terminated = (np.abs(states[0]) > 2.4) | (np.abs(states[2]) > _CART_ANGLE)
    return Stepped(states, states.T.astype(np.float32, "C"), np.ones(len(x)), terminated)


_FORCES = np.array([-10.0, 10.0])
_CART_ANGLE = 12 * 2 * math.pi / 360


def _pendulum(states: np.ndarray, actions: np.ndarray) -> Stepped:
    theta, speed = states
    torque = np.minimum(np.maximum(actions[:, 0], -2.0), 2.0)
    off = (theta + math.pi) % _TURN - math.pi
    cost = _squares(off) + 0.1 * _squares(speed) + (0.001 * _squares(torque)).astype(np.float64)
    speed = speed + (15.0 * np.sin(theta) + (3.0 * torque).astype(np.float64)) * 0.05
    speed = np.minimum(np.maximum(speed, -8.0), 8.0)
    theta = theta + speed * 0.05
    observations = np.stack((np.cos(theta), np.sin(theta), speed), 1).astype(np.float32)
    return Stepped(np.stack((theta, speed)), observations, -cost, np.zeros(len(cost), bool))


def _mountain_car(states: np.ndarray, actions: np.ndarray) -> Stepped:
    position, velocity = states
    slope = np.array(list(map(math.cos, (3 * position).tolist())))  # Gymnasium's is math.cos, too
    velocity = velocity + ((actions - 1) * 0.001 + slope * (-0.0025))
    velocity = np.minimum(np.maximum(velocity, -0.07), 0.07)
    position = np.minimum(np.maximum(position + velocity, -1.2), 0.6)
    velocity[(position == -1.2) & (velocity < 0)] = 0.0
    states = np.stack((position, velocity))
    terminated = (position >= 0.5) & (velocity >= 0)
    return Stepped(
        states, states.T.astype(np.float32, "C"), np.full(len(position), -1.0), terminated
    )


def _squares(values: np.ndarray) -> np.ndarray:
    """Return the squares of `[k]` as C's `pow` rounds them, which a product need not equal."""
    singly: Iterable[Any] = values.tolist() if values.dtype == np.float64 else values
    return np.array([value**2 for value in singly])


BATCHES: dict[type[LeanEnvironment], Batch] = {
    CartPole: Batch(4, _cart_pole),
    MountainCar: Batch(2, _mountain_car),
    Pendulum: Batch(2, _pendulum),
}
"""Batches by the lean step whose bits they have. Acrobot gains little: a step is 140 calls."""


def fitting(environments: Sequence[LeanEnvironment]) -> Batch | None:
    """Return the batch of these environments if there is one with their bits here and now.

    Environments that were compared have to be reset.
    """
    kind = type(environments[0])
    batch = BATCHES.get(kind)
    if batch is None or len(environments) < LEAST_TOGETHER:
        return None
    return batch if _equal(batch, environments[:_COMPARED]) else None


def _equal(batch: Batch, environments: Sequence[LeanEnvironment]) -> bool:
    """Return whether a batch steps the first k environments as each steps itself, k in turn.

    Lanes give all states as they lie, or a selection, and the kernels of sines may depend on it.
    """
    rng = seeding.generator(0, "lean-batches")
    count, space = len(environments), environments[0].action_space
    for number, environment in enumerate(environments):
        environment.reset(seed=number)
    for number in range(_COMPARED_STEPS):
        together = environments[: count - number % count]
        states = np.ascontiguousarray(np.array([one.bare.state for one in together]).T)
        if len(together) < count:
            states = states[:, np.arange(len(together))]
        if hasattr(space, "n"):
            actions = rng.integers(space.n, size=len(together))
            singly: list[Any] = actions.tolist()
        else:
            actions = rng.uniform(space.low, space.high, (len(together), *space.shape))
            actions = actions.astype(space.dtype)
            singly = list(actions)
        stepped = batch.step(states, actions)
        for place, environment in enumerate(together):
            observation, reward, terminated, _, _ = environment.step(singly[place])
            same = (
                stepped.observations[place].tobytes() == observation.tobytes()
                and stepped.rewards[place] == reward
                and stepped.terminated[place] == terminated
                and stepped.states[:, place].tolist() == list(environment.bare.state)
            )
            if not same:
                return False
            if terminated:
                environment.reset(seed=number)
    return True
