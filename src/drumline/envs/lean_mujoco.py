"""Steps of Gymnasium's MuJoCo v5 tasks: the same bits in less time (`lean_steps.py`)."""

import importlib
import math
from typing import Any

import numpy as np

from drumline.envs.lean_steps import LeanEnvironment, Outcome

_sum = np.add.reduce
_joined = np.concatenate
_cos, _sin = np.cos, np.sin


class _MuJoCo(LeanEnvironment):
    """Substeps and views of a MuJoCo task."""

    AT_ONCE = 8

    _place: np.ndarray
    """Positions whose change is rewarded or in `info`; a view."""
    _before: Any
    _after: Any
    _cost: Any

    def __init__(self, environment: Any):
        super().__init__(environment)
        mujoco: Any = importlib.import_module("mujoco")  # only where Gymnasium has loaded it
        data = environment.data
        self._simulate, self._contacts = mujoco.mj_step, mujoco.mj_rnePostConstraint
        self._model, self._data = environment.model, data
        self._qpos, self._qvel, self._ctrl = data.qpos, data.qvel, data.ctrl
        self._place = self._qpos[:0]
        self._shape = data.ctrl.shape
        self._substeps = environment.frame_skip
        self._seconds = environment.dt

    def advance(self, action: Any, observation: np.ndarray) -> Outcome:
        """Make the substeps of one action."""
        self._before = self._place.tolist()
        self._ctrl[:] = action
        self._simulate(self._model, self._data, self._substeps)
        return self._outcome(action, observation)

    def _usual(self, action: Any) -> bool:
        return type(action) is np.ndarray and action.shape == self._shape

    def _outcome(self, action: np.ndarray, observation: np.ndarray) -> Outcome:
        """Write the observation of the simulation as it is."""
        raise NotImplementedError

    def _body(self, name: str) -> np.ndarray:
        """Return a body's position as a view `[3]`."""
        return self._data.body(name).xpos

    def _plane(self) -> dict[str, Any]:
        """Return the part of `info` that all tasks on a plane have."""
        (x, y), (x_before, y_before) = self._after, self._before
        return {
            "x_position": self._qpos[0],
            "y_position": self._qpos[1],
            "distance_from_origin": np.linalg.norm(self._qpos[:2], ord=2),
            "x_velocity": (x - x_before) / self._seconds,
            "y_velocity": (y - y_before) / self._seconds,
        }


class _Runner(_MuJoCo):
    """A body on legs in a vertical plane."""

    _velocity: float
    _healthy: bool

    def __init__(self, environment: Any):
        super().__init__(environment)
        self._place, self._position = self._qpos[:1], self._qpos[1:]
        self._low, self._high = np.full_like(self._qvel, -10.0), np.full_like(self._qvel, 10.0)

    def _finished(
        self, x: float, action: np.ndarray, healthy: bool, observation: np.ndarray
    ) -> Outcome:
        """Write the observation of a body that has to stay healthy."""
        self._velocity = velocity = (x - self._before[0]) / self._seconds
        self._cost = cost = 0.001 * _sum(action * action)
        self._healthy = healthy
        slowed = np.minimum(np.maximum(self._qvel, self._low), self._high)
        _joined((self._position, slowed), out=observation)
        return velocity + healthy * 1.0 - float(cost), not healthy

    def _details(self) -> dict[str, Any]:
        return {
            "x_position": self._qpos[0],
            "z_distance_from_origin": self._qpos[1] - self._environment.init_qpos[1],
            "x_velocity": self._velocity,
            "reward_forward": self._velocity,
            "reward_ctrl": -self._cost,
            "reward_survive": self._healthy * 1.0,
        }


class HalfCheetah(_Runner):
    """HalfCheetah-v5."""

    def _outcome(self, action: np.ndarray, observation: np.ndarray) -> Outcome:
        x = self._qpos.item(0)
        self._velocity = velocity = (x - self._before[0]) / self._seconds
        self._cost = cost = 0.1 * _sum(action * action)
        _joined((self._position, self._qvel), out=observation)
        return velocity - float(cost), False

    def _details(self) -> dict[str, Any]:
        return {
            "x_position": self._qpos[0],
            "x_velocity": self._velocity,
            "reward_forward": self._velocity,
            "reward_ctrl": -self._cost,
        }


class Hopper(_Runner):
    """Hopper-v5."""

    def _outcome(self, action: np.ndarray, observation: np.ndarray) -> Outcome:
        x, z, *rest = self._qpos.tolist()
        healthy = 0.7 < z < math.inf and -0.2 < rest[0] < 0.2
        for value in (*rest, *self._qvel.tolist()):
            healthy = healthy and -100.0 < value < 100.0
        return self._finished(x, action, healthy, observation)


class Walker2d(_Runner):
    """Walker2d-v5."""

    def _outcome(self, action: np.ndarray, observation: np.ndarray) -> Outcome:
        x, z, angle, *_ = self._qpos.tolist()
        healthy = 0.8 < z < 2.0 and -1.0 < angle < 1.0
        return self._finished(x, action, healthy, observation)


