"""Frame stacks: frames stored once and stacked when they are read.

An environment's frames are on a tape in the order in which the engine returned them. A step of an
episode adds one frame. An episode's first observation adds one frame too. It adds two if its stack
still holds older frames (EnvPool after a lost life: measured; after a real reset the stack repeats
the first frame instead), because the last frame of the ended episode is in the stack but in no row.
A truncated episode adds its last frame as well, because its value is bootstrapped. Each row stores
its position on the tape and its reach: the number of earlier frames that its stack may hold.
"""

from typing import NamedTuple

import numpy as np

from drumline.types import StackedFrames


class Row(NamedTuple):
    """Position of rows on their environments' tapes; arrays `[m]`."""

    position: np.ndarray
    reach: np.ndarray


def keeps_old_frames(stacks: np.ndarray) -> np.ndarray:
    """Return which first observations `[m, depth, ...]` hold frames from before the episode."""
    flat = stacks.reshape(*stacks.shape[:2], -1)
    return (flat[:, :-1] != flat[:, -1:]).any(axis=(1, 2))


def follow(
    before: Row, started: np.ndarray, kept: np.ndarray, truncated: np.ndarray, depth: int
) -> Row:
    """Return the rows after `before`; `started` and `kept` `[m]`: a new episode, its old frames.

    If old frames are kept or the episode was truncated, its last frame is at `position - 1`.
    """
    added = 1 + (started & (kept | truncated))
    fresh = started & ~kept
    reach = np.where(fresh, 0, np.minimum(before.reach + added, depth - 1))
    return Row(before.position + added, reach.astype(before.reach.dtype))


def stack_indices(position: np.ndarray, reach: np.ndarray, depth: int) -> np.ndarray:
    """Return the tape positions `[..., depth]` of each row's stack, oldest first.

    Frames beyond the reach are replaced by the oldest within it: position − min(age, reach).
    """
    age = np.arange(depth - 1, -1, -1)
    return position[..., None] - np.minimum(age, reach[..., None])


def split(observations: np.ndarray, depth: int) -> np.ndarray:
    """Return observations `[m, depth · C, ...]` as stacks `[m, depth, C, ...]`, oldest first."""
    count, channels, *rest = observations.shape
    return observations.reshape(count, depth, channels // depth, *rest)


def stacked(frames: StackedFrames) -> np.ndarray:
    """Return whole observations `[..., depth · C, ...]`."""
    found = frames.frames[frames.indices]
    rows = found.shape[: frames.indices.ndim - 1]
    depth, channels, *rest = found.shape[len(rows) :]
    return found.reshape(*rows, depth * channels, *rest)


def whole(observations: np.ndarray | StackedFrames) -> np.ndarray:
    """Return whole observations from either form of storage."""
    return stacked(observations) if isinstance(observations, StackedFrames) else observations
