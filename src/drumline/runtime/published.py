"""PublishedSlots: the kept versions of the published arrays, in shared or private memory."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from drumline.protocols import PublishedLayout

SLOTS = 3
"""Number of versions kept, unless a pool asks for more."""

_NONE = -1  # an empty slot, or one that is being written


class PublishedSlots:
    """A fixed number of slots; a new version replaces the oldest that is not retained.

    `memory` maps the names of `slots_layout` to arrays, in shared or in ordinary memory. The
    version of each slot is written there too, so a reader needs nothing else.
    """

    def __init__(self, layout: PublishedLayout, memory: Mapping[str, np.ndarray]):
        self._layout = layout
        self._versions: Any = memory["versions"]
        self._retained: frozenset[int] = frozenset()
        self._slots = [
            {name: memory[f"published/{slot}/{name}"] for name in layout.arrays}
            for slot in range(self._versions.size)
        ]
        self._views = [
            {name: _read_only(array) for name, array in slot.items()} for slot in self._slots
        ]

    def clear(self) -> None:
        """Mark every slot as empty."""
        self._versions[:] = _NONE

    def retain(self, versions: Collection[int]) -> None:
        """Keep these versions, and no others, whatever versions follow."""
        self._retained = frozenset(versions)

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Copy the arrays of `version` into a slot."""
        if version < 0:
            raise ValueError(f"a version is 0 or more, got {version}")
        self._check(arrays)
        slot = self._slot_for(version)
        self._versions[slot] = _NONE
        for name, array in arrays.items():
            self._slots[slot][name][...] = array
        self._versions[slot] = version

    def read(self, version: int) -> Mapping[str, np.ndarray]:
        """Return read-only views of `version`; LookupError if it is not there."""
        held: list[int] = self._versions.tolist()
        if version < 0 or version not in held:
            kept = ", ".join(str(found) for found in sorted(held) if found != _NONE) or "none"
            raise LookupError(
                f"version {version} is not published: of {len(held)} versions that may be kept "
                f"there are {kept}"
            )
        return self._views[held.index(version)]

    def _slot_for(self, version: int) -> int:
        held: list[int] = self._versions.tolist()
        if version in held:
            return held.index(version)
        free = [(old, slot) for slot, old in enumerate(held) if old not in self._retained]
        if not free:
            raise RuntimeError(
                f"version {version} finds no slot: all {len(held)} hold versions that are still "
                f"needed ({', '.join(map(str, sorted(held)))})"
            )
        return min(free)[1]

    def held(self) -> frozenset[int]:
        """Return the versions in the slots."""
        versions: list[int] = self._versions.tolist()
        return frozenset(versions) - {_NONE}

    def newest(self) -> int:
        """Return the newest version in a slot."""
        return int(self._versions.max())

    def copy_of_newest(self) -> tuple[int, dict[str, np.ndarray]]:
        """Return the newest version and copies of its arrays, all of that version.

        A slot's word is `nothing` before its arrays change and the new version after. An array
        copied between two equal readings of the word is therefore whole.
        """
        while True:
            held: list[int] = self._versions.tolist()
            version = max(held)
            if version == _NONE:
                raise LookupError("nothing is published yet")
            slot = held.index(version)
            copies = {name: array.copy() for name, array in self._slots[slot].items()}
            if self._versions[slot] == version:
                return version, copies

    def _check(self, arrays: Mapping[str, np.ndarray]) -> None:
        expected = self._layout.arrays
        if arrays.keys() != expected.keys():
            raise ValueError(f"published arrays are {sorted(expected)}, got {sorted(arrays)}")
        for name, array in arrays.items():
            shape, dtype = expected[name]
            if array.shape != tuple(shape) or array.dtype != np.dtype(dtype):
                raise ValueError(
                    f"published array {name!r} is {list(shape)} {np.dtype(dtype).name}, "
                    f"got {list(array.shape)} {array.dtype.name}"
                )


def slots_layout(layout: PublishedLayout, slots: int = SLOTS) -> PublishedLayout:
    """Return the layout of the memory for `PublishedSlots` with `slots` versions."""
    arrays: dict[str, tuple[tuple[int, ...], str]] = {"versions": ((slots,), "<i8")}
    for slot in range(slots):
        for name, (shape, dtype) in layout.arrays.items():
            arrays[f"published/{slot}/{name}"] = (tuple(shape), dtype)
    return PublishedLayout(arrays)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
