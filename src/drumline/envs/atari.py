"""Atari through Gymnasium, with the same preprocessing as EnvPool.

84 × 84 grey frames, the brighter of the last two of four, up to 30 no-ops at the start, stacks of
four. Fire is never pressed automatically. Actions are repeated with the probability that the id
itself names (0.25).
"""

import importlib
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

    plain: Any = gymnasium.make(
        known, max_episode_steps=-1, disable_env_checker=True, frameskip=1, **options
    )
    return FrameStackObservation(AtariPreprocessing(plain, frame_skip=_FRAMES), STACK)
