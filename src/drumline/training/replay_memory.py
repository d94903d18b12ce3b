"""Memory that the driver's replay and its readers share, and its segments after a resume."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from drumline.buffers.replay import ReplayShape
from drumline.buffers.replay_archive import DamagedReplay
from drumline.protocols import PublishedLayout
from drumline.runs.checkpoint import Checkpoint
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.segments import read_segment
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
                "(--max-episode-steps), fewer at a time or a smaller --steps-per-update take less"
            )
        if shape.truncations >= shape.rows:
            why += (
                ", half of it for the last observations of episodes that the environment may cut: "
                "with --max-episode-steps it would take little"
            )
        raise ValueError(why) from error


@contextmanager
def segments_of(folder: RunFolder, checkpoint: Checkpoint) -> Generator[Callable[[str], bytes]]:
    """Return the reader of a checkpoint's replay segments; `RunError` for a damaged one."""
    try:
        yield lambda name: read_segment(folder, checkpoint, name)
    except DamagedReplay as error:
        raise RunError(
            f"{folder.shown} cannot go on: {error}; go on from an older checkpoint with "
            "--checkpoint, or start the run again with another --out"
        ) from error
