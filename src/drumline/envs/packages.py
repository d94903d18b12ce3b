"""Installed packages that compute an environment's steps."""

import sys

_ENGINES = {
    "mujoco": ("mujoco",),
    "Box2D": ("box2d", "box2d-py"),
    "ale_py": ("ale-py", "opencv-python-headless", "opencv-python"),
}
"""Module → names under which it may be installed."""

_GYMNASIUM = {"gymnasium.envs.mujoco": "mujoco", "gymnasium.envs.box2d": "Box2D"}


def environment_packages(env_id: str, engine: str) -> tuple[str, ...]:
    """Return the packages besides Gymnasium whose versions influence an environment's bits.

    The environment must have been made in this process before, so that it is registered and
    imported.
    """
    if engine == "envpool":
        return ("envpool",)
    if ":" in env_id:
        # The packages of a factory are known only from the modules that its call has loaded.
        loaded = [name for module in _ENGINES if module in sys.modules for name in _ENGINES[module]]
        return (top_package(env_id), *loaded)
    import gymnasium

    entry = gymnasium.spec(env_id).entry_point
    place = entry if isinstance(entry, str) else getattr(entry, "__module__", "")
    for prefix, module in _GYMNASIUM.items():
        if place.startswith(prefix):
            return _ENGINES[module]
    top = top_package(place)
    return () if top in ("gymnasium", "") else _ENGINES.get(top, (top,))


def top_package(path: str) -> str:
    """Return the outermost package of `package.module:name`."""
    return path.partition(":")[0].partition(".")[0]
