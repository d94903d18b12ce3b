"""Methods whose metrics, states or jobs are not what a run needs end with a sentence."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from whole_runs import folder_for

from drumline.api.opened_runs import silent
from drumline.errors import StrategyFailed
from drumline.protocols import GenerationStrategy, Population
from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.runs.folder import RunFolder
from drumline.runs.metrics import is_column, is_number
from drumline.training.layout import SearchLayout, SteadyLayout
from drumline.training.run_request import RunRequest

SEARCH = ES(
    env="CartPole-v1",
    total_steps=400,
    population_size=4,
    noise_table_size=1 << 12,
    hidden=(4,),
    evaluate_every=0,
    evaluate_episodes=1,
)
STEADY = AES(
    env="InvertedPendulum-v5",
    total_steps=200,
    warmup_steps=40,
    hidden=(4,),
    replay_size=200,
    batch_size=4,
    evaluate_every=0,
    evaluate_episodes=1,
)


class Told:
    """A strategy of another's, with a `tell` and a `state` that a test may replace."""

    def __init__(self, inner: GenerationStrategy):
        self._inner = inner
        self.tells = 0

    def ask(self, count: int) -> Sequence[Any]:
        return self._inner.ask(count)

    def tell(self, results: Sequence[Any]) -> Any:
        self.tells += 1
        return self._inner.tell(results)

    def published(self) -> Mapping[str, np.ndarray]:
        return self._inner.published()

    def state(self) -> Any:
        return self._inner.state()

    def load(self, state: Any) -> None:
        self._inner.load(state)


def search(out: Path, kind: type[Told]) -> RunFolder:
    """Train with a strategy of a kind; returns the run folder."""
    layout = SearchLayout(pool="inline", tensorboard=False)
    folder = folder_for(out, SEARCH, layout)
    recipe = SEARCH.build(layout)
    changed = dataclasses.replace(recipe, strategy=kind(recipe.strategy), replica=None)
    changed.opened(RunRequest(folder, layout, silent())).run()
    return folder


def telling(more: Mapping[Any, Any], first: int = 1) -> type[Told]:
    """A strategy whose metrics have these besides, from its `first` tell on."""

    class Telling(Told):
        def tell(self, results: Sequence[Any]) -> Any:
            metrics = super().tell(results)
            return {**metrics, **more} if self.tells >= first else metrics

    return Telling


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a\nb", "a\rb", "", "\ud800", 3])
def test_a_metric_that_cannot_be_a_column_is_named_before_a_row_is_written(
    name: Any, tmp_path: Path
):
    with pytest.raises(StrategyFailed, match=r"^the method's metric .* cannot be a column"):
        search(tmp_path, telling({name: 1.0}))
    assert not (tmp_path / "metrics.csv").exists()


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("env_steps", 1),
        ("episodes", 1),
        ("wall_seconds", 1),
        ("env_steps_evaluation", 1),
        ("update", 1),
        ("env_steps", 3),
    ],
)
def test_a_metric_with_the_name_of_a_counter_of_the_run_is_refused(
    name: str, first: int, tmp_path: Path
):
    with pytest.raises(StrategyFailed, match=f"'{name}' has the name of a number that the run"):
        search(tmp_path, telling({name: 1.0}, first))


@pytest.mark.parametrize("value", ["hello", "1.0", None, np.ones(3), 1j, torch.ones(2)])
def test_a_metric_that_is_no_number_is_named_with_its_update(value: Any, tmp_path: Path):
    with pytest.raises(StrategyFailed, match=r"'x' of update 2 is .*: it must be one number"):
        search(tmp_path, telling({"x": value}, 2))


def test_numbers_of_other_packages_and_any_readable_name_are_metrics(tmp_path: Path):
    values = (2, True, np.float32(1.5), np.int8(3), np.bool_(True), np.ones(()), torch.ones(()))
    names = [f"θ {place}/'loss' (nats)" for place in range(len(values))]
    more = dict(zip(names, values, strict=True))
    folder = search(tmp_path, telling({**more, "bound": float("inf")}))
    head, first, *_ = folder.metrics_csv.read_text().splitlines()
    row = dict(zip(head.split(","), first.split(","), strict=True))
    assert [float(row[name]) for name in names] == [float(value) for value in values]
    assert row["bound"] == "inf"


def test_what_is_a_column_and_what_a_number():
    assert is_column("policy_loss")
    assert not is_column("tab\there")
    assert not is_column(None)
    assert is_number(10**300)
    assert not is_number(10**400)
    assert not is_number(np.complex64(1))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, r"Answering\.tell\(\) returned None: it must return a dict of metrics"),
        ({"x": 1.0}, r"Answering\.tell\(\) returned metrics \(x\) without episode_return_mean"),
        ({}, r"Answering\.tell\(\) returned metrics \(none\) without episode_return_mean"),
    ],
)
def test_a_tell_without_the_mean_return_is_named(answer: Any, words: str, tmp_path: Path):
    class Answering(Told):
        def tell(self, results: Sequence[Any]) -> Any:
            super().tell(results)
            return answer

    with pytest.raises(StrategyFailed, match=words) as caught:
        search(tmp_path, Answering)
    assert "checkpoint 0 is of a state before" in caught.value.__notes__[0]


def test_a_strategy_whose_state_is_no_state_is_named(tmp_path: Path):
    class Stateless(Told):
        def state(self) -> Any:
            return dict(super().state().tensors)

    words = r"^Stateless\.state\(\) returned an object of type dict: it must return a drumline"
    with pytest.raises(StrategyFailed, match=words):
        search(tmp_path, Stateless)


class Lived:
    """A population of another's, which a test may change."""

    def __init__(self, inner: Population):
        self._inner = inner
        self.asks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def steady(out: Path, kind: type[Lived]) -> None:
    """Train with a population of a kind."""
    layout = SteadyLayout(pool="inline", tensorboard=False)
    folder = folder_for(out, STEADY, layout)
    recipe = STEADY.build(layout)
    make: Any = recipe.population
    changed = dataclasses.replace(recipe, population=lambda replay: kind(make(replay)))
    changed.opened(RunRequest(folder, layout, silent())).run()


@pytest.mark.parametrize("asks", [0, 7])
def test_a_population_that_asks_for_nothing_before_the_end_is_an_error(asks: int, tmp_path: Path):
    class Stops(Lived):
        def ask(self, worker: int) -> Any:
            self.asks += 1
            return self._inner.ask(worker) if self.asks <= asks else None

    words = r"^Stops asked for no job after \d+ of 200 env steps, and none is in flight"
    with pytest.raises(StrategyFailed, match=words) as caught:
        steady(tmp_path, Stops)
    assert "to go on from there" in caught.value.__notes__[0]


def test_a_population_whose_state_is_no_state_is_named(tmp_path: Path):
    class Stateless(Lived):
        def state(self) -> None: ...

    with pytest.raises(StrategyFailed, match=r"^Stateless\.state\(\) returned .* NoneType"):
        steady(tmp_path, Stateless)
