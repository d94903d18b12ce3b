"""Trainings with a copy on an S3 server: drivers that stop or are killed, servers that are lost.

Each run goes on from the store alone, in an empty directory, and ends with the bits of an
uninterrupted one.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from s3_server import KEYS, Relay, free_port, wait_for
from typed_commands import Terminal, drumline, environ

from drumline.runs.checkpoint import checkpoint_numbers, read_checkpoint
from drumline.runs.fingerprints import read_chain
from drumline.runs.folder import RunFolder
from drumline.stores.claim import names_of_states, stored_state
from drumline.stores.object_store import ObjectStore
from drumline.training.stop_signals import SAME_WISH_SECONDS

pytestmark = pytest.mark.faults

WORDS = (
    *("train", "es", "CartPole-v1", "--out=run", "--pool=inline", "--no-tensorboard"),
    *("--total-steps=30000", "--population-size=8", "--noise-table-size=16384", "--hidden", "8"),
    *("--learning-rate=1e-6", "--evaluate-every=60", "--evaluate-episodes=2"),
    # Episodes stay short with so small a learning rate, so that there are many generations.
    "--checkpoint-minutes=0.01",
)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of one process that nothing has stopped, and that no store has a copy of."""
    place = tmp_path_factory.mktemp("straight")
    ended = drumline(*WORDS, "--quiet", cwd=place)
    assert ended.returncode == 0, ended.stderr
    return RunFolder.open(place / "run")


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(capfd)


@pytest.fixture
def driver(
    tmp_path: Path, url: str, relay: Relay
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a driver in a process of its own; killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*more: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "drumline", *WORDS, f"--store={url}", *more]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            words, cwd=tmp_path, env=environ(), stdout=pipe, stderr=pipe, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def newest(url: str) -> int:
    store = ObjectStore(url)
    return stored_state(store, names_of_states(store)[0]).update


def goes_on_elsewhere(terminal: Terminal, url: str, straight: RunFolder) -> None:
    """Resume in an empty directory, and compare with the run that nothing has stopped."""
    ended = terminal("resume", url, "--out=host", "--pool=inline", "--no-tensorboard", "--quiet")
    assert ended.code == 0, ended.err
    resumed = RunFolder.open("host")
    last = [read_chain(folder.fingerprints_csv).last() for folder in (resumed, straight)]
    assert last[0] == last[1]
    assert read_checkpoint(resumed).fingerprint == read_checkpoint(straight).fingerprint
    for name in ("episodes.csv", "evaluations.csv", "fingerprints.csv"):
        assert (resumed.path / name).read_bytes() == (straight.path / name).read_bytes()


def test_sigterm_uploads_the_last_checkpoint_within_the_grace_time(
    relay: Relay,
    url: str,
    tmp_path: Path,
    terminal: Terminal,
    driver: Callable[..., subprocess.Popen[str]],
    straight: RunFolder,
):
    relay.delay = 0.1
    relay.fails = lambda method, path: "late" if method == "PUT" else None
    process = driver("--checkpoint-minutes=60")
    metrics = tmp_path / "run" / "metrics.csv"
    wait_for(lambda: metrics.exists() and metrics.stat().st_size > 1000)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    (stopped_at,) = checkpoint_numbers(RunFolder.open(tmp_path / "run"))[-1:]
    assert stopped_at > 0
    # Only the generation in flight is computed again.
    assert newest(url) == stopped_at
    assert f"{url} has this run to update {stopped_at}; on any host: drumline resume {url}" in out
    relay.fails = lambda method, path: None
    goes_on_elsewhere(terminal, url, straight)


