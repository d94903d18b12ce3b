"""Settings of torch that an environment makes hold for nothing that computes beside it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from campaigns import cases

import drumline
from drumline.functional.torch_devices import Arithmetic

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SMALL: dict[str, Any] = {"hidden": (4,), "evaluate_every": 0, "evaluate_episodes": 2}
OWN = {**SMALL, "network": "actor_critic_networks:Plain", "num_envs": 2, "alpha": 10}
STREAM = {**SMALL, "replay_size": 60, "batch_size": 4, "total_steps": 60}
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ppo": ({**OWN, "total_steps": 60, "minibatches": 2}, {"executors": 2}),
    "hts": ({**OWN, "total_steps": 60, "minibatches": 2}, {"executors": 2}),
    "td3": ({**STREAM, "steps_per_update": 20, "random_steps": 20}, {"workers": 1}),
    "aes": ({**STREAM, "warmup_steps": 20, "critic_batches": 10}, {"workers": 2}),
}
ENVIRONMENTS = ["AtFirstReset", "AtEveryReset", "AtFirstStep"]


def chain(method: str, env: str, layout: dict[str, Any], out: Path) -> bytes:
    fields, _ = METHODS[method]
    run = drumline.train(method, f"torch_setting_environment:{env}", out=out, **fields, **layout)
    return run.folder.fingerprints_csv.read_bytes()


@pytest.mark.parametrize("env", ENVIRONMENTS)
@pytest.mark.parametrize("method", cases(METHODS, quick=["ppo"]))
def test_runs_in_one_process_and_in_several_have_the_same_bits(
    method: str, env: str, tmp_path: Path
):
    before = Arithmetic.now()
    inline = chain(method, env, {"pool": "inline"}, tmp_path / "inline")
    assert Arithmetic.now() == before
    assert chain(method, env, METHODS[method][1], tmp_path / "processes") == inline
    assert chain(method, "Plain", {"pool": "inline"}, tmp_path / "plain") == inline


def test_all_settings_are_put_back():
    before = Arithmetic.now()
    try:
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_flush_denormal(True)
        assert Arithmetic.now() != before
    finally:
        before.set()
    assert Arithmetic.now() == before
    assert torch.ones(1).device.type == "cpu"
