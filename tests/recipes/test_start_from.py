"""`--start-from`: a training begins with the policy of another, through stops and without it."""

import json
import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drumline.api.run import Run, configure, load, train
from drumline.commands.config_file import read_config_file
from drumline.commands.rebuild import rebuild
from drumline.policies.actions import ActionHead
from drumline.policies.first_policy import UNKNOWN_WEIGHT, difference
from drumline.policies.first_policy import trained as trained_from
from drumline.policies.heads import Head
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.spec import REFERENCE, PolicySpec
from drumline.populations.cem_rl import GenerationPopulation
from drumline.recipes.actor_critic import parts_of
from drumline.recipes.first_policies import trained_policy
from drumline.recipes.hts import HTS
from drumline.recipes.methods import find_method
from drumline.recipes.searched_policy import environment_and_policy
from drumline.runs.folder import RunError
from drumline.runs.policy_files import encoded_policy, read_policy
from drumline.runs.start_policy import recorded, start_policy
from drumline.stores.fetch import fetched
from drumline.stores.object_store import ObjectStore
from drumline.training.stopped import Stopped
from drumline.types import Moments

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

ENV = "InvertedPendulum-v5"
ALL = {"evaluate_every": 0, "evaluate_episodes": 1}
MEMBERS = {"population_size": 4, "elites": 2, "hidden": (8,)}
REFINED = {"hidden": (8,), "warmup_steps": 20, "batch_size": 8}
INTERVALS = {
    "total_steps": 256,
    "num_envs": 4,
    "alpha": 16,
    "hidden": (8,),
    "normalize_observations": True,
    "engine": "gymnasium",
}
FIELDS: Mapping[str, Any] = {
    "es": {"population_size": 4, "obs_stat_probability": 1.0},
    "ars": {"population_size": 4},
    "cem": MEMBERS,
    "aes": {**REFINED, "mean_evaluations": 1, "critic_batches": 10, "concurrency": 2},
    "cem-rl": {**REFINED, **MEMBERS, "refined_members": 2},
    "p-cem-rl": {**REFINED, **MEMBERS, "refined_members": 2, "concurrency": 2},
    "erl": {"hidden": (8,), "critic_hidden": (8,), "batch_size": 8, "population_size": 3},
    "td3": {"hidden": (8,), "batch_size": 8, "steps_per_update": 50, "random_steps": 30},
    "hts": {**INTERVALS, "minibatches": 2},
    "ppo": {**INTERVALS, "minibatches": 2},
    "a2c": INTERVALS,
    "impala": {**INTERVALS, "batch": 2},
}
NORMALIZED = ("es", "ars", "hts", "ppo", "a2c", "impala")
CRITICS = ("td3", "aes", "cem-rl", "p-cem-rl", "erl")
MOMENTS = ("observation_mean", "observation_inverse_std")


def config_of(method: str, **fields: Any) -> Any:
    given = {"total_steps": 200, **ALL, **FIELDS[method], **fields}
    return configure(method, ENV, preset=None, **given)


def trained(config: Any, out: Path, **more: Any) -> Run:
    return train(config, out=out, workers="inline", **more)


def tensors(run: Run, policy: str) -> dict[str, np.ndarray]:
    return read_policy(run.folder, policy).tensors


def fingerprints(run: Run) -> str:
    return run.folder.fingerprints_csv.read_text()


@pytest.mark.parametrize("method", FIELDS)
def test_the_first_version_is_the_trained_policy(method: str, tmp_path: Path):
    first = trained(config_of(method), tmp_path / "first")
    more = config_of(method, seed=7, start_from=first)
    begun = trained(more, tmp_path / "begun", last_update=0)
    before, after = tensors(first, "best"), tensors(begun, "last")
    np.testing.assert_array_equal(after["parameters"], before["parameters"])
    assert (method in CRITICS) == ("critics" in before)
    if method in CRITICS:
        np.testing.assert_array_equal(after["critics"], before["critics"])
    assert (method in NORMALIZED) == (MOMENTS[0] in before)
    if method in NORMALIZED:
        for name in MOMENTS:
            np.testing.assert_allclose(after[name], before[name], rtol=1e-12)
    drawn = trained(replace(more, start_from=""), tmp_path / "drawn", last_update=0)
    assert not np.array_equal(tensors(drawn, "last")["parameters"], before["parameters"]) or (
        method == "ars"  # which begins at zeros, and a short run need not leave them
    )


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(config_of("hts"), tmp_path_factory.mktemp("first") / "run")