@pytest.mark.parametrize("point", ["within a checkpoint", "after its manifest"])
def test_a_driver_that_is_killed_during_an_upload_goes_on_elsewhere(
    relay: Relay,
    url: str,
    tmp_path: Path,
    terminal: Terminal,
    driver: Callable[..., subprocess.Popen[str]],
    straight: RunFolder,
    point: str,
):
    place = {"within a checkpoint": "/counters.json/"}.get(point, "/manifests/")
    uploads: list[str] = []
    running: list[subprocess.Popen[str]] = []

    def kills(method: str, path: str) -> str | None:
        if method != "PUT" or place not in path:
            return None
        uploads.append(path)
        if len(uploads) == 2:
            running[0].send_signal(signal.SIGKILL)
            return "lost" if point == "after its manifest" else "cut"
        return None

    relay.fails = kills
    running.append(driver())
    assert running[0].wait(timeout=90) == -signal.SIGKILL
    here = checkpoint_numbers(RunFolder.open(tmp_path / "run"))[-1]
    assert newest(url) <= here
    goes_on_elsewhere(terminal, url, straight)


def test_a_server_that_is_lost_while_training_neither_stops_nor_changes_the_run(
    relay: Relay,
    url: str,
    tmp_path: Path,
    terminal: Terminal,
    driver: Callable[..., subprocess.Popen[str]],
    straight: RunFolder,
):
    failed: list[str] = []

    def lost_for_a_while(method: str, path: str) -> int | None:
        trained = (tmp_path / "run" / "policy-last.json").exists()
        if "/files/" not in path or (trained and len(failed) > 6):
            return None
        failed.append(path)
        return 503

    relay.fails = lost_for_a_while
    process = driver()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.count("training goes on, and uploads are tried again") == 1
    assert f"{url} has this run to update" in out
    here = read_chain(tmp_path / "run" / "fingerprints.csv").last()
    assert here == read_chain(straight.fingerprints_csv).last()
    goes_on_elsewhere(terminal, url, straight)


def test_a_server_that_stays_lost_delays_a_stop_by_the_grace_time_alone(
    relay: Relay, url: str, tmp_path: Path, driver: Callable[..., subprocess.Popen[str]]
):
    process = driver("--grace-seconds=2", "--checkpoint-minutes=60")
    wait_for(lambda: any(m == "PUT" and "/manifests/" in path for m, path in relay.requests))
    metrics = tmp_path / "run" / "metrics.csv"
    wait_for(lambda: metrics.stat().st_size > 1000)
    relay.fails = lambda method, path: 503
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - asked < 20, "the time without the flag is 25 s"
    assert process.returncode == 143, err
    assert f"{url} has update 0, not the newest state of update" in out
    assert f"uploads it with drumline resume run --store {url}" in out
    assert RunFolder.open(tmp_path / "run").card_md.exists()


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGHUP])
def test_a_second_signal_ends_the_last_upload(
    relay: Relay,
    url: str,
    tmp_path: Path,
    driver: Callable[..., subprocess.Popen[str]],
    first: signal.Signals,
):
    process = driver("--grace-seconds=600", "--checkpoint-minutes=60")
    wait_for(lambda: any(m == "PUT" and "/manifests/" in path for m, path in relay.requests))
    metrics = tmp_path / "run" / "metrics.csv"
    wait_for(lambda: metrics.stat().st_size > 1000)
    relay.fails = lambda method, path: 503
    process.send_signal(first)
    wait_for((tmp_path / "run" / "card.md").exists)  # closed: the upload is all that is left
    time.sleep(SAME_WISH_SECONDS + 0.2)
    process.send_signal(signal.SIGTERM)
    wait_for(lambda: process.poll() is not None)
    assert process.returncode in (128 + first, 128 + signal.SIGTERM)


def test_wrong_stores_are_refused_before_training(
    relay: Relay, url: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    def refused(store: str, said: str) -> None:
        ended = terminal(*WORDS, f"--store={store}")
        assert ended.code == 2
        assert len(ended.err.splitlines()) == 1
        assert said in ended.err
        assert not os.listdir()

    refused("s3://no-such-bucket/run", "the bucket of s3://no-such-bucket/run does not exist")
    with monkeypatch.context() as patch:
        for name in KEYS:
            patch.delenv(name)
        refused(url, "there are no credentials for")
    with monkeypatch.context() as patch:
        patch.setattr(relay, "fails", lambda method, path: 403)
        refused(url, "does not take these credentials")
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
        begun = time.monotonic()
        refused(url, "cannot be used (Could not connect")
        assert time.monotonic() - begun < 60
