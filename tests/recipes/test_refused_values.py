"""Numbers that are refused, by any flag."""

import dataclasses
import math
import re
from types import SimpleNamespace
from typing import Any

import pytest

from drumline.buffers.replay import ReplayShape
from drumline.recipes.aes import AES
from drumline.recipes.refused_values import (
    refuse_negative,
    refuse_nonpositive,
    refuse_outside_unit,
    refuse_unfinite,
)
from drumline.training.layout import Layout
from drumline.training.replay_memory import replay_memory

UNIT = "in [0, 1]"
REFUSALS = (refuse_nonpositive, refuse_negative, refuse_outside_unit, refuse_unfinite)


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
            for refuse in (
                refuse_nonpositive,
                refuse_negative,
                refuse_outside_unit,
                refuse_unfinite,
            )
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
    refuse_unfinite(SimpleNamespace(low=-1e300), "low")


@pytest.mark.parametrize("flag", ["--fitness-baseline", "--welford-samples"])
def test_rules_take_finite_numbers(flag: str):
    field: dict[str, Any] = {flag.removeprefix("--").replace("-", "_"): math.nan}
    with pytest.raises(ValueError, match=f"^{flag} must be a finite number, got nan$"):
        AES(env="Pendulum-v1", **field)


@pytest.mark.parametrize("flag", ["--hang-seconds", "--checkpoint-minutes"])
@pytest.mark.parametrize("value", [math.nan, 0.0, -1.0])
def test_a_layouts_times_are_above_0(flag: str, value: float):
    name = flag.removeprefix("--").replace("-", "_")
    with pytest.raises(ValueError, match=f"^{flag} must be above 0, got {value}$"):
        dataclasses.replace(Layout(), **{name: value})
    assert dataclasses.replace(Layout(), **{name: math.inf})


def test_a_replay_whose_episodes_fill_the_memory_does_not_blame_its_size_alone():
    shape = ReplayShape(capacity=10, observation_size=4, action_size=1, slack=10**13, truncations=1)
    said = "that is --replay-size 10, beside which 10000000000000 rows are for what is on its way"
    with pytest.raises(ValueError, match=f"only .* of memory is available.*{said}"):
        replay_memory(shape)
