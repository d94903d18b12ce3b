"""The trained policy that a run starts from: how config.json names it, and the run's own copy.

It is recorded as `FILE#DIGEST`, so that another file in its place is noticed, and its bytes are
copied into the run folder, so that the run can be resumed and repeated without FILE.
"""

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from drumline.runs.atomic_files import replace_file
from drumline.runs.folder import RunFolder
from drumline.runs.own_files import is_there, read_file
from drumline.runs.policy_files import StoredPolicy, policy_from
from drumline.runs.run_error import RunError
from drumline.runs.typed_paths import typed

_RECORDED = re.compile(r"(?P<file>.+)#(?P<digest>[0-9a-f]{16})", re.DOTALL)
_OWN = "start"


def recorded(name: str) -> str:
    """Return how a run records a policy file, or a run whose best policy (or last) is meant."""
    if _RECORDED.fullmatch(name):
        return name
    path = Path(name)
    if path.suffix != ".safetensors" and not is_there(typed(path)):
        path = _policy_of(RunFolder.open(name))
    return f"{path}#{_digest(_bytes(path))}"


def shown(name: str) -> str:
    """Return the file, or the run, of a name without its digest.

    >>> shown("runs/first/policy-best.safetensors#0123456789abcdef")
    'runs/first/policy-best.safetensors'
    """
    found = _RECORDED.fullmatch(name)
    return found["file"] if found else name


def start_policy(name: str) -> StoredPolicy:
    """Return the policy of a recorded name; RunError if its bytes are others now."""
    path, data = _found(name)
    return policy_from(data, path)


def keep_start(folder: RunFolder, name: str) -> None:
    """Copy the policy of a recorded name into a run folder, unless the copy is there."""
    own = folder.policy_tensors(_OWN)
    if not is_there(own):
        replace_file(own, _found(name)[1])


def own_start(folder: RunFolder, name: str) -> str:
    """Return a recorded name with the run's own copy in place of the file, if it has one."""
    return own_start_at(folder.path, name)


def own_start_at(folder: Path, name: str) -> str:
    """Return the same for a run folder that is not opened."""
    found = _RECORDED.fullmatch(name)
    own = folder / f"policy-{_OWN}.safetensors"
    return f"{own}#{found['digest']}" if found and is_there(typed(own)) else name


def _policy_of(folder: RunFolder) -> Path:
    for name in ("best", "last"):
        path = folder.policy_tensors(name)
        if is_there(path):
            return Path(folder.shown, path.name)
    raise RunError(
        f"{folder.shown} has no policy to start from until its first evaluation, its end or a stop"
    )


def _found(name: str) -> tuple[Path, bytes]:
    return _read_once(recorded(name))


@lru_cache(maxsize=2)
def _read_once(name: str) -> tuple[Path, bytes]:
    """Read a policy for all seeds of a command: its run may replace it meanwhile."""
    found = _RECORDED.fullmatch(name)
    assert found is not None, "a recorded name has a digest"
    path = Path(found["file"])
    data = _bytes(path)
    if _digest(data) != found["digest"]:
        raise RunError(
            f"{path} is not the policy that the run started from (its digest began with "
            f"{found['digest']}): put that file back, or give another one"
        )
    return path, data


def _bytes(path: Path) -> bytes:
    try:
        return read_file(typed(path))
    except OSError as error:
        raise RunError(
            f"cannot read the policy {path} ({error.strerror}): --start-from takes a policy file, "
            "or a run"
        ) from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
