"""policy-best and policy-last: one self-contained safetensors file each, and a JSON copy."""

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from drumline.runs.atomic_files import replace_file
from drumline.runs.checkpoint import best_policy_file
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.manifest import storable
from drumline.runs.named_code import code_of_policy
from drumline.runs.own_files import is_there, read_file
from drumline.runs.strict_json import check_fields, parsed

NAMES = ("best", "last")
_KINDS: dict[str, dict[str, Any]] = {
    "environment": {"id": str, "options": dict[str, Any]},
    "policy": {"module": str | None, "network": dict[str, Any]},
    "critics": {"hidden": list[int], "activation": str, "discount": float, "frame_skip": int},
    "objective": {
        "function": str,
        "module": str | None,
        "tensors": list[tuple[str, list[int]]],
    },
}
"""Types of what is read in a description before its sizes are compared with the tensors."""
_BEFORE = "before-best"
"""File of the previous best in folders of v0.1, whose checkpoints have no best policy."""
_UNREADABLE = (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError)


class StoredPolicy(NamedTuple):
    """A policy as read: its tensors (observation moments included) and its description."""

    tensors: dict[str, np.ndarray]
    document: dict[str, Any]
    path: Path
    """The file, for messages: in a run folder as the user gave it."""

    @property
    def objective(self) -> dict[str, Any]:
        """Return the description of the objective; empty where an environment is described."""
        return self.document.get("objective", {})

    def named_code(self) -> list[str]:
        """Return the names in the description that refer to code outside of drumline."""
        return code_of_policy(self.document)


def write_policy(
    folder: RunFolder, name: str, tensors: Mapping[str, np.ndarray], document: dict[str, Any]
) -> None:
    """Replace policy `name`. The description is in both files, so that they cannot disagree."""
    if name not in NAMES:
        raise ValueError(f"a policy is 'best' or 'last', got {name!r}")
    data, text = encoded_policy(tensors, document)
    replace_file(folder.policy_tensors(name), data)
    replace_file(folder.policy_json(name), (text + "\n").encode())


def policy_description(
    method: str,
    described: Mapping[str, Any],
    *,
    update: int,
    evaluation_mean: float | None,
    env_steps: int | None = None,
) -> dict[str, Any]:
    """Return the description from which environment and policy, or an objective, are made again."""
    return {
        "format": 1,
        "method": method,
        **described,
        "update": update,
        **({} if env_steps is None else {"env_steps": env_steps}),
        "evaluation_mean": evaluation_mean,
    }


def encoded_policy(
    tensors: Mapping[str, np.ndarray], document: Mapping[str, Any]
) -> tuple[bytes, str]:
    """Return the bytes of a policy file, and its description as text.

    Parameters of an objective's module have names there (`objective.tensors` of the description).
    """
    stored = storable(_named(tensors, document))
    text = json.dumps({**document, "sha256": _digest(stored, document)}, indent=2)
    # One metadata entry: safetensors writes several in random order.
    return safetensors.numpy.save(stored, metadata={"drumline": text}), text


def read_policy(folder: RunFolder, name: str) -> StoredPolicy:
    """Read policy `name` from its safetensors file alone."""
    path = folder.policy_tensors(name)
    try:
        return _read(path)[0]._replace(path=Path(folder.shown, path.name))
    except FileNotFoundError as error:
        other = "last" if name == "best" else "best"
        there = folder.policy_tensors(other).exists()
        when = "its first evaluation" if name == "best" else "its end or a stop"
        raise RunError(
            f"{folder.shown} has no policy {name!r} until {when} ({path.name}); "
            + (f"--policy {other} is there" if there else "it has none yet")
        ) from error
    except _UNREADABLE as error:
        raise RunError(f"{path} is damaged ({error}); give another --policy") from error


def saved_policies(folder: RunFolder) -> list[StoredPolicy]:
    """Return the policies of a folder that are there and can be read."""
    found: list[StoredPolicy] = []
    for name in NAMES:
        with suppress(RunError):
            found.append(read_policy(folder, name))
    return found


def read_policy_file(path: Path) -> StoredPolicy:
    """Read a policy file that lies anywhere."""
    try:
        return _read(path)[0]
    except _UNREADABLE as error:
        raise RunError(f"cannot read the policy {path} ({error}); give another --policy") from error


