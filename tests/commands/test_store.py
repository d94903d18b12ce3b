"""`train --store`, `resume URL` and `fetch URL`, over a store in a directory."""

import hashlib
import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from runs.runs_examples import new_folder
from s3_server import wait_for
from typed_commands import TINY, Terminal, said_command

from drumline.api.run import load, resume, train
from drumline.recipes.es import ES
from drumline.runs.checkpoint import checkpoint_numbers, read_checkpoint
from drumline.runs.fingerprints import read_chain
from drumline.runs.folder import RunFolder
from drumline.runs.strict_json import parsed
from drumline.stores.claim import Claim, claimed, names_of_states, stored_state
from drumline.stores.object_store import ObjectStore
from drumline.stores.stored_state import StoredState
from drumline.training.layout import SearchLayout
from drumline.training.stopped import Stopped

QUICK = ("--pool=inline", "--no-tensorboard", "--quiet")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/far/objects"


def chained(run: str | Path) -> str:
    last = read_chain(Path(run) / "fingerprints.csv").last()
    assert last is not None
    return last.chained


def straight(terminal: Terminal, total_steps: int, out: str) -> None:
    """Train without a stop and without a store."""
    words = (*TINY, f"--total-steps={total_steps}", f"--out={out}", "--quiet")
    assert terminal("train", "es", "CartPole-v1", *words).code == 0


def rewritten(url: str, path: str, data: bytes) -> None:
    """Replace a file in every state of a store, as its owner can."""
    store = ObjectStore(url)
    for name in names_of_states(store):
        state = stored_state(store, name)
        files = {**state.files, path: [(len(data), hashlib.sha256(data).hexdigest())]}
        changed = StoredState(state.session, state.number, state.update, files)
        for piece in changed.pieces_of(path):
            store.put(piece.name, data)
        store.put(name, changed.rendered())


def test_a_run_goes_on_from_a_store_as_if_it_had_not_stopped(terminal: Terminal, url: str):
    terminal.train("es", "CartPole-v1", "--out=here", f"--store={url}")
    ended = terminal("resume", url, "--out=there", "--total-steps=150", *QUICK)
    assert ended.code == 0, ended.err
    straight(terminal, 150, "straight")
    assert chained("there") == chained("straight") != chained("here")
    # The resumed run goes on with its copy, from which any host goes on again.
    again = terminal("resume", url, "--total-steps=200", *QUICK)
    assert again.code == 0, again.err
    straight(terminal, 200, "longer")
    assert chained("runs/objects") == chained("longer")


def test_a_store_changes_no_bit_of_a_run(terminal: Terminal, url: str):
    terminal.train("es", "CartPole-v1", "--out=stored", f"--store={url}")
    terminal.train("es", "CartPole-v1", "--out=alone")
    states = [read_checkpoint(RunFolder.open(run)) for run in ("stored", "alone")]
    assert states[0].fingerprint == states[1].fingerprint
    for name in ("fingerprints.csv", "episodes.csv", "evaluations.csv"):
        assert (Path("stored") / name).read_bytes() == (Path("alone") / name).read_bytes()
    documents = [json.loads((Path(r) / "config.json").read_text()) for r in ("stored", "alone")]
    assert documents[0]["store"] == url
    assert "store" not in documents[1]


def test_a_fetched_run_is_like_any_run(terminal: Terminal, url: str):
    terminal.train("es", "CartPole-v1", "--out=here", f"--store={url}")
    fetched = terminal("fetch", url)
    assert fetched.code == 0
    assert fetched.out.splitlines()[1] == "runs/objects"
    for words in (["evaluate", "--episodes=2"], ["report"], ["verify", "--pool=inline"]):
        ended = terminal(words[0], "objects", *words[1:])
        assert ended.code == 0, ended.err
    assert terminal("fetch", url, "--out=elsewhere", "--quiet").out == ""
    assert Path("elsewhere/config.json").is_file()


@pytest.mark.parametrize(
    "command", ["evaluate", "enjoy", "plot", "report", "compare", "verify", "episode", "rebuild"]
)
def test_other_commands_say_that_a_copy_is_needed_first(terminal: Terminal, command: str):
    ended = terminal(command, "s3://bucket/run")
    assert ended.code == 2
    assert ended.err == (
        "drumline: s3://bucket/run is on an object store; make a local copy of that run first: "
        "drumline fetch s3://bucket/run\n"
    )


def test_a_prefix_with_another_run_is_refused_before_training(terminal: Terminal, url: str):
    terminal.train("es", "CartPole-v1", "--out=here", f"--store={url}")
    refused = terminal(
        "train", "es", "CartPole-v1", "--out=other", f"--store={url}", "--total-steps=60"
    )
    assert refused.code == 2
    assert "has another run already (es on CartPole-v1, seed 0)" in refused.err
    assert said_command(refused.err) == f"drumline resume {url}"
    assert not Path("other").exists()


@pytest.mark.parametrize("store", ["bucket/run", "tape://bucket/run", "s3://", "gs://bucket/run"])
def test_a_store_that_cannot_be_opened_is_refused_before_training(terminal: Terminal, store: str):
    refused = terminal("train", "es", "CartPole-v1", "--out=run", f"--store={store}")
    assert refused.code == 2
    assert len(refused.err.splitlines()) == 1
    assert "store" in refused.err
    assert not Path("run").exists()


def test_a_refused_run_leaves_its_prefix_to_the_next(
    terminal: Terminal, url: str, monkeypatch: pytest.MonkeyPatch
):
    def refused(*_: object) -> None:
        raise ValueError("not today")

    with monkeypatch.context() as patch:
        patch.setattr("drumline.training.generational_run.GenerationalRun.run", refused)
        ended = terminal("train", "es", "CartPole-v1", "--out=a", f"--store={url}", *QUICK)
        assert (ended.code, ended.err) == (2, "drumline: not today\n")
    terminal.train("es", "CartPole-v1", "--out=a", f"--store={url}")


