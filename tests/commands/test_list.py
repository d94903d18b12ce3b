"""`drumline list`: each run with its state, whatever is wrong with its folder."""

import fcntl
import json
import os
from pathlib import Path

import pytest
from commands.refused_places import refuse
from typed_commands import TINY, Terminal

import drumline
from drumline.recipes.es import ES

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
SMALL = ES(
    env="CartPole-v1",
    total_steps=400,
    population_size=4,
    hidden=(4,),
    noise_table_size=4096,
    evaluate_every=0,
    evaluate_episodes=2,
)


def rows(terminal: Terminal, *words: str) -> dict[str, dict]:
    ended = terminal("list", *words, "--json")
    assert ended.code == 0, ended.err
    found = [json.loads(line) for line in ended.out.splitlines()]
    return {Path(row["run"]).name: row for row in found}


def test_runs_are_listed_with_their_state(terminal: Terminal):
    assert terminal("list").out == "no runs in runs\n"
    finished = drumline.train(SMALL, workers="inline", out="runs/a", tags=["ours", "first"])
    stop = drumline.Callbacks(on_update=lambda metrics: False)
    drumline.train(SMALL, workers="inline", out="runs/b", callbacks=stop)
    Path("runs/c").mkdir()
    Path("runs/c/config.json").write_text("{")
    Path("runs/no-run").mkdir()
    found = rows(terminal)
    assert {name: row["state"] for name, row in found.items()} == {
        "a": "finished",
        "b": "stopped",
        "c": "damaged",
    }
    row = found["a"]
    assert (row["method"], row["environment"], row["seed"]) == ("es", "CartPole-v1", 0)
    assert row["steps"] == finished.metrics[-1]["env_steps"] >= row["total_steps"] == 400
    last = (finished.path / "evaluations.csv").read_text().splitlines()[-1]
    assert row["score"] == float(last.split(",")[3])
    assert row["tags"] == ["ours", "first"]
    assert "is damaged" in found["c"]["fault"]
    table = terminal("list").out.splitlines()
    assert table[0].split() == [
        *("run", "method", "environment", "seed", "steps", "score", "state", "tags")
    ]
    assert table[2].split()[-2:] == ["ours", "first"]
    assert set(rows(terminal, "--tag=ours")) == {"a"}
    assert terminal("list", "--tag=none").out == "no runs with the tag none in runs\n"
    assert terminal("list", "nowhere").code == 2


def test_a_run_that_is_written_now_is_running_and_can_still_be_begun(terminal: Terminal):
    terminal("train", "es", "CartPole-v1", *TINY, "--out=runs/a", "--quiet")
    descriptor = os.open("runs/a", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert rows(terminal, "runs/a")["a"]["state"] == "running"
    os.close(descriptor)
    assert rows(terminal, "runs")["a"]["state"] == "finished"


def test_a_run_with_the_name_of_the_newest_or_of_a_flag_is_listed_as_itself(terminal: Terminal):
    for out, seed in (("last", 5), ("-x", 6), ("runs/newest", 7)):
        ended = terminal("train", "es", "CartPole-v1", f"--out={out}", f"--seed={seed}", *TINY)
        assert ended.code == 0, ended.err
    found = rows(terminal, ".")
    assert {name: row["seed"] for name, row in found.items()} == {"last": 5, "-x": 6, "newest": 7}
    for name in ("last", "-x"):
        assert rows(terminal, found[name]["run"]) == {name: found[name]}
    (newest,) = rows(terminal, "runs").values()
    assert newest["seed"] == 7


def test_a_run_is_named_from_inside_its_folder(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    drumline.train(SMALL, workers="inline", out="runs/a")
    monkeypatch.chdir("runs/a")
    assert terminal("list", ".").out.splitlines()[1].startswith("a ")
    Path("below").mkdir()
    monkeypatch.chdir("below")
    assert terminal("list", "..").out.splitlines()[1].startswith("a ")


def test_a_run_that_may_not_be_read_is_named(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    for name in ("a", "b"):
        terminal.train("es", "CartPole-v1", f"--out=runs/{name}")
    Path("runs/notes.txt").write_text("no run")
    refuse(monkeypatch, Path("runs/b"))
    found = rows(terminal)
    assert {name: row["state"] for name, row in found.items()} == {"a": "finished", "b": "damaged"}
    assert "runs/b (Permission denied)" in found["b"]["fault"]
    assert set(rows(terminal, "runs/b", "runs/a")) == {"a", "b"}
    refuse(monkeypatch, Path("runs"))
    assert rows(terminal)["runs"]["state"] == "damaged"
