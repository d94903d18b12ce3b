"""Searches for garbage are rarer in the driver of a pool of processes, and nowhere else."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

import drumline
from drumline.recipes.es import ES
from drumline.training.layout import SearchLayout
from drumline.training.rare_collections import rare_collections

CONFIG = ES(
    env="InvertedPendulum-v5",
    total_steps=200,
    population_size=8,
    hidden=(4,),
    noise_table_size=1 << 12,
    evaluate_episodes=2,
)


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(701, 11, 12)
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(("pool", "least"), [("process", 50_000), ("inline", 701)])
def test_only_a_driver_without_environments_searches_less(tmp_path: Path, pool: str, least: int):
    seen: list[tuple[int, int, int]] = []

    class Look:
        def on_update(self, metrics: dict[str, float]) -> None:
            seen.append(gc.get_threshold())

    layout = SearchLayout(pool=pool, workers=1)  # pyright: ignore[reportArgumentType]
    drumline.train(CONFIG, layout=layout, out=tmp_path / "run", callbacks=[Look()])
    assert set(seen) == {(least, 11, 12)}
    assert gc.get_threshold() == (701, 11, 12)


def test_an_error_restores_the_thresholds():
    with pytest.raises(KeyError), rare_collections():
        raise KeyError
    assert gc.get_threshold() == (701, 11, 12)


@pytest.mark.parametrize("own", [0, 80_000])
def test_a_user_who_searches_less_is_left_alone(own: int):
    gc.set_threshold(own)
    with rare_collections():
        assert gc.get_threshold()[0] == own
