"""Choice between a task's own step and a lean one, by versions and a comparison at the start."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import Any, NamedTuple

import numpy as np

from drumline import seeding
from drumline.envs.lean_classic import Acrobot, CartPole, MountainCar, Pendulum
from drumline.envs.lean_mujoco import (
    Ant,
    HalfCheetah,
    Hopper,
    Humanoid,
    HumanoidStandup,
    InvertedDoublePendulum,
    InvertedPendulum,
    Pusher,
    Reacher,
    Swimmer,
    Walker2d,
)
from drumline.envs.lean_steps import LeanEnvironment

_MUJOCO, _CLASSIC = "gymnasium.envs.mujoco", "gymnasium.envs.classic_control"
LEAN: dict[str, type[LeanEnvironment]] = {
    f"{_MUJOCO}.ant_v5:AntEnv": Ant,
    f"{_MUJOCO}.half_cheetah_v5:HalfCheetahEnv": HalfCheetah,
    f"{_MUJOCO}.hopper_v5:HopperEnv": Hopper,
    f"{_MUJOCO}.humanoid_v5:HumanoidEnv": Humanoid,
    f"{_MUJOCO}.humanoidstandup_v5:HumanoidStandupEnv": HumanoidStandup,
    f"{_MUJOCO}.inverted_double_pendulum_v5:InvertedDoublePendulumEnv": InvertedDoublePendulum,
    f"{_MUJOCO}.inverted_pendulum_v5:InvertedPendulumEnv": InvertedPendulum,
    f"{_MUJOCO}.pusher_v5:PusherEnv": Pusher,
    f"{_MUJOCO}.reacher_v5:ReacherEnv": Reacher,
    f"{_MUJOCO}.swimmer_v5:SwimmerEnv": Swimmer,
    f"{_MUJOCO}.walker2d_v5:Walker2dEnv": Walker2d,
    f"{_CLASSIC}.acrobot:AcrobotEnv": Acrobot,
    f"{_CLASSIC}.cartpole:CartPoleEnv": CartPole,
    f"{_CLASSIC}.mountain_car:MountainCarEnv": MountainCar,
    f"{_CLASSIC}.pendulum:PendulumEnv": Pendulum,
}
"""Lean environments by the entry point that Gymnasium registers.

MountainCarContinuous has none: most of its step is float32 arithmetic that has to stay.
"""

TESTED = {
    "gymnasium": ("1.1.1", "1.2.3", "1.3.0", "1.4.0"),
    "mujoco": ("3.3.7", "3.5.0", "3.6.0", "3.17.0", "4.0.0"),
}
"""Versions with which `tests/envs/test_lean_steps.py` has passed, beside one of the other list."""

COMPARED_STEPS = 64
"""Steps that a process compares before it takes a lean step."""

LEAN_PATH = "Drumline's lean step"
GYMNASIUM_PATH = "Gymnasium's own step"
OWN_PATH = "the environment's own step"
DIFFERS = f"{GYMNASIUM_PATH}: the lean step differs"
"""Beginning of the words for a lean step that is left out because of its bits."""


class StepChoice(NamedTuple):
    """The lean environment of a task, or None; `words` are recorded in config.json."""

    lean: type[LeanEnvironment] | None
    words: str


def step_choice(known: Any, options: dict[str, Any]) -> StepChoice:
    """Return the choice for a registered environment with these options of its constructor."""
    entry = known.entry_point
    if not isinstance(entry, str) or entry not in LEAN:
        own = isinstance(entry, str) and entry.startswith("gymnasium.")
        return StepChoice(None, GYMNASIUM_PATH if own else OWN_PATH)
    arguments = {**known.kwargs, **options}
    if arguments or known.additional_wrappers:
        return StepChoice(None, f"{GYMNASIUM_PATH}: the task has arguments or wrappers of its own")
    return _compared(entry)


def step_path(env_id: str, engine: str, arguments: Mapping[str, Any] | None = None) -> str:
    """Return the words for the steps of an environment that has been made in this process.

    `arguments` are those of its constructor that the config gives.
    """
    if engine == "envpool":
        return "EnvPool's own step"
    import gymnasium

    registered = env_id.partition(":")[2] or env_id
    if registered not in gymnasium.registry:
        return OWN_PATH
    own = dict(arguments or {})
    own.pop("max_episode_steps", None)  # counted outside of the environment
    return step_choice(gymnasium.registry[registered], own).words


@cache
def _compared(entry: str) -> StepChoice:
    """Return the lean environment of an entry point if it is equal here and now."""
    packages = ("gymnasium", "mujoco") if ".mujoco." in entry else ("gymnasium",)
    for package in packages:
        if (found := _version(package)) not in TESTED[package]:
            words = f"{GYMNASIUM_PATH}: {package} {found} is not among the tested versions"
            return StepChoice(None, words)
    lean = LEAN[entry]
    if place := difference(entry, lean):
        return StepChoice(None, f"{DIFFERS} {place}")
    return StepChoice(lean, LEAN_PATH)


def _version(package: str) -> str:
    try:
        return package_version(package)
    except PackageNotFoundError:
        return "of no known version"


def difference(entry: str, lean: type[LeanEnvironment]) -> str:
    """Return the first step and part in which both paths differ; empty if they are equal."""
    from gymnasium.envs.registration import load_env_creator

    environment: Any = load_env_creator(entry)()
    try:
        theirs = list(_steps(environment, environment.step))
        try:
            ours = list(_steps(environment, lean(environment).step))
        except Exception as error:  # noqa: BLE001 - an unknown version may break any assumption
            return f"(it raised {type(error).__name__}: {error})"
    finally:
        environment.close()
    for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
        for name in one._fields:
            if getattr(one, name) != getattr(other, name):
                return f"in the {name} of step {number}"
    return ""


class _Bits(NamedTuple):
    observation: bytes
    form: str
    reward: bytes
    end: tuple[bool, bool]


def _steps(environment: Any, step: Callable[[Any], Any]) -> Iterator[_Bits]:
    """Yield the bits of the steps that are compared; episodes that end are followed by others."""
    rng = seeding.generator(0, "lean-steps")
    space = environment.action_space
    environment.reset(seed=0)
    for number in range(COMPARED_STEPS):
        if hasattr(space, "n"):
            action: Any = int(rng.integers(space.n))
        else:
            action = rng.uniform(space.low, space.high).astype(space.dtype)
        observation, reward, terminated, truncated, _ = step(action)
        form = f"{observation.dtype.str}{observation.shape}"
        bits = np.float64(reward).tobytes()
        yield _Bits(observation.tobytes(), form, bits, (bool(terminated), bool(truncated)))
        if terminated or truncated:
            environment.reset(seed=number + 1)
