"""The example that ends a run at a score."""

from pathlib import Path

import pytest


def test_a_run_ends_at_its_score_and_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import early_stopping

    monkeypatch.chdir(tmp_path)
    run = early_stopping.main(total_steps=10_000, score=-1.0)
    assert run.metrics[-1]["update"] == 20  # the first evaluation, of update 10, is read at 20
    assert run.resume(workers="inline").metrics[-1]["env_steps"] >= 10_000
