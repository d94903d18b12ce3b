"""policy-best and policy-last: one self-contained safetensors file each, and a JSON copy."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from drumline.runs.atomic_files import replace_file
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.manifest import storable

NAMES = ("best", "last")
_BEFORE = "before-best"
"""File of the previous best: a run's closing evaluation is no part of a longer run."""


class StoredPolicy(NamedTuple):
    """A policy as read: its tensors (observation moments included) and its description."""

    tensors: dict[str, np.ndarray]
    document: dict[str, Any]

    def named_code(self) -> list[str]:
        """Return the names in the description that refer to code outside of drumline."""
        policy = self.document["policy"]
        network = policy.get("network") or {}
        named = (self.document["environment"]["id"], policy.get("module"), network.get("network"))
        return [str(name) for name in named if ":" in str(name)]


def write_policy(
    folder: RunFolder, name: str, tensors: Mapping[str, np.ndarray], document: dict[str, Any]
) -> None:
    """Replace policy `name`. The description is in both files, so that they cannot disagree."""
    if name not in NAMES:
        raise ValueError(f"a policy is 'best' or 'last', got {name!r}")
    stored = storable(tensors)
    text = json.dumps({**document, "sha256": _digest(stored, document)}, indent=2)
    # One metadata entry: safetensors writes several in random order.
    data = safetensors.numpy.save(stored, metadata={"drumline": text})
    if name == "best":
        _copy(folder, "best", _BEFORE)
    replace_file(folder.policy_tensors(name), data)
    replace_file(folder.policy_json(name), (text + "\n").encode())


def read_policy(folder: RunFolder, name: str) -> StoredPolicy:
    """Read policy `name` from its safetensors file alone."""
    path = folder.policy_tensors(name)
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            document = json.loads(metadata["drumline"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - no dict
        written = document.pop("sha256", None)  # files of the earliest versions have no digest
        if written is not None and written != _digest(tensors, document):
            raise ValueError("not the bytes that were written")
    except FileNotFoundError as error:
        raise RunError(
            f"{folder.path} has no policy {name!r} yet ({path.name}); give another --policy"
        ) from error
    except (OSError, safetensors.SafetensorError, KeyError, ValueError) as error:
        raise RunError(f"{path} is damaged ({error}); give another --policy") from error
    return StoredPolicy(tensors, document)


def put_back_best(folder: RunFolder, mean: float) -> None:
    """Restore the best policy as of a checkpoint, given its mean, where a later one is on disk.

    Another later best policy stays: the resumed run makes it again.
    """
    if _mean(folder, "best") in (mean, None):
        return
    if _mean(folder, _BEFORE) == mean:
        _copy(folder, _BEFORE, "best")
    elif mean == -math.inf:
        for path in (folder.policy_json("best"), folder.policy_tensors("best")):
            path.unlink(missing_ok=True)


def _mean(folder: RunFolder, name: str) -> float | None:
    """Return the evaluation mean that made the policy the best; None if it has none."""
    try:
        return json.loads(folder.policy_json(name).read_bytes())["evaluation_mean"]
    except (OSError, ValueError, KeyError):
        return None


def _copy(folder: RunFolder, name: str, to: str) -> None:
    if folder.policy_tensors(name).exists() and folder.policy_json(name).exists():
        replace_file(folder.policy_tensors(to), folder.policy_tensors(name).read_bytes())
        replace_file(folder.policy_json(to), folder.policy_json(name).read_bytes())


def _digest(tensors: Mapping[str, np.ndarray], document: Mapping[str, Any]) -> str:
    """Return the digest of the description and of every tensor with its name."""
    digest = hashlib.sha256(json.dumps(document).encode())
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        digest.update(f"\n{name} {tensor.dtype.str} {tensor.shape}\n".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()
