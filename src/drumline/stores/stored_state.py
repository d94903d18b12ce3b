"""Manifests of a store: which files a run folder has at one moment, and in which objects they are.

A store has three kinds of objects: `drumline.json`, the claim of the driver that writes there;
`files/<path>/<offset>-<SHA-256>`, a piece of a file of the run folder, which is never written
again; and `manifests/<session>-<number>.json`, uploaded after all pieces that it names.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from drumline.runs.checkpoint import BEST_FILE, COUNTERS_FILE, MANIFEST_FILE, STATE_FILE
from drumline.runs.own_files import FILES
from drumline.runs.segments import is_segment
from drumline.runs.strict_json import LARGEST, check_fields, parsed

FORMAT = 1
PIECE = 8 << 20
"""Bytes of a piece; the last one of a file is shorter. A growing file is uploaded again from the
start of its last piece, so a checkpoint's upload is bounded by what is new and a piece a file."""

_CHECKPOINT_FILES = "|".join(map(re.escape, (STATE_FILE, COUNTERS_FILE, MANIFEST_FILE, BEST_FILE)))
_IN_CHECKPOINT = re.compile(rf"checkpoints/(\d{{1,18}})/({_CHECKPOINT_FILES})")
_NAME = re.compile(r"manifests/(\d{6,18})-(\d{8,18})\.json")
_HASH = re.compile(r"[0-9a-f]{64}")
_KINDS = {
    "format": int,
    "update": Annotated[int, msgspec.Meta(ge=0, le=2**62)],
    "files": dict[str, list[tuple[Annotated[int, msgspec.Meta(ge=1, le=PIECE)], str]]],
}


@dataclass(frozen=True)
class Piece:
    """A stretch of a file."""

    path: str
    offset: int
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """Return the name of the piece's object."""
        return f"files/{self.path}/{self.offset:012d}-{self.sha256}"


@dataclass(frozen=True)
class StoredState:
    """A run folder at one checkpoint, or after its end, as a store has it."""

    session: int
    """Number of drivers that have written to the store before."""
    number: int
    """Number of manifests of this session before."""
    update: int
    """Update of the newest checkpoint in it."""
    files: dict[str, list[tuple[int, str]]]
    """Path in the run folder → bytes and SHA-256 of each piece, in order."""

    @property
    def name(self) -> str:
        """Return the name of the manifest's object."""
        return manifest_name(self.session, self.number)

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(size for pieces in self.files.values() for size, _ in pieces)

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of all files."""
        for path in self.files:
            yield from self.pieces_of(path)

    def pieces_of(self, path: str) -> Iterator[Piece]:
        """Yield the pieces of one file by offset."""
        offset = 0
        for size, sha256 in self.files[path]:
            yield Piece(path, offset, size, sha256)
            offset += size

    def rendered(self) -> bytes:
        """Return the manifest's bytes, which end with a hash of themselves."""
        document: dict[str, Any] = {"format": FORMAT, "update": self.update, "files": self.files}
        return (json.dumps({**document, "sha256": _own_hash(document)}) + "\n").encode()


def manifest_name(session: int, number: int) -> str:
    """Return the name of a manifest's object.

    >>> manifest_name(1, 23)
    'manifests/000001-00000023.json'
    """
    return f"manifests/{session:06d}-{number:08d}.json"


def place_of(name: str) -> tuple[int, int] | None:
    """Return session and number of a manifest's name; None for any other name."""
    found = _NAME.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def read_state(name: str, raw: bytes) -> StoredState:
    """Parse a manifest; ValueError if it is not as it was written, or names what no run folder has.

    The store may be a stranger's, so only the names of drumline's own files are let through.
    """
    place = place_of(name)
    if place is None:
        raise ValueError(f"{name} is no manifest's name")
    document = parsed(raw)
    own_hash = document.pop("sha256", None)
    if set(document) != set(_KINDS):
        raise ValueError("it has other keys than a manifest's")
    check_fields(document, _KINDS)
    if document["format"] != FORMAT:
        raise ValueError(f"it has format {document['format']!r}, this drumline reads {FORMAT}")
    if own_hash != _own_hash(document):
        raise ValueError("it is not as it was written (its own SHA-256 differs)")
    for path, pieces in document["files"].items():
        if not is_run_file(path):
            raise ValueError(f"it names {path!r}, which is no file of a run folder")
        if any(_HASH.fullmatch(sha256) is None for _, sha256 in pieces):
            raise ValueError(f"it names a piece of {path} by no SHA-256")
    files = {path: [(size, h) for size, h in pieces] for path, pieces in document["files"].items()}
    return StoredState(*place, document["update"], files)


def is_run_file(path: str) -> bool:
    """Return whether a path is that of a file which drumline writes in a run folder.

    >>> is_run_file("checkpoints/12/manifest.json"), is_run_file("checkpoints/../config.json")
    (True, False)
    """
    return path in FILES or is_segment(path) or _IN_CHECKPOINT.fullmatch(path) is not None


def _own_hash(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


MANIFEST_LIMIT = LARGEST
"""Bytes of the largest manifest that is read: one of 10 TB would fit."""
