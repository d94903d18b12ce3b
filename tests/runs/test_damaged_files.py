"""Files of a run folder that a stranger made up: one sentence, and no memory before sizes fit."""

import hashlib
import json
import random
import shutil
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import damaged_folders
import numpy as np
import pytest
import safetensors.numpy
from campaigns import cases
from damaged_folders import METHODS, OLD, damage, read_all
from hypothesis import given, settings
from hypothesis import strategies as st
from typed_commands import Terminal

import drumline
from drumline.api.foreign_code import UNTRUSTED
from drumline.api.stored_policy import load_policy
from drumline.buffers.replay import ReplayShape
from drumline.buffers.replay_archive import DamagedReplay, block_bytes, blocks_in
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.runs.checkpoint import DamagedCheckpoint, read_checkpoint
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.horizons import horizons_of
from drumline.runs.policy_files import read_policy
from drumline.runs.timeline import write_timeline
from drumline.types import Span

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Terminal:
    """A terminal beside copies of old folders."""
    for method in ("es", "hts"):
        shutil.copytree(OLD / method, tmp_path / method)
    monkeypatch.chdir(tmp_path)
    return Terminal(capfd)


def change_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def change_manifest(change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest and sign it again, as a stranger would."""
    (path,) = Path("es/checkpoints").glob("[1-9]*/manifest.json")
    document = json.loads(path.read_text())
    del document["manifest_sha256"]
    change(document)
    digest = hashlib.sha256(json.dumps(document).encode()).hexdigest()
    path.write_text(json.dumps({**document, "manifest_sha256": digest}, indent=1) + "\n")


def refused(terminal: Terminal, *words: str) -> str:
    ended = terminal(*words)
    assert ended.code == 2, ended
    assert len(ended.err.splitlines()) == 1, ended.err
    return ended.err


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(unknown=1),
        lambda document: document.pop("lengths"),
        lambda document: document.update(lengths={"metrics.csv": -1}),
        lambda document: document.update(lengths={"metrics.csv": "all"}),
        lambda document: document.update(tensors=[1]),
        lambda document: document.update(counters={"updates": None}),
        lambda document: document.update(update=10**30),
    ],
)
def test_a_signed_manifest_with_other_keys_or_types_is_damaged(
    terminal: Terminal, change: Callable[[dict[str, Any]], object]
):
    change_manifest(change)
    with pytest.raises(DamagedCheckpoint, match=r"manifest\.json"):
        read_checkpoint(RunFolder.open("es"))
    words = ("resume", "es", "--pool=inline", "--other-machine", "--quiet")
    assert "is damaged: manifest.json" in refused(terminal, *words)


@pytest.mark.parametrize("key", ["wall_seconds"])
def test_a_manifest_without_its_clock_is_damaged(terminal: Terminal, key: str):
    change_manifest(lambda document: document["extra"].pop(key))
    more = ("--pool=inline", "--other-machine", "--quiet", "--total-steps=1000000")
    assert key in refused(terminal, "resume", "es", *more)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda document: document.update(method=["es"]), "method"),
        (lambda document: document.update(config=[]), "config"),
        (lambda document: document.update(promise=None), "promise"),
        (lambda document: document.update(versions={"python": 3}), "versions"),
        (lambda document: document.update(horizons=[]), "horizons"),
        (lambda document: document.update(horizons=[[0]]), "horizons"),
        (lambda document: document["config"].update(env=7), "env"),
        (lambda document: document["config"].update(seed="x"), "seed"),
        (lambda document: document["config"].update(std="large"), "std"),
        (lambda document: document["config"].update(hidden={"a": 1}), "hidden"),
    ],
)
def test_a_config_with_a_value_of_another_type_is_damaged(
    terminal: Terminal, change: Callable[[dict[str, Any]], object], named: str
):
    change_json(Path("es/config.json"), change)
    sentence = refused(terminal, "resume", "es", "--pool=inline", "--other-machine")
    assert "damaged" in sentence
    assert named in sentence


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs of this version, whose configs have every field."""
    place = tmp_path_factory.mktemp("finished")
    small = {"hidden": (4,), "evaluate_every": 0, "evaluate_episodes": 1}
    es = ES(env="CartPole-v1", total_steps=60, population_size=4, noise_table_size=4096, **small)
    rollouts = {"num_envs": 2, "alpha": 8, "epochs": 1, "minibatches": 2}
    hts = HTS(env="CartPole-v1", total_steps=32, **rollouts, **small)
    for config, name in ((es, "es"), (hts, "hts")):
        drumline.train(config, workers="inline", out=place / name)
    return place


@pytest.mark.parametrize("method", cases(("es", "hts"), quick=("hts",)))
def test_a_config_with_any_field_of_another_type_or_gone_is_read_or_refused_in_a_sentence(
    finished: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, method: str
):
    monkeypatch.chdir(finished)
    monkeypatch.setattr("drumline.display.report._curves", lambda *runs: "")  # pictures take long
    path = Path(method, "config.json")
    whole = path.read_text()
    commands = (["list", "."], ["evaluate", method, "--episodes=1", "--json"], ["report", method])
    for field in json.loads(whole)["config"]:
        for value in ("deleted", None, [1], "x"):
            document = json.loads(whole)
            document["config"][field] = value
            if value == "deleted":
                del document["config"][field]
            path.write_text(json.dumps(document))
            for words in commands:
                ended = terminal(*words)
                assert ended.code in ((0,) if words[0] == "list" else (0, 2)), (field, value, ended)
                assert len(ended.err.splitlines()) == ended.code // 2, (field, value, ended)
    path.write_text(whole)


@pytest.mark.parametrize("field", ["env", "num_envs"])
def test_a_config_without_a_field_that_commands_read_is_damaged(terminal: Terminal, field: str):
    change_json(Path("hts/config.json"), lambda document: document["config"].pop(field))
    assert f"no '{field}' in it" in refused(terminal, "verify", "hts", "--pool=inline")


def test_a_method_from_outside_may_mean_something_else_by_a_field(terminal: Terminal):
    change_json(
        Path("hts/config.json"),
        lambda document: document.update(
            method="theirs:SAC", config={"env": "CartPole-v1", "seed": 0, "alpha": "auto"}
        ),
    )
    assert RunFolder.open("hts").document["config"]["alpha"] == "auto"


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, '{"a": ' + "9" * 5000 + "}"])
def test_json_that_is_nested_deeply_or_has_a_giant_number_is_damaged(terminal: Terminal, text: str):
    Path("es/config.json").write_text(text)
    assert "config.json is damaged" in refused(terminal, "plot", "es")


