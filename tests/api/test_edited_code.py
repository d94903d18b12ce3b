"""A module that is edited while a process has it imported trains no run of two codes."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import drumline

MODULE = """
import gymnasium


class Paid(gymnasium.Wrapper):
    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1"))

    def step(self, action):
        observation, reward, *ends = self.env.step(action)
        return observation, reward + {paid}, *ends
"""
SMALL: dict[str, Any] = {
    "hidden": (4,),
    "total_steps": 40,
    "population_size": 4,
    "noise_table_size": 4096,
    "evaluate_every": 0,
    "evaluate_episodes": 1,
}


def test_an_edited_module_is_refused_until_it_is_imported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    name = "paid_environment"
    file = tmp_path / f"{name}.py"
    file.write_text(MODULE.format(paid=1))
    importlib.invalidate_caches()

    def trained(out: str, workers: Any) -> drumline.Run:
        return drumline.train("es", f"{name}:Paid", workers=workers, out=out, **SMALL)

    trained("first", 1)
    file.write_text(MODULE.format(paid=10))
    with pytest.raises(ValueError, match=r"paid_environment\.py has changed since this process"):
        trained("second", 1)
    assert not (tmp_path / "second").exists()
    trained("inline", "inline")  # one code, whichever
    importlib.reload(sys.modules[name])
    run = trained("third", 1)
    assert run.metrics[0]["episode_return_mean"] > 90
    del sys.modules[name]
