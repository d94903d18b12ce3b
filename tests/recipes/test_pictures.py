"""Pictures into a network without convolutions are said, once."""

import logging
from typing import Any

import pytest

from drumline.recipes.es import ES
from drumline.recipes.methods import METHODS
from drumline.recipes.pictures import warn_of_pictures
from drumline.training.layout import SearchLayout

ENV = "faulty_environments:Pictures"
SMALL = {"es": {"noise_table_size": 200_000, "hidden": (4,)}, "td3": {"hidden": (4,)}}


@pytest.fixture(autouse=True)
def nothing_said_yet():
    warn_of_pictures.cache_clear()


@pytest.mark.parametrize(
    ("method", "advice"),
    [
        ("es", "hts, a2c, ppo and impala have --network"),
        ("td3", "hts, a2c, ppo and impala have --network"),
        ("ppo", "without places: --network nature-cnn, which takes [C, H, W]"),
    ],
)
def test_a_method_says_that_an_mlp_sees_pictures(
    caplog: pytest.LogCaptureFixture, method: str, advice: str
):
    config: Any = METHODS[method].config(ENV, **SMALL.get(method, {}))
    with caplog.at_level(logging.WARNING, "drumline"):
        for _ in range(2):
            METHODS[method].built(config, METHODS[method].layout(pool="inline"))
    (record,) = caplog.records
    assert "shape [32, 32, 3], which look like pictures" in record.getMessage()
    assert advice in record.getMessage()


def test_nothing_is_said_of_vectors_and_of_a_module_of_ones_own(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "drumline"):
        ES("CartPole-v1", noise_table_size=200_000).build(SearchLayout(pool="inline"))
    assert not caplog.records
