"""Steps of Gymnasium's classic-control tasks: the same bits in less time (`lean_steps.py`)."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.envs.lean_steps import LeanEnvironment, Outcome

_cos, _sin = np.cos, np.sin


def _numbers(state: Any) -> Sequence[float]:
    """Return a state in Python's floats: a reset's array, or a lean step's tuple of them."""
    return state if type(state) is tuple else state.tolist()


class CartPole(LeanEnvironment):
    """CartPole-v0 and CartPole-v1."""

    def __init__(self, environment: Any):
        super().__init__(environment)
        self._angle_limit = 12 * 2 * math.pi / 360

    def advance(self, action: Any, observation: np.ndarray) -> Outcome:
        """Push the cart for one step."""
        environment = self._environment
        x, x_dot, theta, theta_dot = _numbers(environment.state)
        force = 10.0 if action == 1 else -10.0
        cosine, sine = float(_cos(theta)), float(_sin(theta))
        push = (force + 0.05 * (theta_dot * theta_dot) * sine) / 1.1
        theta_acc = (9.8 * sine - cosine * push) / (
            0.5 * (4.0 / 3.0 - 0.1 * (cosine * cosine) / 1.1)
        )
        x_acc = push - 0.05 * theta_acc * cosine / 1.1
        x = x + 0.02 * x_dot
        x_dot = x_dot + 0.02 * x_acc
        theta = theta + 0.02 * theta_dot
        theta_dot = theta_dot + 0.02 * theta_acc
        environment.state = x, x_dot, theta, theta_dot
        observation[0], observation[1], observation[2], observation[3] = environment.state
        limit = self._angle_limit
        terminated = x < -2.4 or x > 2.4 or theta < -limit or theta > limit
        if terminated:
            environment.steps_beyond_terminated = 0
        return 1.0, terminated

    def _usual(self, action: Any) -> bool:
        environment = self._environment
        goes_on = environment.steps_beyond_terminated is None and environment.state is not None
        return goes_on and type(action) is int and 0 <= action <= 1


class Pendulum(LeanEnvironment):
    """Pendulum-v1."""

    def advance(self, action: Any, observation: np.ndarray) -> Outcome:
        """Turn the pendulum for one step."""
        environment = self._environment
        theta, speed = _numbers(environment.state)
        torque = action[0]
        if torque > 2.0:
            torque = action.dtype.type(2.0)
        elif torque < -2.0:
            torque = action.dtype.type(-2.0)
        environment.last_u = torque
        off = (theta + math.pi) % (2 * math.pi) - math.pi
        cost = off**2 + 0.1 * speed**2 + float(0.001 * torque**2)
        speed = speed + (15.0 * float(_sin(theta)) + float(3.0 * torque)) * 0.05
        speed = min(max(speed, -8.0), 8.0)
        theta = theta + speed * 0.05
        environment.state = theta, speed
        observation[0], observation[1], observation[2] = _cos(theta), _sin(theta), speed
        return -cost, False

    def _usual(self, action: Any) -> bool:
        return type(action) is np.ndarray and action.shape == (1,)


class MountainCar(LeanEnvironment):
    """MountainCar-v0."""

    def advance(self, action: Any, observation: np.ndarray) -> Outcome:
        """Push the car for one step."""
        environment = self._environment
        position, velocity = map(float, environment.state)
        velocity += (action - 1) * 0.001 + math.cos(3 * position) * (-0.0025)
        velocity = min(max(velocity, -0.07), 0.07)
        position = min(max(position + velocity, -1.2), 0.6)
        if position == -1.2 and velocity < 0:
            velocity = 0.0
        environment.state = position, velocity
        observation[0], observation[1] = position, velocity
        return -1.0, position >= 0.5 and velocity >= 0

    def _usual(self, action: Any) -> bool:
        return type(action) is int and 0 <= action <= 2


class Acrobot(LeanEnvironment):
    """Acrobot-v1."""

    def advance(self, action: Any, observation: np.ndarray) -> Outcome:
        """Turn the joint for one step of Runge and Kutta's fourth order."""
        environment = self._environment
        torque = action - 1.0
        start = _numbers(environment.state)
        k1 = _slope(start, torque)
        k2 = _slope([y + 0.1 * k for y, k in zip(start, k1, strict=True)], torque)
        k3 = _slope([y + 0.1 * k for y, k in zip(start, k2, strict=True)], torque)
        k4 = _slope([y + 0.2 * k for y, k in zip(start, k3, strict=True)], torque)
        sixth = 0.2 / 6.0
        upper, lower, upper_speed, lower_speed = [
            y + sixth * (one + 2 * two + 2 * three + four)
            for y, one, two, three, four in zip(start, k1, k2, k3, k4, strict=True)
        ]
        upper, lower = _wrapped(upper), _wrapped(lower)
        upper_speed = min(max(upper_speed, -4 * math.pi), 4 * math.pi)
        lower_speed = min(max(lower_speed, -9 * math.pi), 9 * math.pi)
        environment.state = upper, lower, upper_speed, lower_speed
        cosine = _cos(upper)
        terminated = bool(-cosine - _cos(lower + upper) > 1.0)
        observation[:] = (
            cosine,
            _sin(upper),
            _cos(lower),
            _sin(lower),
            upper_speed,
            lower_speed,
        )
        return 0.0 if terminated else -1.0, terminated

    def _usual(self, action: Any) -> bool:
        return type(action) is int and 0 <= action <= 2 and self._environment.state is not None


def _slope(state: Sequence[float], torque: float) -> tuple[float, float, float, float]:
    """Return the derivative of Acrobot's angles and speeds by time.

    Both links have mass, length and moment of inertia 1, and their centre of mass in the middle.
    """
    upper, lower, upper_speed, lower_speed = state
    cosine, sine = float(_cos(lower)), float(_sin(lower))
    d1 = 0.25 + (1.25 + cosine) + 1.0 + 1.0
    d2 = 0.25 + 0.5 * cosine + 1.0
    phi2 = 4.9 * float(_cos(upper + lower - math.pi / 2.0))
    phi1 = (
        -0.5 * lower_speed**2 * sine
        - lower_speed * upper_speed * sine
        + 1.5 * 9.8 * float(_cos(upper - math.pi / 2))
        + phi2
    )
    lower_push = (torque + d2 / d1 * phi1 - 0.5 * upper_speed**2 * sine - phi2) / (
        1.25 - d2**2 / d1
    )
    return upper_speed, lower_speed, -(d2 * lower_push + phi1) / d1, lower_push


def _wrapped(angle: float) -> float:
    """Return the angle within ±π, by whole turns."""
    while angle > math.pi:
        angle = angle - 2 * math.pi
    while angle < -math.pi:
        angle = angle + 2 * math.pi
    return angle