class Swimmer(_MuJoCo):
    """Swimmer-v5."""

    def __init__(self, environment: Any):
        super().__init__(environment)
        self._place, self._angles = self._qpos[:2], self._qpos[2:]

    def _outcome(self, action: np.ndarray, observation: np.ndarray) -> Outcome:
        self._after = after = self._place.tolist()
        velocity = (after[0] - self._before[0]) / self._seconds
        self._cost = cost = 1e-4 * _sum(action * action)
        _joined((self._angles, self._qvel), out=observation)
        return velocity - float(cost), False

    def _details(self) -> dict[str, Any]:
        plane = self._plane()
        return {**plane, "reward_forward": plane["x_velocity"], "reward_ctrl": -self._cost}


class Ant(_MuJoCo):
    """Ant-v5; the contact forces are part of observation and reward."""

    AT_ONCE = 1  # each body's arrays fill much of a cache: side by side a step takes 2 % longer

    _contact_cost: Any

    def __init__(self, environment: Any):
        super().__init__(environment)
        self._place, self._position = self._body("torso")[:2], self._qpos[2:]
        self._external = self._data.cfrc_ext.reshape(-1)
        self._forces = np.empty_like(self._external)
        self._of_bodies = self._forces[6:]  # the world has no part in the observation
        self._low, self._high = np.full_like(self._forces, -1.0), np.full_like(self._forces, 1.0)

    def _outcome(self, action: np.ndarray, observation: np.ndarray) -> Outcome:
        self._contacts(self._model, self._data)
        self._after = after = self._place.tolist()
        velocity = (after[0] - self._before[0]) / self._seconds
        forces = self._forces
        np.maximum(self._external, self._low, out=forces)
        np.minimum(forces, self._high, out=forces)
        self._cost = cost = 0.5 * _sum(action * action)
        self._contact_cost = contact_cost = 5e-4 * _sum(forces * forces)
        values = self._qpos.tolist()
        healthy = 0.2 <= values[2] <= 1.0
        healthy = healthy and all(map(math.isfinite, (*values, *self._qvel.tolist())))
        _joined((self._position, self._qvel, self._of_bodies), out=observation)
        return velocity + healthy * 1.0 - float(cost + contact_cost), not healthy

    def _details(self) -> dict[str, Any]:
        plane = self._plane()
        values = self._qpos.tolist()
        finite = all(map(math.isfinite, (*values, *self._qvel.tolist())))
        return {
            **plane,
            "reward_forward": plane["x_velocity"],
            "reward_ctrl": -self._cost,
            "reward_contact": -self._contact_cost,
            "reward_survive": (finite and 0.2 <= values[2] <= 1.0) * 1.0,
        }


class _Humanoids(_MuJoCo):
    """The observation of the body of Humanoid and HumanoidStandup, and the squares of its costs."""

    AT_ONCE = 1  # as Ant: side by side a step takes 3 % longer

    _impact: float

    def __init__(self, environment: Any):
        super().__init__(environment)
        data = self._data
        self._forces = data.cfrc_ext.reshape(-1)
        self._parts = (
            self._qpos[2:],
            self._qvel,
            data.cinert[1:].reshape(-1),
            data.cvel[1:].reshape(-1),
            data.qfrc_actuator[6:],
            data.cfrc_ext[1:].reshape(-1),
        )

    def _costs(self) -> tuple[float, float]:
        """Return the costs of control and of contacts, the latter at most 10."""
        self._contacts(self._model, self._data)
        self._cost = cost = 0.1 * _sum(self._ctrl * self._ctrl)
        self._impact = min(float(5e-7 * _sum(self._forces * self._forces)), 10.0)
        return float(cost), self._impact

    def _tendons(self) -> dict[str, Any]:
        data = self._data
        return {
            "tendon_length": data.ten_length.copy(),
            "tendon_velocity": data.ten_velocity.copy(),
        }


class Humanoid(_Humanoids):
    """Humanoid-v5; its place is that of its centre of mass."""

    def __init__(self, environment: Any):
        super().__init__(environment)
        self._masses, self._bodies = self._model.body_mass, self._data.xipos
        self._mass = self._masses.sum()

    def advance(self, action: Any, observation: np.ndarray) -> Outcome:
        """Make the substeps of one action."""
        self._place = self._center()
        return super().advance(action, observation)

    def _center(self) -> np.ndarray:
        return (np.einsum("b,bj->j", self._masses, self._bodies) / self._mass)[:2]

    def _outcome(self, action: np.ndarray, observation: np.ndarray) -> Outcome:
        self._after = after = self._center().tolist()
        velocity = (after[0] - self._before[0]) / self._seconds
        cost, impact = self._costs()
        healthy = 1.0 < self._qpos.item(2) < 2.0
        _joined(self._parts, out=observation)
        return 1.25 * velocity + healthy * 5.0 - (cost + impact), not healthy

    def _details(self) -> dict[str, Any]:
        plane = self._plane()
        return {
            **plane,
            **self._tendons(),
            "reward_survive": (1.0 < self._qpos.item(2) < 2.0) * 5.0,
            "reward_forward": 1.25 * plane["x_velocity"],
            "reward_ctrl": -self._cost,
            "reward_contact": -self._impact,
        }


