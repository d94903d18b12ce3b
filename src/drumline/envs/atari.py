"""Atari through Gymnasium, with the same preprocessing as EnvPool.

84 × 84 grey frames, the brighter of the last two of four, up to 30 no-ops at the start, stacks of
four. Fire is pressed at the start of an episode, in games that have it, as EnvPool does; never
after a lost life, and not at all with the option `fire_reset` false. Actions are repeated with the
probability that the id itself names (0.25).
"""

import importlib
from functools import cache
from typing import Any

from drumline.envs.environment import Environment, EnvironmentProblem

STACK = 4
_FRAMES = 4


def register(env_id: str) -> None:
    """Register the ids of `ale-py` with Gymnasium."""
    import gymnasium

    try:
        ale_py = importlib.import_module("ale_py")
        importlib.import_module("cv2")
    except ImportError as error:
        game = env_id.removeprefix("ALE/")
        raise EnvironmentProblem(
            f"{env_id} needs the extra atari (ale-py, which is GPL-2.0, and OpenCV): "
            f"pip install 'drumline[atari]'; EnvPool has the game without it, as {game}"
        ) from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no banner in every process
    gymnasium.register_envs(ale_py)


def make(known: Any, options: dict[str, Any]) -> Environment:
    """Return the environment of a registered id with its frames selected, resized and stacked."""
    import gymnasium
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    options = dict(options)
    if "frameskip" in options:
        raise EnvironmentProblem(
            f"ALE games are played with a frame skip of {_FRAMES}: EnvPool's ids take another, as "
            "in --env-kwargs '{\"frame_skip\": 2}', and --frame-skip repeats each action"
        )
    fire = options.pop("fire_reset", True)
    plain: Any = gymnasium.make(
        known, max_episode_steps=-1, disable_env_checker=True, frameskip=1, **options
    )
    frames: Any = AtariPreprocessing(plain, frame_skip=_FRAMES)
    if fire and "FIRE" in plain.unwrapped.get_action_meanings():
        frames = _fire_reset()(frames)
    return FrameStackObservation(frames, STACK)


@cache
def _fire_reset() -> Any:
    import gymnasium

    class FireReset(gymnasium.Wrapper[Any, Any, Any, Any]):
        """Presses fire once after each reset."""

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            """Start an episode; one that fire ends is started again, without the seed."""
            self.env.reset(seed=seed, options=options)
            meanings: list[str] = self.env.unwrapped.get_action_meanings()  # pyright: ignore
            observation, _, terminated, truncated, info = self.env.step(meanings.index("FIRE"))
            if terminated or truncated:
                return self.env.reset(options=options)
            return observation, info

    return FireReset
