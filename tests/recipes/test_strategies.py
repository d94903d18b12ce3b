"""Strategy names."""

import sys
import types
from typing import Any

import numpy as np
import pytest
from algorithms.individuals_examples import search, sphere

from drumline.errors import StrategyFailed
from drumline.recipes.strategies import StrategyNumbers, make_strategy

NUMBERS = StrategyNumbers(std=0.1, budget=50, population_size=4, learning_rate=0.05)


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("snes", None),
        ("openai-es", None),
        ("cma", "cma"),
        ("sep-cma", "cma"),
        ("nevergrad:OnePlusOne", "nevergrad"),
    ],
)
def test_every_name_makes_a_search(name: str, package: str | None):
    if package:
        pytest.importorskip(package)
    strategy = make_strategy(name, np.zeros(4, np.float32), NUMBERS, seed=0)
    search(strategy, sphere, 120, in_flight=3)
    assert sphere(strategy.parameters) > -3.5  # from -4


def test_a_users_own_search_is_named_by_its_place(monkeypatch: pytest.MonkeyPatch):
    class Still:
        def __init__(self, start: np.ndarray, seed: int):
            self.start = start

        def ask(self) -> np.ndarray:
            return self.start * np.nan

        def tell(self, vector: np.ndarray, fitness: float) -> None: ...

    module: Any = types.ModuleType("users_still")
    module.Still = Still
    monkeypatch.setitem(sys.modules, "users_still", module)
    start = np.ones(2, np.float32)
    with pytest.raises(StrategyFailed, match="after 0 tells"):  # at its rehearsal
        make_strategy("users_still:Still", start, NUMBERS, seed=0)
    strategy = make_strategy("users_still:Still", start, NUMBERS, seed=0, promise=False)
    with pytest.raises(StrategyFailed, match="--strategy 'users_still:Still' asked for a vector"):
        strategy.ask(1)


@pytest.mark.parametrize("name", ["", "cmaes", "nevergrad", "nevergrad:", ":factory"])
def test_an_unknown_name_is_refused_with_those_there_are(name: str):
    with pytest.raises(ValueError, match="--strategy must be one of async-es, snes, openai-es"):
        make_strategy(name, np.zeros(2, np.float32), NUMBERS, seed=0)
