"""`--start-from` on the command line."""

from pathlib import Path

import pytest
from typed_commands import Terminal

from drumline.api.run import load
from drumline.runs.start_policy import recorded

TRAIN = (
    *("train", "cem", "CartPole-v1", "--hidden", "4", "--total-steps=200"),
    *("--evaluate-every=0", "--evaluate-episodes=1", "--quiet"),
)


def test_last_is_one_run_for_all_seeds(terminal: Terminal):
    assert terminal(*TRAIN).code == 0
    first = recorded("last")
    ended = terminal(*TRAIN, "--seeds", "1-2", "--start-from", "last")
    assert ended.code == 0, ended.err
    begun = [load(path) for path in Path("runs").iterdir() if path != Path(first).parent]
    assert len(begun) == 2
    for run in begun:
        assert run.folder.document["config"]["start_from"] == first
    shown = terminal(*TRAIN, "--start-from", "last", "--print-config")
    assert f'"start_from": "{recorded("last")}"' in shown.out


@pytest.mark.parametrize("typed", ["--start-from last", "--start_from=last --hidden 4"])
def test_a_comparison_names_its_run(typed: str, terminal: Terminal):
    ended = terminal("bench", f"cem {typed}", "--env", "CartPole-v1", "--budget", "200")
    assert ended.code == 2
    assert "name the run" in ended.err


def test_names_of_other_libraries_lead_here(terminal: Terminal):
    ended = terminal("train", "ppo", "CartPole-v1", "--load", "some/model.zip")
    assert ended.code == 2
    assert "--start-from" in ended.err