def test_json_that_is_no_text_or_too_large_is_damaged(terminal: Terminal):
    for data in (b"\xff\xfe{}", b'{"a": "\\ud800"}', b" " * (2**24 + 1) + b"{}"):
        Path("es/config.json").write_bytes(data)
        assert "config.json is damaged" in refused(terminal, "plot", "es")


@pytest.mark.parametrize(
    ("name", "cell", "said"),
    [
        ("metrics.csv", "x", "line 2"),
        ("metrics.csv", "1,1,1", "cells instead of"),
        ("evaluations.csv", "x", "line 2"),
        ("evaluations.csv", "9" * 5000, "line 2"),
        ("evaluations.csv", "1" * 140_000, "line 2"),
        ("fingerprints.csv", "9" * 5000, "line 2"),
    ],
)
def test_a_table_with_a_wrong_cell_names_its_file_and_line(
    terminal: Terminal, name: str, cell: str, said: str
):
    path = Path("es", name)
    lines = [line.split(",") for line in path.read_text().splitlines()]
    place = 2 if name == "metrics.csv" else 1 if name == "evaluations.csv" else 0
    place = lines[0].index("env_steps") if name != "fingerprints.csv" else place
    lines[1][place] = cell
    path.write_text("".join(",".join(line) + "\n" for line in lines))
    command = ("verify", "es", "es") if name == "fingerprints.csv" else ("report", "es")
    sentence = refused(terminal, *command)
    assert f"{path} is damaged" in sentence
    assert said in sentence


def test_a_run_of_another_time_zone_does_not_hide_the_last_run(terminal: Terminal):
    Path("runs").mkdir()
    for name, created in (("a", "2026-01-01T00:00:00"), ("b", "2026-01-02T00:00:00+00:00")):
        shutil.copytree(OLD / "es", Path("runs", name))
        change_json(
            Path("runs", name, "config.json"),
            lambda document, created=created: document.update(created=created),
        )
    assert RunFolder.open("last").path.name == "b"


def test_a_folder_without_a_goal_is_damaged(terminal: Terminal):
    change_json(Path("es/config.json"), lambda document: document["config"].pop("total_steps"))
    with pytest.raises(RunError, match="no 'total_steps'"):
        horizons_of(RunFolder.open("es"))


