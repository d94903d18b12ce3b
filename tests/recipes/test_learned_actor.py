"""The actor that gradient steps can follow, and the spaces that have none."""

import dataclasses

import numpy as np
import pytest

from drumline.recipes.learned_actor import learned_head


def test_actions_without_bounds_are_refused():
    with pytest.raises(ValueError, match="actions without bounds"):
        learned_head(
            dataclasses.make_dataclass("Space", ["low", "high"])(
                np.array([-np.inf]), np.array([np.inf])
            ),
            "Some-v0",
        )
