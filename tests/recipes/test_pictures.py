"""Pictures into a network without convolutions are said, once."""

import logging
from pathlib import Path
from typing import Any

import pytest

import drumline
from drumline.recipes.es import ES
from drumline.recipes.methods import METHODS
from drumline.recipes.pictures import _say_choice, chosen_network, warn_of_pictures
from drumline.training.layout import SearchLayout

ENV = "faulty_environments:Pictures"
SMALL = {"es": {"noise_table_size": 200_000, "hidden": (4,)}, "td3": {"hidden": (4,)}}


@pytest.fixture(autouse=True)
def nothing_said_yet():
    warn_of_pictures.cache_clear()
    _say_choice.cache_clear()


@pytest.mark.parametrize(
    ("method", "advice"),
    [
        ("es", "hts, a2c, ppo and impala have --network"),
        ("td3", "hts, a2c, ppo and impala have --network"),
        (
            "ppo",
            "without places: --network nature-cnn, for images of bytes with 1, 3",
        ),
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


ROLLED_OUT = ("hts", "a2c", "ppo", "impala")
IMAGES = "arguments_environment:Pictured"


@pytest.mark.parametrize("method", ROLLED_OUT)
def test_images_get_convolutions_without_asking_and_a_line_says_so(
    caplog: pytest.LogCaptureFixture, method: str
):
    named = METHODS[method]
    with caplog.at_level(logging.WARNING, "drumline"):
        for _ in range(2):
            recipe = named.built(named.config(IMAGES), named.layout(pool="inline"))
    assert recipe.parts.network.network == recipe.parts.config.network == "nature-cnn"
    (record,) = caplog.records
    assert "images of shape [1, 44, 44]: --network nature-cnn" in record.getMessage()
    assert "--network mlp for none" in record.getMessage()


@pytest.mark.parametrize(
    ("shape", "dtype", "chosen"),
    [
        ((4, 84, 84), "|u1", "nature-cnn"),
        ((96, 96, 3), "|u1", "nature-cnn"),
        ((36, 36, 1), "|u1", "nature-cnn"),
        ((35, 96, 3), "|u1", "mlp"),
        ((2, 84, 84), "|u1", "mlp"),
        ((4, 84, 84), "<f4", "mlp"),
        ((84, 84), "|u1", "mlp"),
        ((4, 84, 84, 3), "|u1", "mlp"),
    ],
)
def test_only_images_of_bytes_get_convolutions(shape: tuple[int, ...], dtype: str, chosen: str):
    assert chosen_network("Env", "auto", shape, dtype) == chosen
    for named in ("mlp", "impala-resnet"):
        assert chosen_network("Env", named, shape, dtype) == named


def test_the_choice_is_recorded(tmp_path: Path):
    sizes = {"num_envs": 2, "alpha": 4, "total_steps": 8, "engine": "gymnasium"}
    config = METHODS["a2c"].config(IMAGES, evaluate_every=0, evaluate_episodes=1, **sizes)
    run = drumline.train(config, workers="inline", out=tmp_path / "run")
    assert run.folder.document["config"]["network"] == "nature-cnn"
    assert run.policy.spec.network.network == "nature-cnn"
    vectors = METHODS["a2c"].resolved(METHODS["a2c"].config("CartPole-v1", engine="gymnasium"))
    assert vectors.network == "mlp"


@pytest.mark.parametrize("method", ["es", "ars", "cem"])
def test_a_search_refuses_games_that_are_never_freed(method: str):
    pytest.importorskip("envpool")
    config: Any = METHODS[method].config("gfootball/academy_empty_goal_close-v1")
    with pytest.raises(ValueError, match="EnvPool frees no game of football"):
        config.build(SearchLayout(pool="inline"))
