"""Progress under a notebook's cell, without IPython and with a stand-in for it."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import drumline
from drumline.display import notebook
from drumline.display.notebook import NotebookDisplay, notebook_display
from drumline.display.state import DisplayState, RunTitle
from drumline.recipes.es import ES

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

TITLE = RunTitle("es", "CartPole-v1", 7, "2 workers", "runs/es-CartPole-v1-s7")
STATE = DisplayState(
    "es", "CartPole-v1", 3, 1_500, 3_000, 60, 1.5, [1.0, 2.0, 9.5], 8.0, 8.5, 1e3, 1e3, 1.5,
    [0.9, 0.8], 0, 0,
)  # fmt: skip


class Shown:
    """Every bundle that `display` and its handle were given."""

    def __init__(self):
        self.bundles: list[dict[str, str]] = []
        self.handles = 0

    def __call__(self, bundle: Any, *, raw: bool, display_id: bool) -> "Shown":
        assert raw
        assert display_id
        self.handles += 1
        self.bundles.append(bundle)
        return self

    def update(self, bundle: Any, *, raw: bool) -> None:
        assert raw
        self.bundles.append(bundle)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """A kernel of IPython's whose outputs are kept."""
    shown = Shown()
    shell = SimpleNamespace(kernel=object())
    made = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=shown))
    monkeypatch.setitem(sys.modules, "IPython", made)
    return shown


def test_there_is_none_outside_of_a_kernel(monkeypatch: pytest.MonkeyPatch):
    for module in (None, SimpleNamespace(get_ipython=lambda: None)):
        monkeypatch.setitem(sys.modules, "IPython", module)
        assert notebook_display() is None
    terminal = SimpleNamespace(get_ipython=lambda: SimpleNamespace())  # ipython in a terminal
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert notebook_display() is None


def test_one_output_is_replaced_and_has_a_line_for_front_ends_without_html(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(notebook, "_INTERVAL_SECONDS", 0.0)
    display = notebook_display()
    assert display is not None
    display.start(TITLE)
    display.note("starting workers")
    display.update(STATE)
    display.update(replace(STATE, update=STATE.update + 1))
    display.message("worker 1 was replaced <now>")
    display.close(["done"])
    assert shown.handles == 1
    assert "starting workers" in shown.bundles[1]["text/plain"]
    last = shown.bundles[-1]
    title, line, *messages = last["text/plain"].splitlines()
    assert TITLE.folder in title
    assert line.startswith(f"update {STATE.update + 1}  ")
    assert messages == ["worker 1 was replaced <now>", "done"]
    assert "&lt;now&gt;" in last["text/html"]
    assert "<now>" not in last["text/html"]
    assert f'<progress max="{STATE.total_steps}" value="{STATE.env_steps}"' in last["text/html"]


def test_drawings_have_a_pause_between_them_and_the_last_state_is_drawn():
    shown = Shown()
    display = NotebookDisplay(shown)
    display.start(TITLE)
    assert not display.due()
    display.update(STATE)
    assert len(shown.bundles) == 1
    display.close()
    assert f"update {STATE.update}  " in shown.bundles[-1]["text/plain"]


def test_training_and_resuming_show_it_unless_it_is_not_wanted(shown: Shown, tmp_path: Path):
    config = ES(
        env="CartPole-v1",
        total_steps=60,
        population_size=4,
        noise_table_size=4096,
        hidden=(4,),
        evaluate_every=0,
        evaluate_episodes=1,
    )
    run = drumline.train(config, workers="inline", out=tmp_path / "run", last_update=1)
    assert "es on CartPole-v1, seed 0" in shown.bundles[0]["text/plain"]
    assert "update 1  " in shown.bundles[-1]["text/plain"]
    count = len(shown.bundles)
    run.resume(workers="inline", total_steps=100)
    assert len(shown.bundles) > count
    assert shown.handles == 2
    drumline.train(config, workers="inline", out=tmp_path / "other", progress=False)
    assert shown.handles == 2
