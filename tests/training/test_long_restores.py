"""A restore of environments may last longer than any limit, and shows how far it has come."""

import dataclasses
import io
from pathlib import Path

import pytest
from campaigns import FAULTS
from whole_runs import lasting_bytes, run_on

from drumline.api.foreign_code import CodeTrust
from drumline.api.run import resume
from drumline.display.plain import PlainLines
from drumline.recipes.hts import HTS
from drumline.recipes.td3 import TD3
from drumline.training import restore_note
from drumline.training.layout import RotationLayout, StreamLayout
from drumline.training.rotation_run import RotationRun
from drumline.training.stream_run import StreamRun

ENDLESS = "impure_environment:EndlessAndSlow"
SMALL = {"hidden": (4,), "evaluate_every": 0, "evaluate_episodes": 2}
FINGERPRINTS = ("fingerprints.csv",)
HTS_RUN = HTS(env=ENDLESS, total_steps=192, num_envs=4, alpha=6, minibatches=1, **SMALL)

TRUSTED = CodeTrust(True)


@pytest.fixture(autouse=True)
def no_last_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """An episode of this environment has no end, so no evaluation has one."""
    for run in (RotationRun, StreamRun):
        monkeypatch.setattr(run, "_evaluate_last", lambda *_: None)


@FAULTS
def test_a_restore_that_makes_progress_outlasts_the_limit_of_creations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    layout = RotationLayout(workers=1, tensorboard=False)
    folder = run_on(tmp_path / "run", HTS_RUN, layout, last_update=7)
    monkeypatch.setenv("STEP_SECONDS", "0.15")  # 4 environments × 42 steps: 25 s
    lines = io.StringIO()
    # The limit of creations is that of hangs at least.
    limits = {"hang_seconds": 15.0, "creation_seconds": 15.0}
    resume(
        folder,
        dataclasses.replace(layout, **limits),
        trust=TRUSTED,
        display=PlainLines(lines, interval_seconds=5.0),
    )
    shown = [line for line in lines.getvalue().splitlines() if "restoring environments" in line]
    assert 2 <= len(shown) <= 12
    assert " of 168 env steps replayed" in shown[0]
    assert len(set(shown)) == len(shown)
    assert "replaced by pid" not in lines.getvalue()


def test_a_restore_in_the_driver_shows_how_far_it_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    layout = RotationLayout(pool="inline", tensorboard=False)
    whole = run_on(tmp_path / "whole", HTS_RUN, layout)
    folder = run_on(tmp_path / "run", HTS_RUN, layout, last_update=7)
    monkeypatch.setenv("STEP_SECONDS", "0.005")
    monkeypatch.setattr(restore_note, "_SECONDS", 0.1)
    lines = io.StringIO()
    resume(folder, layout, trust=TRUSTED, display=PlainLines(lines, interval_seconds=0.2))
    assert " of 168 env steps replayed" in lines.getvalue()
    assert lasting_bytes(folder, FINGERPRINTS) == lasting_bytes(whole, FINGERPRINTS)


def test_the_running_episode_of_a_single_stream_shows_how_far_it_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    layout = StreamLayout(pool="inline", tensorboard=False)
    config = TD3(
        env=ENDLESS,
        total_steps=120,
        steps_per_update=20,
        random_steps=20,
        replay_size=60,
        batch_size=4,
        **SMALL,
    )
    folder = run_on(tmp_path / "run", config, layout, last_update=5)
    monkeypatch.setenv("STEP_SECONDS", "0.01")
    monkeypatch.setattr(restore_note, "_SECONDS", 0.1)
    lines = io.StringIO()
    resume(folder, layout, trust=TRUSTED, display=PlainLines(lines, interval_seconds=0.2))
    assert " of 100 env steps replayed" in lines.getvalue()
