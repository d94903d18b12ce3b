"""Published versions as a role sees them that asks for the newest."""

from typing import Any

import numpy as np
import pytest

from drumline.protocols import PublishedLayout
from drumline.runtime.published import PublishedSlots, slots_layout

LAYOUT = PublishedLayout({"parameters": ((4,), "<f8")})


def memory() -> dict[str, np.ndarray]:
    layout = slots_layout(LAYOUT)
    return {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.arrays.items()}


def test_the_newest_version_is_copied_whole():
    slots = PublishedSlots(LAYOUT, memory())
    slots.clear()
    with pytest.raises(LookupError, match="nothing is published"):
        slots.copy_of_newest()
    for version in (3, 5, 6, 8, 9):  # a resumed run begins with any version
        slots.publish(version, {"parameters": np.full(4, float(version))})
        assert slots.newest() == version
    version, arrays = slots.copy_of_newest()
    slots.publish(10, {"parameters": np.full(4, 10.0)})
    assert (version, arrays["parameters"].tolist()) == (9, [9.0] * 4)


def test_a_version_that_is_replaced_while_it_is_copied_is_copied_again():
    shared = memory()
    writer, reader = PublishedSlots(LAYOUT, shared), PublishedSlots(LAYOUT, shared)
    writer.clear()
    writer.publish(1, {"parameters": np.ones(4)})

    class Overtaken:
        """An array whose copy takes so long that its slot is published anew meanwhile."""

        copies = 0

        def copy(self) -> Any:
            Overtaken.copies += 1
            if Overtaken.copies == 1:
                for version in (2, 3, 4):
                    writer.publish(version, {"parameters": np.full(4, float(version))})
            return shared["published/0/parameters"].copy()

    reader._slots[0] = {"parameters": Overtaken()}  # pyright: ignore
    version, arrays = reader.copy_of_newest()
    assert (version, arrays["parameters"].tolist()) == (4, [4.0] * 4)
    assert Overtaken.copies == 2
