"""`es` over an MLP with virtual batch normalisation: the batch belongs to the run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from campaigns import FAULTS
from doubles import KillAt
from whole_runs import lasting_bytes, run_on

import drumline
from drumline.api.foreign_code import TRUSTED
from drumline.api.run import resume, train
from drumline.api.stored_policy import load_policy
from drumline.commands.rebuild import rebuild
from drumline.commands.verify import verify_again
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.reference_frames import fill_with_random_play
from drumline.policies.virtual_batch_mlp import VirtualBatchMLP
from drumline.recipes.es import ES
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunError
from drumline.runs.policy_files import encoded_policy, read_policy, read_policy_file
from drumline.training.layout import SearchLayout

SMALL = ES(
    env="InvertedPendulum-v5",
    normalization="virtual-batch",
    total_steps=500,
    population_size=8,
    std=0.1,
    obs_stat_probability=0.5,
    noise_table_size=1 << 14,
    hidden=(8,),
    evaluate_every=3,
    evaluate_episodes=2,
)
REFERENCE = "reference_frames"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(SMALL, workers="inline", out=tmp_path_factory.mktemp("mlp") / "run")


def test_three_workers_one_of_them_killed_change_no_byte(tmp_path: Path, whole: Any):
    probe = KillAt("episode-begun", tmp_path / "flag")
    folder = run_on(tmp_path / "run", SMALL, SearchLayout(workers=3), probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder) == lasting_bytes(whole.folder)


@FAULTS
def test_one_worker_has_the_bytes_of_none(tmp_path: Path, whole: Any):
    run = train(SMALL, workers=1, out=tmp_path / "run")
    assert lasting_bytes(run.folder) == lasting_bytes(whole.folder)


def test_a_resumed_run_takes_the_batch_of_its_checkpoint_and_has_the_same_bytes(
    tmp_path: Path, whole: Any
):
    layout = SearchLayout(pool="inline")
    first = train(replace(SMALL, total_steps=200), layout=layout, out=tmp_path / "run")
    saved = read_checkpoint(first.folder).state.tensors[REFERENCE]
    assert (saved.shape, saved.dtype) == ((128, 4), np.float32)
    again = resume(first.folder, layout, total_steps=SMALL.total_steps)
    assert lasting_bytes(again.folder) == lasting_bytes(whole.folder)
    assert saved.tobytes() == read_policy(again.folder, "last").tensors[REFERENCE].tobytes()


def test_verify_evaluate_and_export_have_the_batch_too(whole: Any):
    assert verify_again(whole.folder, 2, SearchLayout(workers=1), TRUSTED) == (2, None)
    run = drumline.load(whole.path)
    assert run.evaluate(episodes=2).returns == run.evaluate(episodes=2).returns
    rows = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    module = run.policy.to_torch()
    import torch

    acted = module(torch.from_numpy(rows)).numpy()
    assert acted == pytest.approx(run.policy.act(rows), abs=1e-5)
    assert np.ptp(acted) > 1e-4


def test_a_rebuilt_generation_is_a_policy_with_its_batch(tmp_path: Path):
    layout = SearchLayout(pool="inline", keep_scalars=True)
    run = train(replace(SMALL, total_steps=200), layout=layout, out=tmp_path / "run")
    path = tmp_path / "policy.safetensors"
    path.write_bytes(rebuild(run.folder, 1, TRUSTED).policy_file)
    stored = read_policy_file(path)
    made = load_policy(stored, TRUSTED)
    assert isinstance(made, VirtualBatchMLP)
    row = np.full(4, 0.1)
    rebuilt = made.output(row).tobytes()
    made.load_reference(np.zeros_like(stored.tensors[REFERENCE]))
    assert made.output(row).tobytes() != rebuilt


def test_the_batch_is_random_play_that_follows_from_the_seed():
    spec = EnvironmentSpec(SMALL.env)
    one, same, other = (np.zeros((20, 4), np.float32) for _ in range(3))
    fill_with_random_play(one, spec, 3)
    fill_with_random_play(same, spec, 3)
    fill_with_random_play(other, spec, 4)
    assert one.tobytes() == same.tobytes() != other.tobytes()
    assert len({row.tobytes() for row in one}) == 20


@pytest.mark.parametrize(
    "options",
    [
        {"noise": "low-rank:1", "hidden": (16, 16)},
        {"subspace": 5},
        {"mirrored": False, "population_size": 7, "subset": "use"},
        {"normalize": False, "initialization": "orthogonal", "noise": "counter"},
    ],
    ids=repr,
)
def test_other_options_go_with_it_on_any_layout(options: dict[str, Any], tmp_path: Path):
    config = replace(SMALL, **options, total_steps=200)
    one = train(config, workers="inline", out=tmp_path / "one")
    two = train(config, workers=2, out=tmp_path / "two")
    assert lasting_bytes(one.folder) == lasting_bytes(two.folder)
    off = train(replace(config, normalization="none"), workers="inline", out=tmp_path / "off")
    last = read_policy(off.folder, "last")
    assert REFERENCE not in last.tensors
    assert "virtual_batch" not in last.document["policy"]


@pytest.mark.parametrize("spoil", ["without", "bytes", "shorter", "other-network", "negative"])
def test_a_policy_file_whose_batch_does_not_fit_is_damaged(spoil: str, tmp_path: Path, whole: Any):
    stored = read_policy(whole.folder, "last")
    tensors, document = dict(stored.tensors), msgspec.to_builtins(stored.document)
    if spoil == "without":
        del tensors[REFERENCE]
    elif spoil == "bytes":
        tensors[REFERENCE] = tensors[REFERENCE].astype(np.uint8)
    elif spoil == "shorter":
        tensors[REFERENCE] = tensors[REFERENCE][1:]
    elif spoil == "other-network":
        document["policy"]["hidden"] = [7]
    else:
        document["policy"]["virtual_batch"] = -1
    path = tmp_path / "policy.safetensors"
    path.write_bytes(encoded_policy(tensors, document)[0])
    words = "parameters or more" if spoil == "other-network" else "no reference batch"
    with pytest.raises(RunError, match=f"is damaged .*{words}"):
        load_policy(read_policy_file(path), TRUSTED)
