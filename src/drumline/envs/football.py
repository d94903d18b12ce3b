"""Google Research Football's checkpoint reward, computed from EnvPool's minimaps.

EnvPool itself rewards goals only. The checkpoint reward pays 0.1 for each of ten distances to the
opponent's goal that the ball first comes within while the own team owns it. A goal pays the rest of
the ten (Kurach et al. 2020, "scoring, checkpoints").

The ball is read from the 72 × 96 minimap: its place is the centre of a pixel, within ±0.0105 in
length and ±0.0062 in width of the pitch's own units. EnvPool does not say which player is active,
so any owner of the own team counts.
"""

import numpy as np

CHECKPOINTS = 10
REWARD = 0.1
_BALL_PLANE = 2
_HALF_WIDTH = 1 / 2.25
_FARTHEST, _SPAN = 0.99, 0.8


def goal_distance(observations: np.ndarray) -> np.ndarray:
    """Return the ball's distance `[m]` to the goal's middle (1, 0) from minimaps `[m, H, W, 4]`."""
    count, height, width, _ = observations.shape
    place = observations[..., _BALL_PLANE].reshape(count, -1).argmax(axis=1)
    x = (place % width + 0.5) / width * 2.0 - 1.0
    y = ((place // width + 0.5) / height * 2.0 - 1.0) * _HALF_WIDTH
    return np.hypot(x - 1.0, y)


def checkpoints_within(distance: np.ndarray) -> np.ndarray:
    """Return how many of the ten distances 0.99 − c · 0.8 / 9 are not below `distance`."""
    thresholds = _FARTHEST - _SPAN / (CHECKPOINTS - 1) * np.arange(CHECKPOINTS)
    return (distance[:, None] <= thresholds).sum(axis=1)


def no_checkpoints(env_id: str) -> str:
    """Return the message for environments without checkpoints."""
    return (
        f"--reward scoring-checkpoints is for EnvPool's gfootball/… ids, not for {env_id!r}; "
        "leave the flag away"
    )


class Checkpoints:
    """Number of checkpoints that each lane's running episode has collected."""

    def __init__(self, count: int):
        self._collected = np.zeros(count, np.int64)

    def start(self, lanes: np.ndarray) -> None:
        """Reset the counts of these lanes, whose episodes have ended."""
        self._collected[lanes] = 0

    def rewards(
        self, lanes: np.ndarray, observations: np.ndarray, owner: np.ndarray, goals: np.ndarray
    ) -> np.ndarray:
        """Return goals plus checkpoints; `owner` is the team with the ball, 0 the own team."""
        before = self._collected[lanes]
        reached = np.where(owner == 0, checkpoints_within(goal_distance(observations)), 0)
        after = np.maximum(before, np.where(goals == 1, CHECKPOINTS, reached))
        self._collected[lanes] = after
        return (goals + REWARD * (after - before)).astype(np.float32)