@pytest.mark.parametrize("method", CRITICS)
def test_critics_in_a_policy_file_are_those_of_its_update(method: str, tmp_path: Path):
    config = config_of(method, evaluate_every=2, total_steps=300)
    run = train(config, out=tmp_path / "run", workers=2)
    best = read_policy(run.folder, "best")
    again = trained(config, tmp_path / "again", last_update=best.document["update"])
    at_that_update = tensors(again, "last")
    assert at_that_update.keys() == best.tensors.keys()
    for name, tensor in best.tensors.items():
        np.testing.assert_array_equal(tensor, at_that_update[name])


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("td3", {"critic_activation": "tanh"}),
        ("td3", {"critics": 1}),
        ("td3", {"discount": 0.9}),
        ("cem-rl", {"frame_skip": 2}),
        ("aes", {"critic_activation": "relu"}),
        ("erl", {"critic_hidden": (9,)}),
    ],
)
def test_critics_that_do_not_fit_begin_anew(method: str, fields: dict[str, Any], tmp_path: Path):
    origin = trained(config_of(method), tmp_path / "origin")
    config = config_of(method, start_from=origin, **fields)
    begun = tensors(trained(config, tmp_path / "begun", last_update=0), "last")
    drawn = replace(config, start_from="")
    fresh = tensors(trained(drawn, tmp_path / "drawn", last_update=0), "last")
    np.testing.assert_array_equal(begun["critics"], fresh["critics"])
    np.testing.assert_array_equal(begun["parameters"], tensors(origin, "best")["parameters"])


def test_critics_of_a_stop_within_a_generation_are_those_of_its_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = config_of("cem-rl", total_steps=600)
    take, jobs = GenerationPopulation.take_critic, [0]

    def stopping(*arguments: Any) -> Any:
        told = take(*arguments)
        jobs[0] += 1
        if jobs[0] == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return told

    with monkeypatch.context() as patched:
        patched.setattr(GenerationPopulation, "take_critic", stopping)
        with pytest.raises(Stopped):
            trained(config, tmp_path / "stopped")
    assert jobs[0] == 5
    stopped = read_policy(load(tmp_path / "stopped").folder, "last")
    again = trained(config, tmp_path / "again", last_update=stopped.document["update"])
    for name, tensor in tensors(again, "last").items():
        np.testing.assert_array_equal(stopped.tensors[name], tensor)


def test_damaged_critics_are_refused(tmp_path: Path):
    origin = trained(config_of("td3"), tmp_path / "origin")
    for critics in (np.full_like(tensors(origin, "best")["critics"], np.nan), np.zeros(3)):
        file = rewritten(origin, tmp_path / "policy.safetensors", critics=critics)
        with pytest.raises(ValueError, match=r"its critics are no finite numbers \[K, P\]"):
            trained(config_of("td3", start_from=file), tmp_path / "run")


@pytest.mark.parametrize("method", ["hts", "es", "td3"])
def test_a_stopped_run_goes_on_without_the_run_that_it_started_from(method: str, tmp_path: Path):
    origin = trained(config_of(method), tmp_path / "origin")
    config = config_of(method, seed=3, start_from=origin)
    whole = trained(config, tmp_path / "whole")
    stopped = trained(config, tmp_path / "stopped", last_update=1)
    unbegun = trained(config, tmp_path / "unbegun", last_update=0)
    shutil.rmtree(unbegun.path / "checkpoints", ignore_errors=True)  # as a kill leaves it
    for path in unbegun.path.iterdir():
        if path.is_file() and path.name not in ("config.json", "policy-start.safetensors"):
            path.unlink()
    shutil.rmtree(origin.path)
    for run in (stopped, unbegun):
        gone_on = load(run.path).resume(workers="inline")
        assert fingerprints(gone_on) == fingerprints(whole)


def test_processes_change_no_bit(first: Run, tmp_path: Path):
    config = config_of("hts", start_from=first)
    inline = trained(config, tmp_path / "inline")
    several = train(config, out=tmp_path / "several", executors=2, actors=1)
    shards = replace(config, learners=2)
    alone = trained(shards, tmp_path / "alone")
    groups = train(shards, out=tmp_path / "groups", nodes=2)
    assert fingerprints(several) == fingerprints(inline)
    assert fingerprints(groups) == fingerprints(alone)


def test_a_search_is_rebuilt_from_the_policy_that_it_started_from(tmp_path: Path):
    origin = trained(config_of("es"), tmp_path / "origin")
    config = config_of("es", seed=1, start_from=origin, total_steps=400)
    run = train(config, out=tmp_path / "run", workers="inline", keep_scalars=True)
    shutil.rmtree(origin.path)
    shutil.rmtree(run.path / "checkpoints")
    rebuilt = rebuild(run.folder)
    assert rebuilt.compared
    last = tensors(run, "last")["parameters"]
    np.testing.assert_array_equal(rebuilt.published["parameters"], last)


