"""TensorBoard's event format, written here: its own writer costs 0.4 s of imports at start-up."""

import struct
from datetime import UTC, datetime

# Imported by the recorder's thread at its first record, never before the first generation.
# protobuf makes these classes at import, where no type checker sees them.
from tensorboard.compat.proto.event_pb2 import (
    Event,  # pyright: ignore[reportAttributeAccessIssue]
)
from tensorboard.compat.proto.summary_pb2 import (
    Summary,  # pyright: ignore[reportAttributeAccessIssue]
)

from drumline.types import EvaluationRow, Metrics

_TIME = ("_seconds", "_per_second")
_ROLLOUT = ("episode", "env_steps", "score", "fitness", "replay_transitions")
"""Endings and beginnings of names in the groups time and rollout; all others are in train."""


def file_start() -> bytes:
    """Return the record that every event file starts with."""
    return _record(Event(wall_time=_now(), file_version="brain.Event:2").SerializeToString())


def scalars(step: int, metrics: Metrics) -> bytes:
    """Return one record with all metrics of an update, each under the tag of its group."""
    return _values(step, {tag_of(name): value for name, value in metrics.items()})


def evaluation(step: int, row: EvaluationRow) -> bytes:
    """Return one record with the returns and lengths of an evaluation."""
    returns, lengths = row.returns, row.lengths
    return _values(
        step,
        {
            "eval/return_mean": row.mean,
            "eval/return_min": min(returns),
            "eval/return_max": max(returns),
            "eval/length_mean": sum(lengths) / len(lengths),
            "eval/env_steps": row.env_steps,
            **{f"eval/info/{name}": mean for name, mean in row.info},
        },
    )


def tag_of(name: str) -> str:
    """Return a metric's tag: its group, which TensorBoard folds, and its name.

    >>> tag_of("episode_return_mean"), tag_of("policy_loss"), tag_of("update_seconds")
    ('rollout/episode_return_mean', 'train/policy_loss', 'time/update_seconds')
    """
    if name == "env_steps_evaluation":
        return f"eval/{name}"
    if name.endswith(_TIME):
        return f"time/{name}"
    return f"rollout/{name}" if name.startswith(_ROLLOUT) else f"train/{name}"


def _values(step: int, metrics: Metrics) -> bytes:
    values = [Summary.Value(tag=name, simple_value=float(value)) for name, value in metrics.items()]
    event = Event(wall_time=_now(), step=step, summary=Summary(value=values))
    return _record(event.SerializeToString())


def _record(data: bytes) -> bytes:
    """Return `data` with TFRecord framing: length, its checksum, data, its checksum."""
    header = struct.pack("<Q", len(data))
    return b"".join(
        (header, struct.pack("<I", checksum(header)), data, struct.pack("<I", checksum(data)))
    )


def checksum(data: bytes) -> int:
    """Return CRC-32C, masked as in TFRecord."""
    crc = 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _crc_of_byte(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = tuple(_crc_of_byte(byte) for byte in range(256))


def _now() -> float:
    return datetime.now(UTC).timestamp()
