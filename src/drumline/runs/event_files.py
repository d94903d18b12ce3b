"""TensorBoard's event files, as any library writes them, a record in memory at a time."""

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drumline.runs.own_files import opened
from drumline.runs.run_error import RunError

MOST_BYTES = 1 << 26
"""Largest record that is read; larger ones hold videos, and are passed over."""


def events(files: Sequence[Path]) -> Iterator[Any]:
    """Yield the events of some files in turn; RunError for a damaged one.

    An incomplete last record, of a run that goes on or was killed, is left out.
    """
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import (
        Event,  # pyright: ignore[reportAttributeAccessIssue]
    )

    for path in files:
        for record in _records(path):
            try:
                yield Event.FromString(record)
            except DecodeError as error:
                raise RunError(f"{path} is damaged: a record is no event") from error


def _records(path: Path) -> Iterator[bytes]:
    from drumline.runs.tensorboard_events import checksum

    with os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        while len(header := file.read(12)) == 12:
            (length,), (sum_of,) = struct.unpack("<Q", header[:8]), struct.unpack("<I", header[8:])
            if checksum(header[:8]) != sum_of:
                raise RunError(f"{path} is damaged: a record's length has a wrong checksum")
            if file.tell() + length + 4 > size:
                return
            if length > MOST_BYTES:
                file.seek(length + 4, os.SEEK_CUR)
                continue
            yield file.read(length + 4)[:-4]