class HumanoidStandup(_Humanoids):
    """HumanoidStandup-v5."""

    def __init__(self, environment: Any):
        super().__init__(environment)
        self._substep_seconds = self._model.opt.timestep

    def _outcome(self, action: np.ndarray, observation: np.ndarray) -> Outcome:
        cost, impact = self._costs()
        _joined(self._parts, out=observation)
        return self._qpos.item(2) / self._substep_seconds - cost - impact + 1, False

    def _details(self) -> dict[str, Any]:
        return {
            "x_position": self._qpos[0],
            "y_position": self._qpos[1],
            "z_distance_from_origin": self._qpos[2] - self._environment.init_qpos[2],
            **self._tendons(),
            "reward_linup": self._qpos[2] / self._substep_seconds,
            "reward_quadctrl": -self._cost,
            "reward_impact": -self._impact,
        }


class InvertedDoublePendulum(_MuJoCo):
    """InvertedDoublePendulum-v5."""

    def __init__(self, environment: Any):
        super().__init__(environment)
        self._cart, self._angles = self._qpos[:1], self._qpos[1:]
        self._tip, self._force = self._data.site_xpos[0], self._data.qfrc_constraint[:1]
        self._low, self._high = np.full(4, -10.0), np.full(4, 10.0)

    def _outcome(self, action: np.ndarray, observation: np.ndarray) -> Outcome:
        limited = _joined((self._qvel, self._force))
        np.maximum(limited, self._low, out=limited)
        np.minimum(limited, self._high, out=limited)
        angles = self._angles
        _joined((self._cart, _sin(angles), _cos(angles), limited), out=observation)
        distance, speed, alive = self._rewards()
        return alive - distance - speed, not alive

    def _rewards(self) -> tuple[float, float, float]:
        """Return the penalties of distance and of velocity, and the bonus of not having fallen."""
        x, _, y = self._tip.tolist()
        _, first, second = self._qvel.tolist()
        distance = 0.01 * x**2 + (y - 2) ** 2
        return distance, 1e-3 * first**2 + 5e-3 * second**2, 0.0 if y <= 1 else 10.0

    def _details(self) -> dict[str, Any]:
        distance, speed, alive = self._rewards()
        return {
            "reward_survive": alive,
            "distance_penalty": -distance,
            "velocity_penalty": -speed,
        }


class InvertedPendulum(_MuJoCo):
    """InvertedPendulum-v5."""

    _stands: bool

    def _outcome(self, action: np.ndarray, observation: np.ndarray) -> Outcome:
        _joined((self._qpos, self._qvel), out=observation)
        x, angle, *speeds = observation.tolist()
        stands = abs(angle) <= 0.2 and all(map(math.isfinite, (x, *speeds)))
        self._stands = stands
        return int(stands), not stands

    def _details(self) -> dict[str, Any]:
        return {"reward_survive": int(self._stands)}


class Pusher(_MuJoCo):
    """Pusher-v5."""

    _near: float
    _far: float

    def __init__(self, environment: Any):
        super().__init__(environment)
        self._tips, self._object = self._body("tips_arm"), self._body("object")
        self._goal = self._body("goal")
        self._parts = (self._qpos[:7], self._qvel[:7], self._tips, self._object, self._goal)

    def _outcome(self, action: np.ndarray, observation: np.ndarray) -> Outcome:
        to_tips, to_goal = self._object - self._tips, self._object - self._goal
        self._near = near = -math.sqrt(to_tips.dot(to_tips)) * 0.5
        self._far = far = -math.sqrt(to_goal.dot(to_goal))
        self._cost = cost = -_sum(action * action) * 0.1
        _joined(self._parts, out=observation)
        return far + float(cost) + near, False

    def _details(self) -> dict[str, Any]:
        return {"reward_dist": self._far, "reward_ctrl": self._cost, "reward_near": self._near}


class Reacher(_MuJoCo):
    """Reacher-v5."""

    _far: float

    def __init__(self, environment: Any):
        super().__init__(environment)
        self._tip, self._target = self._body("fingertip"), self._body("target")
        self._angles, self._goal, self._speeds = self._qpos[:2], self._qpos[2:], self._qvel[:2]

    def _outcome(self, action: np.ndarray, observation: np.ndarray) -> Outcome:
        angles, to_target = self._angles, self._tip - self._target
        self._far = far = -math.sqrt(to_target.dot(to_target))
        self._cost = cost = -_sum(action * action)
        parts = (_cos(angles), _sin(angles), self._goal, self._speeds, to_target[:2])
        _joined(parts, out=observation)
        return far + float(cost), False

    def _details(self) -> dict[str, Any]:
        return {"reward_dist": self._far, "reward_ctrl": self._cost}
