"""JSON of a run folder, which may come from a stranger: every fault is one ValueError."""

import json
from typing import Any

import msgspec

DEEPEST = 100
"""Levels of lists and objects inside each other; those that drumline writes have a few."""
LARGEST = 16 * 2**20
"""Bytes of the largest JSON file that is read whole; those that drumline writes are smaller."""


def parsed(raw: bytes | str) -> dict[str, Any]:
    """Return a JSON object; ValueError if it is none, too large, or nested too deeply."""
    if len(raw) > LARGEST:
        raise ValueError(f"{len(raw)} bytes are more than the {LARGEST} of any file of a run")
    try:
        document = json.loads(raw)
        json.dumps(document).encode()  # half of a surrogate pair cannot be written again
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")
    if _is_deep(document):
        raise ValueError("it is nested too deeply")
    return document


def _is_deep(document: Any) -> bool:
    level = [document]
    for _ in range(DEEPEST):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [x for values in inner for x in values if isinstance(x, (dict, list))]
        if not level:
            return False
    return True


def check_fields(document: dict[str, Any], kinds: dict[str, Any]) -> None:
    """Raise ValueError for the first field that has not its type; an absent one is no fault."""
    for name, kind in kinds.items():
        if name in document:
            try:
                msgspec.convert(document[name], kind)
            except msgspec.ValidationError as error:
                raise ValueError(f"{name}: {error}") from None