def test_the_copy_travels_to_a_store_and_back(first: Run, tmp_path: Path):
    url = f"file://{tmp_path}/objects/run"
    config = config_of("hts", start_from=first)
    run = trained(config, tmp_path / "run", store=url)
    back = fetched(ObjectStore(url), tmp_path / "back")
    name = "policy-start.safetensors"
    data = first.folder.policy_tensors("best").read_bytes()
    assert (back / name).read_bytes() == (run.path / name).read_bytes() == data


def test_python_takes_a_run_a_path_and_a_name(first: Run, monkeypatch: pytest.MonkeyPatch):
    file = first.folder.policy_tensors("last")
    monkeypatch.chdir(first.path.parent)
    for given, meant in (
        (first, str(first.path)),
        (file, str(file)),
        (str(file), str(file)),
        ("run", "run"),
    ):
        assert config_of("hts", start_from=given).start_from == meant
    method = find_method("hts")
    resolved = method.resolved(config_of("hts", start_from="run")).start_from
    assert resolved.startswith("run/policy-best.safetensors#")
    again = method.resolved(config_of("hts", start_from=resolved))
    assert again.start_from == resolved
    with pytest.raises(ValueError, match=r"start_from takes a run or the path .*, got a int"):
        config_of("hts", start_from=3)


def test_a_run_without_a_best_policy_gives_its_last(tmp_path: Path):
    stopped = trained(config_of("hts"), tmp_path / "stopped", last_update=0)
    stopped.folder.policy_tensors("best").unlink(missing_ok=True)
    assert recorded(str(stopped.path)).rpartition("#")[0].endswith("policy-last.safetensors")
    stopped.folder.policy_tensors("last").unlink()
    with pytest.raises(RunError, match="has no policy to start from until its first evaluation"):
        recorded(str(stopped.path))


def test_another_file_in_its_place_is_refused(first: Run, tmp_path: Path):
    file = tmp_path / "policy.safetensors"
    shutil.copy(first.folder.policy_tensors("best"), file)
    name = recorded(str(file))
    shutil.copy(first.folder.policy_tensors("last"), file)
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(RunError, match="is not the policy that the run started from"):
        start_policy(name)
    file.unlink()
    with pytest.raises(RunError, match=r"cannot read the policy .*--start-from takes a policy"):
        start_policy(name)


def test_a_policy_that_is_replaced_meanwhile_is_the_same_for_all_seeds(first: Run, tmp_path: Path):
    file = tmp_path / "policy.safetensors"
    shutil.copy(first.folder.policy_tensors("best"), file)
    name = recorded(str(file))
    before = start_policy(name).tensors["parameters"]
    rewritten(first, file, parameters=before + 1)
    np.testing.assert_array_equal(start_policy(name).tensors["parameters"], before)


