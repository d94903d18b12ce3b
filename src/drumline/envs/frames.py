"""Frame stacks stored once per frame and stacked when they are read.

A lane's frames lie on a tape in the order in which the engine saw them. A step of an episode adds
one frame. An episode's first observation adds one too; where its stack still holds older frames
(EnvPool after a lost life: measured; after a real reset it repeats the first frame instead) it
adds two, because the last frame of the ended episode is in the stack and is no row of the stream.
Each row stores its position on the tape and its reach: how many earlier frames its stack may hold.
"""

from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    """Where one row of the stream lies on its lane's tape; arrays `[m]`."""

    position: np.ndarray
    reach: np.ndarray


def keeps_old_frames(stacks: np.ndarray) -> np.ndarray:
    """Return which first observations `[m, depth, ...]` hold frames from before the episode."""
    flat = stacks.reshape(*stacks.shape[:2], -1)
    return (flat[:, :-1] != flat[:, -1:]).any(axis=(1, 2))


def follow(before: Row, started: np.ndarray, kept: np.ndarray, depth: int) -> Row:
    """Return the rows after `before`; `started` and `kept` `[m]`: a new episode, its old frames.

    Where both, the frame before the newest of the observation goes to `position - 1`.
    """
    added = 1 + (started & kept)
    fresh = started & ~kept
    reach = np.where(fresh, 0, np.minimum(before.reach + added, depth - 1))
    return Row(before.position + added, reach.astype(before.reach.dtype))


def stack_indices(position: np.ndarray, reach: np.ndarray, depth: int) -> np.ndarray:
    """Return the tape positions `[..., depth]` of each row's stack, oldest first.

    What lies beyond the reach is the oldest frame within it: position − min(age, reach).
    """
    age = np.arange(depth - 1, -1, -1)
    return position[..., None] - np.minimum(age, reach[..., None])


def stack(frames: np.ndarray, position: np.ndarray, reach: np.ndarray, depth: int) -> np.ndarray:
    """Return stacks `[..., depth, ...]` from one lane's tape `[F, ...]`; rows `[...]`."""
    return frames[stack_indices(position, reach, depth)]
