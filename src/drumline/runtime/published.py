"""The latest three versions of the published arrays, wherever their memory lies."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from drumline.protocols import PublishedLayout

SLOTS = 3
_NONE = -1  # an empty slot, or one that is being written


class PublishedSlots:
    """Slot `version % 3` holds a version until three later ones have come.

    `memory` maps the names of `slots_layout` to arrays, in shared or in ordinary memory.
    """

    def __init__(self, layout: PublishedLayout, memory: Mapping[str, np.ndarray]):
        self._layout = layout
        self._versions: Any = memory["versions"]
        self._slots = [
            {name: memory[f"published/{slot}/{name}"] for name in layout.arrays}
            for slot in range(SLOTS)
        ]
        self._views = [
            {name: _read_only(array) for name, array in slot.items()} for slot in self._slots
        ]

    def clear(self) -> None:
        """Mark every slot as empty; the memory itself starts as zeros."""
        self._versions[:] = _NONE

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Copy the arrays of `version` into its slot."""
        if version < 0:
            raise ValueError(f"a version is 0 or more, got {version}")
        self._check(arrays)
        slot = version % SLOTS
        self._versions[slot] = _NONE
        for name, array in arrays.items():
            self._slots[slot][name][...] = array
        self._versions[slot] = version

    def read(self, version: int) -> Mapping[str, np.ndarray]:
        """Return read-only views of `version`."""
        found = int(self._versions[version % SLOTS])
        if found != version:
            held = "nothing" if found == _NONE else f"version {found}"
            raise LookupError(
                f"version {version} is not published: its slot holds {held} "
                f"(the latest {SLOTS} versions are kept)"
            )
        return self._views[version % SLOTS]

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


def slots_layout(layout: PublishedLayout) -> PublishedLayout:
    """Return the layout of the memory that `PublishedSlots` needs."""
    arrays: dict[str, tuple[tuple[int, ...], str]] = {"versions": ((SLOTS,), "<i8")}
    for slot in range(SLOTS):
        for name, (shape, dtype) in layout.arrays.items():
            arrays[f"published/{slot}/{name}"] = (tuple(shape), dtype)
    return PublishedLayout(arrays)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
