"""A strategy that changes its published arrays in place, while the recorder is behind."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from whole_runs import folder_for, lasting_bytes

from drumline.api.opened_runs import silent
from drumline.protocols import GenerationStrategy
from drumline.recipes.es import ES
from drumline.runs.recorder import Recorder
from drumline.training.layout import SearchLayout
from drumline.training.run_request import RunRequest
from drumline.types import Metrics

CONFIG = ES(
    env="CartPole-v1",
    total_steps=600,
    population_size=4,
    noise_table_size=1 << 12,
    hidden=(4,),
    evaluate_every=2,
    evaluate_episodes=2,
)


class InPlace:
    """A strategy with one set of arrays, which `tell` changes."""

    def __init__(self, inner: GenerationStrategy):
        self._inner = inner
        self._arrays = {name: array.copy() for name, array in inner.published().items()}

    def ask(self, count: int) -> Sequence[Any]:
        return self._inner.ask(count)

    def tell(self, results: Sequence[Any]) -> Metrics:
        metrics = self._inner.tell(results)
        for name, array in self._inner.published().items():
            self._arrays[name][...] = array
        return metrics

    def published(self) -> Mapping[str, np.ndarray]:
        return self._arrays

    def state(self) -> Any:
        return self._inner.state()

    def load(self, state: Any) -> None:
        self._inner.load(state)


def test_its_files_have_the_bytes_of_the_moment_of_each_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def bytes_of(name: str, made: Callable[[GenerationStrategy], Any]) -> dict[str, bytes]:
        layout = SearchLayout(pool="inline", tensorboard=False)
        folder = folder_for(tmp_path / name, CONFIG, layout)
        recipe = CONFIG.build(layout)
        request = RunRequest(folder, layout, silent())
        replace(recipe, strategy=made(recipe.strategy)).opened(request).run()
        return lasting_bytes(folder)

    expected = bytes_of("copies", lambda strategy: strategy)
    put = Recorder._put

    def late(self: Recorder, call: Callable[[], None]) -> None:
        put(self, lambda: (time.sleep(0.02), call())[1])

    monkeypatch.setattr(Recorder, "_put", late)
    assert bytes_of("in-place", InPlace) == expected
