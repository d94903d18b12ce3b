"""The memory that the driver's replay and its readers share."""

from drumline.buffers.replay import ReplayShape
from drumline.protocols import PublishedLayout
from drumline.runtime.shared_arrays import SharedArrays


def replay_memory(shape: ReplayShape) -> SharedArrays:
    """Return the arrays of a replay; raises with its flag if the machine has too little memory."""
    try:
        return SharedArrays.create(PublishedLayout(shape.layout()))
    except MemoryError as error:
        why = f"{error}; that is --replay-size {shape.capacity}"
        if shape.slack > shape.capacity:
            why += (
                f", beside which {shape.slack} rows are for what is on its way: shorter episodes "
                "(max_episode_steps), fewer at a time or a smaller --steps-per-update take less"
            )
        if shape.truncations >= shape.rows:
            why += (
                ", half of it for the last observations of episodes that the environment may cut: "
                "with max_episode_steps it would take little"
            )
        raise ValueError(why) from error
