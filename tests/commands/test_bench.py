"""A comparison from nothing: trained, stopped, gone on with, and refused."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typed_commands import TINY, Terminal, drumline, environ

from drumline.runs.folder import RunFolder

SMALL = shlex.join(word for word in TINY if not word.startswith("--total-steps"))
ES = f"es {SMALL}"
ON_CARTPOLE = ("--env", "CartPole-v1")


def states(out: Path) -> dict[str, str]:
    return {
        run["name"]: run["state"] for run in json.loads((out / "bench.json").read_text())["runs"]
    }


@pytest.fixture(autouse=True)
def runs_find_the_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs have processes of their own, even where the command has not."""
    monkeypatch.setenv("PYTHONPATH", environ()["PYTHONPATH"])


def test_methods_are_trained_with_every_seed_and_compared(tmp_path: Path, terminal: Terminal):
    words = ("bench", ES, f"ars {SMALL.replace('--hidden 4', '')}", *ON_CARTPOLE, "--seeds=0-1")
    ended = terminal(*words, "--budget=120", "--out=b", "--json")
    assert ended.code == 0, ended.err
    answer = json.loads(ended.out)
    assert [(group["group"].split()[0], group["runs"]) for group in answer["groups"]] == [
        ("es", 2),
        ("ars", 2),
    ]
    assert Path(tmp_path, "b/compare.png").read_bytes()[:4] == b"\x89PNG"
    assert set(states(tmp_path / "b").values()) == {"ended"}
    again = terminal(*words, "--budget=120", "--out=b")
    assert again.out.count("there already (ended)") == 4
    other = terminal(*words, "--budget=60", "--out=b")
    assert other.code == 2
    assert "b has a comparison on CartPole-v1 with the budget 120" in other.err


@pytest.mark.faults
def test_a_run_ends_when_its_time_is_over(tmp_path):
    words = ("bench", f"{ES} --total-steps=100000000", *ON_CARTPOLE, "--seeds=3", "--budget=20s")
    ended = drumline(*words, "--out=b", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert set(states(tmp_path / "b").values()) == {"out of time"}
    assert "es CartPole-v1" in ended.stdout


def test_a_run_that_fails_is_named(tmp_path: Path, terminal: Terminal):
    words = ("bench", f"{ES} --evaluate-every=1", "es", "--env", "faulty_environments:Raises")
    ended = terminal(*words, "--seeds=0", "--budget=60", "--out=b")
    assert ended.code == 3
    first, second = states(tmp_path / "b")
    assert "failed" in ended.out
    assert f"failed: {first}, {second}; the same command tries them again" in ended.err
    assert "the cart fell off the table" in (tmp_path / "b" / f"{first}.txt").read_text()


@pytest.mark.faults
def test_a_comparison_that_was_stopped_goes_on_with_the_same_bytes(tmp_path):
    words = ("bench", f"{ES} --checkpoint-minutes=0.0001", *ON_CARTPOLE, "--seeds=0-1")
    words = (*words, "--budget=20000")
    whole = drumline(*words, "--out=w", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    with open(tmp_path / "said", "w") as said:
        running = subprocess.Popen(
            [sys.executable, "-m", "drumline", *words, "--out=b"],
            cwd=tmp_path,
            env=environ(),
            stdout=said,
            stderr=said,
        )
        while not list(tmp_path.glob("b/*seed0/checkpoints/*/manifest.json")):
            assert running.poll() is None, (tmp_path / "said").read_text()
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 128 + signal.SIGTERM
    assert sorted(states(tmp_path / "b").values()) == ["begun", "waiting"]
    assert drumline(*words, "--out=b", cwd=tmp_path).returncode == 0
    for seed in (0, 1):
        one, other = (
            next(tmp_path.glob(f"{out}/*seed{seed}/fingerprints.csv")) for out in ("w", "b")
        )
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bench"], "give METHODs before the flags, and --env"),
        (["bench", "es"], "give METHODs before the flags, and --env"),
        (["bench", "es", *ON_CARTPOLE, "--seeds=5-1"], "--seeds 5-1 goes backwards: write 1-5"),
        (["bench", "es", *ON_CARTPOLE, "--seeds=a"], "--seeds a is no range: write 0-4"),
        (["bench", "es", *ON_CARTPOLE, "--seeds=1,1"], "--seeds 1,1 has a seed twice"),
        (["bench", "es", *ON_CARTPOLE, "--budget=ten"], "--budget ten: give env steps as 200000"),
        (["bench", "es", *ON_CARTPOLE, "--budget=3parsec"], "--budget 3parsec: give env steps"),
        (["bench", "es", "es", *ON_CARTPOLE], "give each METHOD once"),
        (["bench", "es  --std 1", "es --std 1", *ON_CARTPOLE], "give each METHOD once"),
        (
            ["bench", "es --env-kwargs '{\"g\":1}'", "es --env-kwargs '{\"g\":-1}'", *ON_CARTPOLE],
            "would both have the folder es-env-kwargs-g-1",
        ),
        (["bench", "sac", *ON_CARTPOLE], "sac: "),
        (["bench", "es --nope 3", *ON_CARTPOLE], "es --nope 3: "),
        (["bench", "", *ON_CARTPOLE], "METHOD '' is empty: give one as hts"),
        (["bench", "es --seed 3", *ON_CARTPOLE], "has --seed, which bench gives by its --seeds"),
        (["bench", "es --out=x", *ON_CARTPOLE], "has --out, which bench gives by its --out"),
        (
            ["bench", "es --total_steps 4000", *ON_CARTPOLE, "--budget=1000"],
            "has --total-steps, which bench gives by its --budget",
        ),
        (["bench", "es --std", *ON_CARTPOLE], "es --std: Missing value for argument '--std'"),
        (["bench", "es 'x", *ON_CARTPOLE], """METHOD "es 'x" cannot be read: No closing"""),
    ],
)
def test_wrong_words_train_nothing(terminal: Terminal, words: list[str], said: str):
    ended = terminal(*words)
    assert ended.code == 2
    assert said in ended.err
    assert not Path("bench").exists()


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("afile", "cannot write to afile (it is a file); give a folder with --out"),
        ("afile/b", "cannot write to afile/b (Not a directory); give a folder with --out"),
        ("closed", "cannot write closed/bench.json: closed is read-only; give another --out"),
    ],
)
def test_a_folder_that_cannot_be_made_is_one_sentence(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, out: str, said: str
):
    Path("afile").touch()
    Path("closed").mkdir()
    if out == "closed":
        monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    ended = terminal("bench", "es", *ON_CARTPOLE, f"--out={out}")
    assert (ended.code, ended.err) == (2, f"drumline: {said}\n")


