"""Actors of a user's own (`--network module:Class`): trained, resumed and saved as MLPs are."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from campaigns import FAULTS, cases
from recipes.small_configs import small_configs
from typed_commands import environ

from drumline.api.foreign_code import TRUSTED
from drumline.api.run import Run, load, resume, train
from drumline.commands.verify import verify_again
from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.recipes.learned_actor import learned_actor
from drumline.recipes.methods import config_from
from drumline.training.layout import Layout, SteadyLayout

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

ENV = "InvertedPendulum-v5"
OWN = "actor_critic_networks:Plain"
ALL: dict[str, Any] = {"env": ENV, "network": OWN, "hidden": (8,), "evaluate_episodes": 2}
CONFIGS = small_configs(ALL, replay_size=120)
INLINE = {
    name: (SteadyLayout if name in ("aes", "p-cem-rl") else Layout)(
        pool="inline", tensorboard=False
    )
    for name in CONFIGS
}
LASTING = ("fingerprints.csv", "episodes.csv", "policy-last.safetensors")


def lasting_bytes(run: Run) -> dict[str, bytes]:
    return {n: (run.path / n).read_bytes() for n in LASTING if (run.path / n).exists()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    out = tmp_path_factory.mktemp("own")
    return {
        name: train(config, layout=INLINE[name], out=out / name) for name, config in CONFIGS.items()
    }


@pytest.mark.parametrize("name", cases(CONFIGS, quick=["td3"]))
def test_a_resumed_run_equals_an_uninterrupted_one(
    name: str, tmp_path: Path, trained: dict[str, Run]
):
    first = train(CONFIGS[name], layout=INLINE[name], out=tmp_path / "run", last_update=1)
    again = resume(first.folder, INLINE[name], trust=TRUSTED)
    assert lasting_bytes(again) == lasting_bytes(trained[name])


@FAULTS
def test_workers_in_processes_change_no_bit(trained: dict[str, Run]):
    layout = SteadyLayout(workers=2, tensorboard=False)
    assert verify_again(trained["aes"].folder, 3, layout, TRUSTED)[1] is None


@FAULTS
def test_a_killed_run_goes_on_to_the_bits_of_a_whole_one(tmp_path: Path):
    words = f"aes {ENV} --network {OWN} --hidden 8 --no-tensorboard --evaluate-episodes 2"
    command = [sys.executable, "-m", "drumline", "train", *words.split(), "--total-steps=3000"]
    started = [*command, "--workers=2", "--out=killed"]
    with subprocess.Popen(started, cwd=tmp_path, env=environ(), stdout=subprocess.DEVNULL) as run:
        rows, until = tmp_path / "killed" / "metrics.csv", time.monotonic() + 90
        while not rows.exists() or rows.read_bytes().count(b"\n") < 8:
            assert run.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        run.kill()
    folder = load(tmp_path / "killed", trust_code=True).folder
    recorded = config_from(folder.document)
    whole = train(recorded, layout=INLINE["aes"], out=tmp_path / "whole")
    again = resume(folder, INLINE["aes"], trust=TRUSTED)
    assert lasting_bytes(again) == lasting_bytes(whole)


@pytest.mark.parametrize(
    ("name", "network", "said"),
    [
        ("td3", "DrawsInForward", "draws random numbers in forward"),
        ("aes", "DrawsInForward", "draws random numbers in forward"),
        ("td3", "OutputsSqueezed", r"for two observations it returned \[2\]"),
        ("td3", "AllFrozen", "so there is nothing to train"),
        ("aes", "PartlyFrozen", r"without gradients \(hidden.weight, hidden.bias\), which the se"),
        ("cem-rl", "PartlyFrozen", "without gradients"),
        ("p-cem-rl", "PartlyFrozen", "without gradients"),
        ("cem", "PartlyFrozen", "without gradients"),
    ],
)
def test_a_module_that_a_method_cannot_move_as_it_should_is_refused(
    name: str, network: str, said: str, tmp_path: Path
):
    config = replace(CONFIGS[name], network=f"actor_critic_networks:{network}")
    with pytest.raises(ValueError, match=f"^--network 'actor_critic_networks:{network}'.*{said}"):
        train(config, layout=INLINE[name], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_frozen_parameters_stay_where_only_gradients_move(tmp_path: Path):
    config = replace(CONFIGS["td3"], network="actor_critic_networks:PartlyFrozen")
    run = train(config, layout=INLINE["td3"], out=tmp_path / "run")
    first = learned_actor(config, searches=False).first_parameters(config.seed)
    frozen = 16 * 5
    assert np.array_equal(run.policy.vector[:frozen], first[:frozen])
    assert not np.array_equal(run.policy.vector[frozen:], first[frozen:])


def test_a_search_takes_a_module_that_is_frozen_as_a_whole(tmp_path: Path):
    config = replace(CONFIGS["cem"], network="actor_critic_networks:AllFrozen")
    run = train(config, layout=INLINE["cem"], out=tmp_path / "run")
    first = learned_actor(config, differentiates=False).first_parameters(0)
    assert not np.array_equal(run.policy.vector, first)


@pytest.mark.parametrize("frozen", ["PartlyFrozen", "AllFrozen"])
def test_es_searches_all_of_a_module_or_refuses_it(frozen: str, tmp_path: Path):
    config = ES(
        env=ENV,
        policy=f"torch_policies:{frozen}",
        total_steps=40,
        population_size=4,
        noise_table_size=4096,
        evaluate_episodes=1,
    )
    if frozen == "AllFrozen":
        assert train(config, workers="inline", out=tmp_path / "run").metrics
        return
    with pytest.raises(ValueError, match=r"^--policy .* without gradients \(0.weight, 0.bias\)"):
        train(config, workers="inline", out=tmp_path / "run")


@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_trained_is_the_module(name: str, trained: dict[str, Run]):
    policy = trained[name].policy
    first = learned_actor(CONFIGS[name]).first_parameters(CONFIGS[name].seed)
    assert policy.spec.module == OWN
    assert policy.parameter_count == first.size == 16 * 5 + 17 + 17
    assert not np.array_equal(policy.vector, first)


@pytest.mark.parametrize("name", ["td3", "cem"])
def test_the_saved_policy_acts_as_its_torch_module_does(name: str, trained: dict[str, Run]):
    policy = trained[name].policy
    batch = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    theirs = policy.to_torch()(torch.from_numpy(batch)).numpy()
    np.testing.assert_allclose(theirs, policy.act(batch), rtol=1e-4, atol=1e-5)
    result = trained[name].evaluate(episodes=2)
    assert len(result.returns) == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"network": "resnet"}, "--network 'resnet' is neither mlp nor package.module:Class"),
        ({"network": OWN, "policy": "linear"}, "--policy linear contradicts --network"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changed: dict[str, str], message: str):
    with pytest.raises(ValueError, match=message):
        AES(env=ENV, **changed)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("OneOutputTooMany", r"outputs \[N, 1\], alone or with values \[N\].*\[2, 2\]"),
        ("Recurrent", r"recurrent layer, GRU \('memory'\).*FrameStackObservation"),
        ("KeepsState", "gives another result for the same observation after others"),
        ("ReturnsItsState", r"must return outputs \[N, 1\], alone or with values \[N\]"),
        ("WithIntegers", "float32, and 'counts' is int64"),
        ("SharesStorage", "share storage .*use it twice in forward"),
        ("WithBatchNorm", "buffers .*LayerNorm"),
        ("NoParameters", "no parameters"),
        ("ForwardRaises", r"fails on two observations of zeros \[2, 4\]"),
        ("Absent", "cannot be imported"),
    ],
)
def test_a_module_that_cannot_serve_is_one_sentence(network: str, message: str):
    config = replace(CONFIGS["td3"], network=f"actor_critic_networks:{network}")
    with pytest.raises(ValueError, match=f"(?s)--network.*{network}.*{message}") as refused:
        config.build(INLINE["td3"])
    assert "\n" not in str(refused.value)
