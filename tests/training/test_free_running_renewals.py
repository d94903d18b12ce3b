"""Slow environments of one pool, whose renewals have to wait for each other."""

import importlib.util
from pathlib import Path

import pytest
from campaigns import FAULTS
from typed_commands import drumline


@FAULTS
@pytest.mark.skipif(importlib.util.find_spec("envpool") is None, reason="EnvPool exists for Linux")
def test_environments_that_drift_apart_meet_at_every_renewal(tmp_path: Path):
    shape = ["--num-envs=4", "--batch=4", "--alpha=5", "--renew-intervals=10", "--hidden", "4"]
    more = ["--evaluate-every=0", "--evaluate-episodes=1", "--quiet", "--out=run"]
    words = ["train", "impala", "CartPole-v1", "--engine=envpool", "--step-time=straggler:200us,4"]
    steps = ["--total-steps=800", "--pool=inline", "--no-tensorboard"]
    done = drumline(*words, *shape, *steps, *more, cwd=tmp_path)  # stops waiting after two minutes
    assert done.returncode == 0, done.stderr
