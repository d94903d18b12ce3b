"""What is refused of numbers, whichever flag they came with."""

import math
import re
from types import SimpleNamespace
from typing import Any

import pytest

from drumline.recipes.refused_values import (
    refuse_negative,
    refuse_nonpositive,
    refuse_outside_unit,
)

UNIT = "in [0, 1]"


@pytest.mark.parametrize(
    ("refuse", "value", "words"),
    [
        (refuse_nonpositive, 0, "above 0"),
        (refuse_nonpositive, -1.5, "above 0"),
        (refuse_negative, -1, "0 or more"),
        (refuse_negative, -1e-9, "0 or more"),
        (refuse_outside_unit, -0.1, UNIT),
        (refuse_outside_unit, 2, UNIT),
        *(
            (refuse, value, "a finite number")
            for refuse in (refuse_nonpositive, refuse_negative, refuse_outside_unit)
            for value in (math.nan, math.inf, -math.inf)
        ),
    ],
)
def test_a_value_is_refused_by_its_flag(refuse: Any, value: float, words: str):
    config = SimpleNamespace(good_one=1, bad_one=value)
    said = re.escape(f"--bad-one must be {words}, got {value}")
    with pytest.raises(ValueError, match=f"^{said}$"):
        refuse(config, "good_one", "bad_one")


def test_what_may_be_is_let_through():
    config = SimpleNamespace(none=0, all=1.0, huge=10**400)
    refuse_nonpositive(config, "all", "huge")
    refuse_negative(config, "none", "all", "huge")
    refuse_outside_unit(config, "none", "all")