def policy_from(data: bytes, path: Path) -> StoredPolicy:
    """Return the policy in a file's bytes; `path` is its name in messages."""
    try:
        return _parsed(data, path)[0]
    except _UNREADABLE as error:
        raise RunError(f"cannot read the policy {path} ({error}); give another file") from error


def put_back_best(folder: RunFolder, checkpoint: int, mean: float) -> None:
    """Make the best policy that of a checkpoint, given its mean; -inf: it had none.

    A later best policy is of a branch that the resumed run leaves. A kill may have come between a
    policy's two files, so the description is written again. Checkpoints of v0.1 hold no policy:
    there the best policy stays, or the one before it is put back, whichever has the mean.
    """
    if mean == -math.inf:
        for path in (folder.policy_json("best"), folder.policy_tensors("best")):
            path.unlink(missing_ok=True)
        return
    own, before = folder.policy_tensors("best"), folder.policy_tensors(_BEFORE)
    for path in (best_policy_file(folder, checkpoint), own, before):
        try:
            stored, text = _read(path)
        except _UNREADABLE:
            continue
        if stored.document.get("evaluation_mean") == mean:
            _put_in_place(folder.policy_tensors("best"), read_file(path))
            _put_in_place(folder.policy_json("best"), (text + "\n").encode())
            return
    if is_there(best_policy_file(folder, checkpoint)):
        raise RunError(
            f"{best_policy_file(folder, checkpoint)} is damaged, and no other policy of the run "
            f"has its mean {mean:g}: go on from another --checkpoint"
        )


def _put_in_place(path: Path, data: bytes) -> None:
    if not is_there(path) or read_file(path) != data:
        replace_file(path, data)


def _read(path: Path) -> tuple[StoredPolicy, str]:
    """Return a policy and its description as text; one of `_UNREADABLE` if that fails."""
    return _parsed(read_file(path), path)


def _parsed(raw: bytes, path: Path) -> tuple[StoredPolicy, str]:
    tensors = safetensors.numpy.load(raw)
    text = _metadata(raw)["drumline"]
    document = parsed(text)
    check_fields(document, dict.fromkeys(_KINDS, dict[str, Any]))
    for name, kinds in _KINDS.items():
        check_fields(document.get(name, {}), kinds)
    written = document.pop("sha256", None)  # files of the earliest versions have no digest
    if written is not None and written != _digest(tensors, document):
        raise ValueError("not the bytes that were written")
    return StoredPolicy(_flat(tensors, document), document, path), text


def _named(
    tensors: Mapping[str, np.ndarray], document: Mapping[str, Any]
) -> Mapping[str, np.ndarray]:
    """Return tensors with the vector of parameters cut into those that the description names."""
    shapes = _shapes(document)
    if not shapes:
        return tensors
    named = {name: array for name, array in tensors.items() if name != "parameters"}
    start = 0
    for name, shape in shapes:
        size = math.prod(shape)
        named[name] = tensors["parameters"][start : start + size].reshape(shape)
        start += size
    return named


def _flat(tensors: dict[str, np.ndarray], document: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return tensors with the named parameters as one vector; ValueError if one is not there."""
    shapes = _shapes(document)
    if not shapes:
        return tensors
    parts: list[np.ndarray] = []
    for name, shape in shapes:
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != shape or tensor.dtype != np.float32:
            raise ValueError(f"no tensor {name!r} of shape {list(shape)}")
        parts.append(tensor.ravel())
    rest = {name: array for name, array in tensors.items() if name not in dict(shapes)}
    return {**rest, "parameters": np.concatenate(parts)}


def _shapes(document: Mapping[str, Any]) -> list[tuple[str, tuple[int, ...]]]:
    named = document.get("objective", {}).get("tensors", ())
    return [(name, tuple(shape)) for name, shape in named]


def _metadata(raw: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors file whose header the library has accepted."""
    (length,) = struct.unpack_from("<Q", raw)
    return parsed(raw[8 : 8 + length]).get("__metadata__", {})


def _digest(tensors: Mapping[str, np.ndarray], document: Mapping[str, Any]) -> str:
    """Return the digest of the description and of every tensor with its name."""
    digest = hashlib.sha256(json.dumps(document).encode())
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        digest.update(f"\n{name} {tensor.dtype.str} {tensor.shape}\n".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()
