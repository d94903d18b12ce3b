"""`make smoke` finds what works, and what does not."""

import sys
from pathlib import Path

import pytest
import smoke

from drumline.runs.fingerprints import read_chain
from drumline.runs.folder import RunFolder


@pytest.mark.faults
def test_every_step_is_made_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    smoke.main(tmp_path)
    said = capsys.readouterr().out
    assert said.count("\n") == 7
    assert "es: trained, killed with SIGKILL" in said
    assert said.splitlines()[-1].startswith("installed and works: ")
    for name in ("es", "hts", "td3"):
        chain = read_chain(RunFolder.open(tmp_path / name).fingerprints_csv)
        assert len(list(chain.rows())) > 2


def test_a_command_that_fails_fails_it_with_its_words(tmp_path: Path):
    with pytest.raises(smoke.SmokeFailed, match=r"drumline resume es ended with 2:\n.*es"):
        smoke.drumline(tmp_path, "resume", "es")


def test_a_training_that_ends_before_it_can_be_killed_fails_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(smoke.SmokeFailed, match="made no 3 rows"):
        smoke.kill(tmp_path)
