"""Numbers that are refused, by any flag."""

import dataclasses
import math
import re
from types import SimpleNamespace
from typing import Any, Literal, get_origin, get_type_hints

import numpy as np
import pytest

from drumline.buffers.replay import ReplayShape
from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.recipes.methods import METHODS
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


@pytest.mark.parametrize(
    ("field", "values", "words"),
    [
        ("std_decay", (0.0, -0.5, 1.5), "above 0 and at most 1"),
        ("learning_rate_decay", (0.0, 1.5), "above 0 and at most 1"),
        *(
            (field, (-1.0,), "0 or more")
            for field in ("std_floor", "weight_decay", "action_noise_std")
        ),
        ("momentum", (-0.5, 1.5), UNIT),
        ("momentum", (1.0,), "below 1"),
    ],
)
def test_es_searches_with_numbers_that_can_work(field: str, values: tuple[float, ...], words: str):
    flag = f"--{field.replace('_', '-')}"
    refused = [(value, words) for value in values]
    refused += [(value, "a finite number") for value in (math.nan, math.inf, -math.inf)]
    for value, least in refused:
        change: dict[str, Any] = {field: value}
        with pytest.raises(ValueError, match=re.escape(f"{flag} must be {least}, got {value}")):
            ES(env="Pendulum-v1", **change)


@pytest.mark.parametrize("flag", ["--std", "--learning-rate"])
def test_a_floor_above_the_first_value_is_refused(flag: str):
    name = flag.removeprefix("--").replace("-", "_")
    floors: list[dict[str, Any]] = [{name: 0.1, f"{name}_floor": floor} for floor in (0.1, 0.11)]
    ES(env="Pendulum-v1", **floors[0])
    with pytest.raises(ValueError, match=f"^{flag}-floor must be at most {flag}, got 0.11 above"):
        ES(env="Pendulum-v1", **floors[1])


def test_es_takes_the_ends_of_what_its_numbers_may_be():
    ES(env="Pendulum-v1", std_decay=1.0, std_floor=0.0, weight_decay=0.0, hidden=())
    ES(env="Pendulum-v1", momentum=0.0, action_noise_std=0.0, generation_env_steps=0)


@pytest.mark.parametrize("hidden", [(0,), (-3,), (64, 0)])
def test_es_has_layers_of_1_or_more(hidden: tuple[int, ...]):
    said = re.escape(f"--hidden needs layers of 1 or more, got {hidden}")
    with pytest.raises(ValueError, match=f"^{said}$"):
        ES(env="Pendulum-v1", hidden=hidden)


def test_a_generation_has_no_negative_number_of_env_steps():
    with pytest.raises(ValueError, match=r"^--generation-env-steps must be 0 or more, got -1$"):
        ES(env="Pendulum-v1", generation_env_steps=-1)


@pytest.mark.parametrize("hidden", [("64",), "64", 64])
def test_layers_that_are_no_numbers_are_refused_in_one_sentence(hidden: Any):
    said = f"--hidden must be whole numbers, as in (64, 64), got {hidden!r}"
    for method in (ES, AES):
        with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
            method(env="Pendulum-v1", hidden=hidden)


@pytest.mark.parametrize("name", METHODS)
def test_values_of_another_kind_are_refused_when_a_config_is_made(name: str):
    """Also those that a comparison of numbers would end in a TypeError before."""
    method = METHODS[name]
    hints = get_type_hints(method.config)
    for field in sorted(method.fields):
        if hints[field] in (int, float, tuple[int, ...], bool):
            said = f"^--{field.replace('_', '-')} must be .*, got '4'$"
            with pytest.raises(ValueError, match=said):
                method.made("Pendulum-v1", None, **{field: "4"})
        elif get_origin(hints[field]) is Literal:
            with pytest.raises(ValueError, match=f"^--{field.replace('_', '-')} must be .* or "):
                method.made("Pendulum-v1", None, **{field: 4})


def test_a_config_takes_numpys_numbers_when_it_is_made():
    config = ES(env="Pendulum-v1", population_size=np.array(6), hidden=np.array([4, 5]))  # pyright: ignore
    assert config == ES(env="Pendulum-v1", population_size=6, hidden=(4, 5))
    assert type(config.population_size) is int


@pytest.mark.parametrize("flag", ["--hang-seconds", "--checkpoint-minutes"])
@pytest.mark.parametrize("value", [math.nan, 0.0, -1.0])
def test_a_layouts_times_are_above_0(flag: str, value: float):
    name = flag.removeprefix("--").replace("-", "_")
    with pytest.raises(ValueError, match=f"^{flag} must be above 0, got {value}$"):
        dataclasses.replace(Layout(), **{name: value})
    assert dataclasses.replace(Layout(), **{name: math.inf})


@pytest.mark.parametrize("kind", sorted({m.layout for m in METHODS.values()}, key=str))
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pool": "Inline"}, r"--pool must be process,? .*inline( or ray)?, got 'Inline'"),
        ({"workers": 1.5}, "--workers must be a whole number, got 1.5"),
        ({"workers": "2"}, "--workers must be a whole number, got '2'"),
        ({"hang_seconds": "5"}, "--hang-seconds must be a number, got '5'"),
        ({"tensorboard": "no"}, "--tensorboard must be True or False, got 'no'"),
        ({"ray_address": 3}, "--ray-address must be a text, got 3"),
    ],
)
def test_values_of_another_kind_are_refused_in_a_layout(
    kind: type[Layout], given: dict[str, Any], said: str
):
    with pytest.raises(ValueError, match=f"^{said}$"):
        kind(**given)
    assert kind(workers=2, hang_seconds=5)


def test_a_replay_whose_episodes_fill_the_memory_does_not_blame_its_size_alone():
    shape = ReplayShape(capacity=10, observation_size=4, action_size=1, slack=10**13, truncations=1)
    said = "that is --replay-size 10, beside which 10000000000000 rows are for what is on its way"
    with pytest.raises(ValueError, match=f"only .* of memory is available.*{said}"):
        replay_memory(shape)