def announce(place: tuple[str, ...], value: Any, folder: str) -> None:
    """Let a policy file announce a size; it has no digest, as files of the earliest versions."""
    path = Path(folder, "policy-last.safetensors")
    stored = read_policy(RunFolder.open(folder), "last")
    inner = stored.document["policy"]
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    tensors = {name: np.array(tensor) for name, tensor in stored.tensors.items()}
    metadata = {"drumline": json.dumps(stored.document)}
    safetensors.numpy.save_file(tensors, path, metadata=metadata)


@pytest.mark.parametrize(
    ("folder", "place", "value"),
    [
        ("es", ("observation_size",), 10**9),
        ("es", ("observation_size",), -4),
        ("es", ("hidden",), [10**5, 10**5]),
        ("es", ("head", "choices"), 10**10),
        ("es", ("head", "kind"), "no such kind"),
        ("es", ("unknown",), 1),
        ("hts", ("network", "observation_shape"), [10**9]),
        ("hts", ("network", "observation_shape"), [4, 10**6, 10**6]),
        ("hts", ("network", "hidden"), [10**5, 10**5]),
        ("hts", ("network", "head", "sizes"), [10**10]),
        ("hts", ("parameter_count",), 10**10),
        ("hts", ("starts",), "many"),
        ("hts", ("network", "normalize"), True),
    ],
)
def test_a_policy_file_that_announces_another_network_than_it_holds_takes_no_memory(
    terminal: Terminal, folder: str, place: tuple[str, ...], value: Any
):
    announce(place, value, folder)
    tracemalloc.start()
    try:
        with pytest.raises(RunError, match=r"policy-last\.safetensors is damaged"):
            load_policy(read_policy(RunFolder.open(folder), "last"), UNTRUSTED)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


SHAPE = ReplayShape(60, 4, 1, 8, 8)
ROW = 4 * (4 + 1 + 1) + 1


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ((0, 10**9, 0), "announces 1000000000 transitions"),
        ((0, -1, 0), "announces -1 transitions"),
        ((0, 0, 0), "announces 0 transitions"),
        ((0, 3, 2**62), "ends"),
        ((0, 3, -1), "ends"),
        ((0, 3, 1), "ends of episodes"),
        ((0, 4, 0), "more than its segment has"),
        ((5, 3, 0), "transition 0 is missing"),
    ],
)
def test_a_replay_block_that_announces_more_than_it_holds_is_damaged(
    header: tuple[int, int, int], said: str
):
    spare = bytes(16) if header[2] == 1 else b""
    data = struct.pack("<3q", *header) + bytes(3 * ROW) + spare
    with pytest.raises(DamagedReplay, match=said):
        list(blocks_in(data, 0, SHAPE))
    with pytest.raises(DamagedReplay, match="header"):
        list(blocks_in(data[:20], 0, SHAPE))


def test_a_whole_replay_block_is_read_as_before():
    (read,) = blocks_in(struct.pack("<3q", 0, 3, 0) + bytes(3 * ROW), 0, SHAPE)
    assert block_bytes(0, read) == struct.pack("<3q", 0, 3, 0) + bytes(3 * ROW)


@pytest.mark.parametrize(
    "event", [{"ph": "X"}, {"ph": "X", "cat": [], "tid": 0, "ts": 0.0}, {"ph": "X", "cat": "a"}, 3]
)
def test_a_damaged_timeline_starts_anew(tmp_path: Path, event: Any):
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    write_timeline(path, [Span("worker", 0, 0.0, 1.0, 1)])
    kinds = [event["ph"] for event in json.loads(path.read_text())["traceEvents"]]
    assert kinds.count("X") == 1


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_thousands_of_damages_end_in_sentences_within_a_gibibyte(tmp_path: Path):
    words = [sys.executable, str(Path(damaged_folders.__file__)), "--count=3000", "--keep-going"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "3000 damages" in ended.stdout


@settings(max_examples=60)
@given(method=st.sampled_from(METHODS), seed=st.integers(0, 2**32))
def test_every_reader_refuses_a_damaged_folder_in_a_sentence_or_reads_it(
    tmp_path_factory: pytest.TempPathFactory, method: str, seed: int
):
    place = tmp_path_factory.mktemp("damaged")
    shutil.copytree(OLD / method, place / "run")
    damage(place / "run", random.Random(seed))
    for sentence in read_all(place / "run"):
        assert sentence
    assert [path.name for path in place.iterdir()] == ["run"]
    shutil.rmtree(place)