def test_a_run_that_is_stopped_before_its_first_state_leaves_its_prefix_to_the_next(
    terminal: Terminal, url: str, monkeypatch: pytest.MonkeyPatch
):
    def stopped(*_: object) -> None:
        raise Stopped(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr("drumline.training.generational_run.GenerationalRun.run", stopped)
        ended = terminal("train", "es", "CartPole-v1", *TINY, "--out=a", f"--store={url}", *QUICK)
        assert ended.code == 130
    assert ObjectStore(url).names("") == []
    terminal.train("es", "CartPole-v1", "--out=b", f"--store={url}")
    # The stopped run goes on alone, or with a store of its own.
    assert terminal("resume", "a", f"--store={url}2", *QUICK).code == 0
    assert chained("a") == chained("b")


def test_a_prefix_that_a_killed_run_has_without_a_state_can_be_freed(
    terminal: Terminal, url: str, tmp_path: Path
):
    claimed(ObjectStore(url), new_folder(tmp_path / "killed"))
    words = ("train", "es", "CartPole-v1", "--out=run", f"--store={url}", *TINY, *QUICK)
    refused = terminal(*words)
    assert refused.code == 2
    assert re.search(r"is kept for another run \(es on ALE/Pong-v5, seed 3, on .*\)", refused.err)
    found = re.search(r"remove file://(\S+) if that run has ended", refused.err)
    assert found is not None
    Path(found[1]).unlink()
    assert terminal(*words).code == 0


def test_a_local_run_says_where_its_copy_is_and_catches_up_with_it(terminal: Terminal, url: str):
    terminal.train("es", "CartPole-v1", "--out=run", f"--store={url}")
    behind = terminal("resume", "run", "--total-steps=120", "--pool=inline", "--no-tensorboard")
    assert f"this run was copied to {url}; to go on with that: --store {url}" in behind.out
    caught_up = terminal("resume", "run", f"--store={url}", "--pool=inline", "--no-tensorboard")
    assert caught_up.code == 0
    assert f"{url} has this run to update" in caught_up.out
    assert terminal("fetch", url, "--out=copy", "--quiet").code == 0
    assert chained("copy") == chained("run")


def test_an_older_checkpoint_of_a_store_is_gone_on_from(terminal: Terminal, url: str):
    terminal.train("es", "CartPole-v1", "--out=run", f"--store={url}")
    updates = {stored_state(ObjectStore(url), n).update for n in names_of_states(ObjectStore(url))}
    assert 0 in updates  # the checkpoint of the start
    refused = terminal("resume", url, "--checkpoint=77")
    assert refused.code == 2
    assert "has no whole state of update 77" in refused.err
    ended = terminal("resume", url, "--checkpoint=0", "--out=again", *QUICK)
    assert ended.code == 0, ended.err
    assert chained("again") == chained("run")


def test_a_rewind_is_in_the_store_before_the_next_checkpoint(terminal: Terminal, url: str):
    terminal.train("es", "CartPole-v1", "--out=run", f"--store={url}", "--checkpoint-minutes=1e-9")
    folder, store = RunFolder.open("run"), ObjectStore(url)
    *_, older, newest = checkpoint_numbers(folder)
    killed: list[Claim] = []

    class KilledAtItsFirstUpdate:
        def on_update(self, row: dict[str, float]) -> bool:
            wait_for(lambda: stored_state(store, names_of_states(store)[0]).update == older)
            shutil.copytree("run", "killed")
            killed.append(claimed(store, RunFolder.open("killed")))
            return False

    assert stored_state(store, names_of_states(store)[0]).update == newest
    layout = SearchLayout(pool="inline", tensorboard=False)
    resume(folder, layout, checkpoint=older, store=url, callbacks=KilledAtItsFirstUpdate())
    assert killed[0].newest == older


def test_out_of_a_local_run_is_refused(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    refused = terminal("resume", "run", "--out=other")
    assert refused.code == 2
    assert "--out other goes with a URL as RUN" in refused.err


def test_code_that_a_stored_run_names_is_imported_with_trust_alone(terminal: Terminal, url: str):
    terminal.train("es", "CartPole-v1", "--out=run", f"--store={url}")
    Path("stranger.py").write_text("open('imported', 'w').close()\n")
    document = parsed(Path("run/config.json").read_bytes())
    document["config"]["env"] = "stranger:environment"
    rewritten(url, "config.json", json.dumps(document).encode())
    refused = terminal("resume", url)
    assert refused.code == 2
    assert refused.err == (
        f"drumline: {url} names code to import (stranger:environment); "
        f"if you trust it: drumline resume {url} --trust-code\n"
    )
    assert not Path("imported").exists()
    assert not Path("runs").exists()
    # A copy meets the gate of every run folder.
    assert terminal("fetch", url, "--out=copy", "--quiet").code == 0
    assert "names code to import" in terminal("resume", "copy").err
    assert not Path("imported").exists()
    assert "stranger" in terminal("resume", url, "--trust-code").err
    assert Path("imported").exists()


def test_the_python_interface_takes_a_store(terminal: Terminal, url: str):
    config = ES(
        env="CartPole-v1",
        total_steps=60,
        population_size=4,
        noise_table_size=4096,
        hidden=(4,),
        evaluate_episodes=2,
    )
    run = train(config, workers="inline", out="run", store=url)
    assert terminal("fetch", url, "--out=copy", "--quiet").code == 0
    assert load("copy").parameters().tobytes() == run.parameters().tobytes()
    assert os.path.samefile(run.path, "run")