@pytest.mark.parametrize(
    ("method", "fields", "fault"),
    [
        ("es", {"hidden": (8,)}, "its network has a value function, and this method's has none"),
        ("hts", {"hidden": (9,)}, "hidden of its policy: 8; here: 9"),
        ("ppo", {"normalize_observations": False}, "normalize of its policy: True; here: False"),
        ("hts", {"env": "Pendulum-v1"}, "observation shape of its policy: 4; here: 3"),
        ("a2c", {"env": "CartPole-v1"}, "actions of its policy: kind gaussian"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused_and_leaves_nothing(
    method: str, fields: dict[str, Any], fault: str, first: Run, tmp_path: Path
):
    config = replace(config_of(method, start_from=first), **fields)
    with pytest.raises(ValueError, match=f"best.safetensors does not fit this run: {fault}"):
        trained(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_search_gives_no_value_function(tmp_path: Path):
    searched = trained(config_of("es"), tmp_path / "first")
    with pytest.raises(ValueError, match="its network has no value function, and this method's"):
        trained(config_of("ppo", start_from=searched), tmp_path / "run")


def rewritten(run: Run, out: Path, **changed: np.ndarray | None) -> Path:
    """Write the best policy of a run with other tensors."""
    stored = read_policy(run.folder, "best")
    found = {**stored.tensors, **changed}
    kept = {name: tensor for name, tensor in found.items() if tensor is not None}
    out.write_bytes(encoded_policy(kept, stored.document)[0])
    return out


def test_a_damaged_policy_is_refused(first: Run, tmp_path: Path):
    nan = np.full_like(tensors(first, "best")["parameters"], np.nan)
    for changed, fault in (
        ({"parameters": nan}, "no vector of finite parameters"),
        ({"parameters": nan[:-1] * 0 + 1}, "no vector of finite parameters"),
        ({"parameters": np.ones(7, np.float32)}, "it has 7 parameters, and not"),
        ({"observation_mean": None}, "it has no observation_mean of 4 finite numbers"),
        ({"observation_inverse_std": np.ones(3)}, "it has no observation_inverse_std of 4"),
    ):
        file = rewritten(first, tmp_path / "policy.safetensors", **changed)
        with pytest.raises(ValueError, match=fault):
            trained(config_of("hts", start_from=file), tmp_path / "run")
    file.write_bytes(b"no safetensors")
    with pytest.raises(RunError, match="cannot read the policy"):
        trained(config_of("hts", start_from=file), tmp_path / "run")


def test_moments_weigh_as_many_observations_as_they_were_made_of(tmp_path: Path):
    for method, share in (("hts", 1.0), ("es", 0.25)):
        fields = {"obs_stat_probability": share} if method == "es" else {}
        config = config_of(method, **fields)
        run = trained(config, tmp_path / method)
        stored = read_policy(run.folder, "best")
        found = first_moments(replace(config, start_from=str(run.path)))
        assert found is not None
        assert found.count == stored.document["env_steps"] * share > 1


def test_moments_of_nothing_begin_anew(first: Run, tmp_path: Path):
    plain = {"observation_mean": np.zeros(4), "observation_inverse_std": np.ones(4)}
    file = rewritten(first, tmp_path / "policy.safetensors", **plain)
    assert first_moments(config_of("hts", start_from=file)) is None


def first_moments(config: Any) -> Moments | None:
    method = find_method("hts" if isinstance(config, HTS) else "es")
    if isinstance(config, HTS):
        found = parts_of(method.resolved(config)).first
    else:
        policy = environment_and_policy(config, config.policy, config.hidden)[1]
        found = trained_policy(config, policy)
    assert found is not None
    return found.moments


def test_moments_of_files_without_env_steps_have_a_weight(first: Run):
    stored = read_policy(first.folder, "best").tensors
    spec = parts_of(config_of("hts")).network
    moments = trained_from(stored, spec).moments
    assert moments is not None
    assert moments.count == UNKNOWN_WEIGHT
    variance = 1.0 / np.square(stored["observation_inverse_std"])
    np.testing.assert_allclose(moments.squares / moments.count, variance, rtol=1e-12)
    constant = {**stored, "observation_inverse_std": np.zeros(4)}  # as ars has them
    moments = trained_from(constant, spec).moments
    assert moments is not None
    np.testing.assert_array_equal(moments.squares, 0.0)


def test_what_says_nothing_about_parameters_may_differ():
    low, high = Head("continuous", (-1.0,), (1.0,), (1,)), Head("continuous", (-9.0,), (9.0,), (1,))
    assert not difference(PolicySpec(3, low, zero_init=True), PolicySpec(3, high))
    assert difference(PolicySpec(3, low), PolicySpec(3, Head("discrete", choices=1)))
    head = ActionHead("categorical", (2,))
    images = [NetworkSpec((4, 84, 84), "|u1", head, "nature-cnn", hidden) for hidden in ((), (8,))]
    assert not difference(*images)
    doubles, singles = (NetworkSpec((3,), dtype, head) for dtype in ("<f8", "<f4"))
    assert not difference(doubles, singles)
    assert difference(doubles, NetworkSpec((3,), "|u1", head))


def test_a_reference_batch_comes_with_its_policy(tmp_path: Path):
    fields = {"normalization": "virtual-batch", "hidden": (8,)}
    origin = trained(config_of("es", **fields), tmp_path / "origin")
    begun = config_of("es", seed=9, start_from=origin, **fields)
    run = trained(begun, tmp_path / "run", last_update=0)
    before, after = tensors(origin, "best"), tensors(run, "last")
    for name in ("parameters", REFERENCE):
        np.testing.assert_array_equal(after[name], before[name])


def test_an_objective_goes_on_from_the_vector_of_another_run(tmp_path: Path):
    fields = {"total_steps": 400, "dimensions": 6, "population_size": 4, **ALL}
    config = configure("es", objective="objectives:noisy_sphere", **fields)
    origin = trained(config, tmp_path / "origin")
    begun = trained(replace(config, start_from=origin), tmp_path / "run", last_update=0)
    np.testing.assert_array_equal(begun.parameters("last"), origin.parameters("best"))
    with pytest.raises(ValueError, match="it has 6 parameters, and not 7"):
        trained(replace(config, dimensions=7, start_from=origin), tmp_path / "four")
    with pytest.raises(ValueError, match="the parameters of an objective, which acts nowhere"):
        trained(config_of("es", start_from=origin), tmp_path / "acts")
    of_policy = trained(config_of("es"), tmp_path / "policy")
    with pytest.raises(ValueError, match="it holds a policy for an environment"):
        trained(replace(config, start_from=of_policy), tmp_path / "other")


def test_what_is_frozen_in_a_module_comes_with_its_trained_rest(tmp_path: Path):
    fields = {"total_steps": 40, "population_size": 4, "policy": "torch_objectives:Regressor"}
    config = configure("es", objective="torch_objectives:fit", **fields, **ALL)
    origin = trained(config, tmp_path / "origin")
    inputs = torch.from_numpy(np.random.default_rng(0).standard_normal((5, 3), np.float32))
    outputs = origin.module("best")(inputs).detach()
    begun = replace(config, start_from=origin, seed=1)
    run = trained(begun, tmp_path / "run", last_update=0)
    assert torch.equal(run.module("last")(inputs).detach(), outputs)
    with pytest.raises(ValueError, match=r"its --trainable is '', and here it is 'outer'"):
        trained(replace(begun, trainable="outer"), tmp_path / "other")
    other = "torch_objectives:Exchanged"
    with pytest.raises(ValueError, match=f"torch_objectives:Regressor, and here it is {other}"):
        trained(replace(begun, policy=other), tmp_path / "module")


def test_a_damaged_objective_is_refused(tmp_path: Path):
    fields = {"total_steps": 400, "dimensions": 6, "population_size": 4, **ALL}
    config = configure("es", objective="objectives:noisy_sphere", **fields)
    origin = trained(config, tmp_path / "origin")
    for damage in (None, np.full(6, np.nan, np.float32), np.zeros((2, 3), np.float32)):
        file = rewritten(origin, tmp_path / "policy.safetensors", parameters=damage)
        with pytest.raises(ValueError, match="it has no vector of finite parameters"):
            trained(replace(config, start_from=file), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_policy_without_a_head_is_damaged(first: Run, tmp_path: Path):
    searched = trained(config_of("es"), tmp_path / "first")
    stored = read_policy(searched.folder, "best")
    document = {**stored.document, "policy": {**stored.document["policy"], "head": None}}
    file = tmp_path / "policy.safetensors"
    file.write_bytes(encoded_policy(stored.tensors, document)[0])
    with pytest.raises(ValueError, match="does not fit this run: it is damaged"):
        trained(config_of("es", start_from=file), tmp_path / "run")


def test_values_in_another_order_are_other_observations():
    head = Head("discrete", choices=2)
    first, last = (PolicySpec(24, head, flattened=shape) for shape in ((2, 3, 4), (3, 4, 2)))
    assert difference(first, last) == "flattened of its policy: 2 3 4; here: 3 4 2"
    assert not difference(PolicySpec(24, head), last)
    assert not difference(first, PolicySpec(24, head))


def test_a_policy_file_says_the_shape_that_was_flattened(tmp_path: Path):
    config = configure("cem", "byte_environment:Bytes", **ALL, **MEMBERS, total_steps=40)
    run = trained(config, tmp_path / "run")
    assert read_policy(run.folder, "best").document["policy"]["flattened"] == [2, 3]
    vectors = trained(config_of("cem"), tmp_path / "vectors")
    assert "flattened" not in read_policy(vectors.folder, "best").document["policy"]


def test_the_config_of_a_run_brings_its_copy(first: Run, tmp_path: Path):
    origin = shutil.copytree(first.path, tmp_path / "origin")
    run = trained(config_of("hts", start_from=origin), tmp_path / "run")
    shutil.rmtree(origin)
    fields = read_config_file(run.path / "config.json", "hts")
    again = trained(configure("hts", preset=None, **fields), tmp_path / "again")
    assert fingerprints(again) == fingerprints(run)


def test_a_run_that_was_killed_before_the_copy_makes_it(first: Run, tmp_path: Path):
    run = trained(config_of("hts", start_from=first), tmp_path / "run", last_update=1)
    (run.path / "policy-start.safetensors").unlink()
    load(run.path).resume(workers="inline")
    data = first.folder.policy_tensors("best").read_bytes()
    assert (run.path / "policy-start.safetensors").read_bytes() == data


def test_folders_of_before_start_from_nothing(first: Run, tmp_path: Path):
    old = shutil.copytree(first.path, tmp_path / "old")
    document = json.loads((old / "config.json").read_text())
    del document["config"]["start_from"]
    (old / "config.json").write_text(json.dumps(document))
    assert load(old).config.start_from == ""
