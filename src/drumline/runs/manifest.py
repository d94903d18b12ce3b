"""The manifest of a checkpoint: a hash for every name, so that damage can be located."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec
import numpy as np

from drumline.runs.fingerprints import array_hash, little_endian
from drumline.runs.strict_json import check_fields, parsed
from drumline.types import State

FORMAT = 1

DTYPES = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
"""Dtypes that safetensors stores bit for bit."""


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_KINDS = {
    "format": int,
    "update": _Count,
    "tensors": dict[str, str],
    "counters": dict[str, str],
    "fingerprint": str,
    "chained": str,
    "lengths": dict[str, _Count],
    "extra": dict[str, Any],
    "state_sha256": str,
}
"""Keys of manifest.json, without the hash of the file itself."""


class Damage(Exception):
    """A damaged file and its fault; `read_checkpoint` adds the next command."""


@dataclass(frozen=True)
class Manifest:
    """Contents of manifest.json, without the hashes of the files."""

    update: int
    tensors: dict[str, str]
    """SHA-256 of every tensor."""
    counters: dict[str, str]
    """SHA-256 of every counter."""
    fingerprint: str
    chained: str
    lengths: dict[str, int]
    extra: dict[str, Any]

    @staticmethod
    def of(
        update: int, state: State, lengths: Mapping[str, int], extra: dict[str, Any], chained: str
    ) -> "Manifest":
        """Return the manifest of a state."""
        tensors, counters = _tensor_hashes(state), _counter_hashes(state)
        fingerprint = _overall(tensors, counters)
        return Manifest(update, tensors, counters, fingerprint, chained, dict(lengths), extra)


def state_fingerprint(state: State) -> str:
    """SHA-256 over all learned state: tensors (name, dtype, shape, bytes) and exact counters."""
    return _overall(_tensor_hashes(state), _counter_hashes(state))


def storable(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the tensors as stored; ValueError for a dtype that safetensors would change."""
    stored = {name: little_endian(array) for name, array in tensors.items()}
    for name, array in stored.items():
        if array.dtype.str[1:] not in DTYPES:
            raise ValueError(f"tensor {name!r} has dtype {array.dtype}, which cannot be stored")
    return stored


def render_counters(counters: Mapping[str, int | float]) -> bytes:
    """Return counters.json: integers in decimal, floats in hexadecimal, so that no bit is lost."""
    return _render({name: _exact(name, value) for name, value in sorted(counters.items())})


def read_counters(raw: bytes, manifest: Manifest) -> dict[str, int | float]:
    """Parse counters.json and compare each counter with its hash; raises Damage."""
    written = _parse(raw, "counters.json")
    _check("counters.json", written, dict.fromkeys(written, str))
    _same_names("counters.json", "counter", set(written), set(manifest.counters))
    for name, value in written.items():
        if _text_hash(str(value)) != manifest.counters[name]:
            raise Damage(f"counters.json, counter {name!r}: not the value in manifest.json")
    if _render(written) != raw:
        raise Damage("counters.json is not as it was written")
    try:
        return {name: _from_exact(value) for name, value in written.items()}
    except (ValueError, OverflowError) as error:
        raise Damage(f"counters.json: {error}") from error


def render_manifest(manifest: Manifest, tensors_file: bytes) -> bytes:
    """Return manifest.json, which ends with a hash of itself."""
    document = {
        "format": FORMAT,
        **asdict(manifest),
        "state_sha256": hashlib.sha256(tensors_file).hexdigest(),
    }
    return _render({**document, "manifest_sha256": _text_hash(json.dumps(document))})


def read_manifest(raw: bytes, number: int) -> tuple[Manifest, str]:
    """Return the manifest and the hash of the tensors file; Damage if its own hash differs."""
    document = _parse(raw, "manifest.json")
    if document.get("format", FORMAT) != FORMAT:
        raise Damage(f"manifest.json has format {document['format']!r}, not {FORMAT}")
    # Rendering again finds differences that parsing tolerates: white space, repeated keys, escapes.
    own_hash = document.pop("manifest_sha256", None)
    if unknown := sorted(set(document) ^ set(_KINDS)):
        raise Damage(f"manifest.json: {unknown[0]!r} is missing, or not known")
    _check("manifest.json", document, _KINDS)
    if own_hash != _text_hash(json.dumps(document)):
        raise Damage("manifest.json is not as it was written (its own SHA-256 differs)")
    if _render({**document, "manifest_sha256": own_hash}) != raw:
        raise Damage("manifest.json is not as it was written")
    document.pop("format")
    tensors_hash = document.pop("state_sha256")
    manifest = Manifest(**document)
    if manifest.update != number:
        raise Damage(f"manifest.json is that of checkpoint {manifest.update}")
    if manifest.fingerprint != _overall(manifest.tensors, manifest.counters):
        raise Damage("manifest.json: its fingerprint is not that of its tensors and counters")
    return manifest, tensors_hash


def verify_tensors(
    tensors: Mapping[str, np.ndarray], raw: bytes, manifest: Manifest, tensors_hash: str
) -> None:
    """Compare each tensor (to name it) and then the whole file with their hashes; raises Damage."""
    _same_names("state.safetensors", "tensor", set(tensors), set(manifest.tensors))
    for name, array in tensors.items():
        if array_hash(array) != manifest.tensors[name]:
            raise Damage(f"state.safetensors, tensor {name!r}: not the bytes in manifest.json")
    if hashlib.sha256(raw).hexdigest() != tensors_hash:
        raise Damage("state.safetensors is not as it was written (outside its tensors)")


def _overall(tensors: Mapping[str, str], counters: Mapping[str, str]) -> str:
    return _text_hash(json.dumps([sorted(tensors.items()), sorted(counters.items())]))


def _tensor_hashes(state: State) -> dict[str, str]:
    return {name: array_hash(array) for name, array in sorted(state.tensors.items())}


def _counter_hashes(state: State) -> dict[str, str]:
    exact = {name: _exact(name, value) for name, value in sorted(state.counters.items())}
    return {name: _text_hash(value) for name, value in exact.items()}


def _exact(name: str, value: int | float) -> str:
    if isinstance(value, float):
        return f"float {float(value).hex()}"
    if isinstance(value, int):
        return f"int {int(value)}"
    raise ValueError(f"counter {name!r} must be an int or a float, got {value!r}")


def _from_exact(text: str) -> int | float:
    kind, digits = text.split(" ")
    return float.fromhex(digits) if kind == "float" else int(digits)


def _same_names(file: str, kind: str, found: set[str], written: set[str]) -> None:
    for name in sorted(written - found):
        raise Damage(f"{file}: {kind} {name!r} is missing")
    for name in sorted(found - written):
        raise Damage(f"{file}: {kind} {name!r} is not in manifest.json")


def _text_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _render(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def _parse(raw: bytes, file: str) -> dict[str, Any]:
    try:
        return parsed(raw)
    except ValueError as error:
        raise Damage(f"{file} cannot be read ({error})") from error


def _check(file: str, document: dict[str, Any], kinds: dict[str, Any]) -> None:
    try:
        check_fields(document, kinds)
    except ValueError as error:
        raise Damage(f"{file}: {error}") from error