def test_runs_of_other_flags_are_not_taken_for_those_asked_for(terminal: Terminal):
    words = ("es --std 1e-1", "--env=Pendulum-v1", "--seeds=0", "--budget=200")
    plan = {"name": "es-std-1e-1-seed0", "words": "es --std 1e+1", "seed": 0}
    Path("b").mkdir()
    document = {"env": "Pendulum-v1", "budget": "200", "runs": [{**plan, "state": "ended"}]}
    Path("b/bench.json").write_text(json.dumps(document))
    ended = terminal("bench", *words, "--out=b")
    assert ended.code == 2
    assert "was trained with other flags" in ended.err
    assert json.loads(Path("b/bench.json").read_text()) == document


def out_of_time(name: str, method: str, rows: str | None) -> dict[str, Any]:
    """Record a run that was stopped when its time was over; return its part of the plan."""
    config = {"env": "CartPole-v1", "seed": 0, "num_envs": 16}
    folder = RunFolder.create(
        Path("b", f"{name}-seed0"), method=method, env_id="", seed=0, document={"config": config}
    )
    if rows is not None:
        head = "update,env_steps,wall_seconds,episode_return_mean\n"
        folder.metrics_csv.write_text(head + rows)
    return {"name": f"{name}-seed0", "words": method, "seed": 0, "state": "out of time"}


def test_a_run_without_an_update_is_left_out_and_named(terminal: Terminal):
    runs = [
        out_of_time("es", "es", None),
        out_of_time("ars", "ars", ""),
        out_of_time("hts", "hts", "1,100,1.5,20.0\n"),
    ]
    plan = {"env": "CartPole-v1", "budget": "6s", "runs": runs}
    Path("b", "bench.json").write_text(json.dumps(plan))
    words = ("--seeds=0", "--budget=6s", "--out=b", *ON_CARTPOLE)
    ended = terminal("bench", "es", "ars", "hts", *words, "--json")
    assert ended.code == 0, ended.err
    assert [group["group"] for group in json.loads(ended.out)["groups"]] == ["hts CartPole-v1"]
    assert "left out: es-seed0, ars-seed0; no update within the budget" in ended.err
    ended = terminal("bench", "es", "ars", *words, "--json")
    assert (ended.code, ended.out) == (3, ""), "there is nothing to compare"


def test_a_folder_with_other_things_in_it_is_left_alone(terminal: Terminal):
    Path("bench").mkdir()
    Path("bench/thesis.txt").write_text("all of it")
    ended = terminal("bench", ES, *ON_CARTPOLE)
    assert ended.code == 2
    assert "bench is not empty and has no bench.json" in ended.err
    Path("bench/bench.json").write_text('{"env": "CartPole-v1", "budget": "", "runs": [{}]}')
    ended = terminal("bench", ES, *ON_CARTPOLE)
    assert ended.code == 2
    assert "bench/bench.json is damaged" in ended.err
