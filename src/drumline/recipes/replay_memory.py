"""The memory that the driver's replay and its readers share."""

from drumline.buffers.replay import ReplayShape
from drumline.protocols import PublishedLayout
from drumline.runtime.shared_arrays import SharedArrays


def replay_memory(shape: ReplayShape) -> SharedArrays:
    """Return the arrays of a replay; raises with its flag if the machine has too little memory."""
    try:
        return SharedArrays.create(PublishedLayout(shape.layout()))
    except MemoryError as error:
        raise ValueError(f"{error}; that is --replay-size {shape.capacity}") from error
