"""Exported policies give the policy's actions; batches and torch modules too."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from campaigns import SLOW, cases
from typed_commands import TINY, Terminal

import drumline
from drumline.commands import exported_files
from drumline.recipes.a2c import A2C
from drumline.recipes.ars import ARS
from drumline.recipes.es import ES
from drumline.recipes.td3 import TD3
from drumline.runs.folder import RunError

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.usefixtures("unchecked_shapes")
LESS: dict[str, Any] = {"evaluate_every": 0, "evaluate_episodes": 2}
SEARCH = {**LESS, "total_steps": 40, "population_size": 4, "noise_table_size": 1 << 16}
ROLLOUTS = {**LESS, "total_steps": 64, "num_envs": 4, "alpha": 16, "engine": "gymnasium"}
PENDULUM = "InvertedPendulum-v5"
STREAM: dict[str, Any] = {
    **LESS,
    "total_steps": 40,
    "steps_per_update": 20,
    "random_steps": 20,
    "batch_size": 4,
    "hidden": (8,),
    "replay_size": 40,
}
CONFIGS: dict[str, Any] = {
    "discrete": ES(env="CartPole-v1", hidden=(4,), **SEARCH),
    "continuous": ES(env="Pendulum-v1", hidden=(4,), **SEARCH),
    "bins": ES(env="Swimmer-v5", hidden=(4,), action_bins="uniform:5", **SEARCH),
    "linear": ARS(env=PENDULUM, **SEARCH),
    "module": ES(env=PENDULUM, policy="torch_policies:TanhNetwork", **SEARCH),
    "squashed": TD3(env="Pendulum-v1", **STREAM),
    "own actor": TD3(env=PENDULUM, network="actor_critic_networks:Plain", **STREAM),
    "actor-critic": A2C(env="CartPole-v1", normalize_observations=True, **ROLLOUTS),
    "gaussian": A2C(env="Pendulum-v1", **ROLLOUTS),
    "several choices": A2C(env="lane_environments:shifted_choices", **ROLLOUTS),
    "searched images": ES(
        env="arguments_environment:Pictured",
        policy="a3c-cnn",
        **{**SEARCH, "noise_table_size": 1 << 20},
    ),
    "images": A2C(env="arguments_environment:Pictured", network="nature-cnn", **ROLLOUTS),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, drumline.Run]:
    out = tmp_path_factory.mktemp("trained")
    return {
        name: drumline.train(config, workers="inline", out=out / name.replace(" ", "-"))
        for name, config in CONFIGS.items()
    }


def observations(policy: Any, count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    shape = (count, *policy.observation_shape)
    network = getattr(policy.spec, "network", policy.spec)
    if getattr(network, "observation_dtype", "") == "|u1" or getattr(network, "image", ()):
        return rng.integers(0, 256, shape, dtype=np.uint8)
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("name", CONFIGS)
def test_an_action_of_a_batch_is_that_of_its_observation_alone(
    name: str, trained: dict[str, drumline.Run]
):
    policy = trained[name].policy
    batch = observations(policy, 7)
    actions = policy.act(batch)
    alone = [np.asarray(policy.act(row)) for row in batch]
    assert actions.tobytes() == np.stack(alone).tobytes()
    assert len(policy.act(batch[:1])) == 1


@pytest.mark.parametrize("name", CONFIGS)
def test_the_torch_module_has_the_policys_actions(name: str, trained: dict[str, drumline.Run]):
    policy = trained[name].policy
    batch = observations(policy, 9)
    module = policy.to_torch()
    assert not any(parameter.requires_grad for parameter in module.parameters())
    theirs, ours = module(torch.from_numpy(batch)).numpy(), policy.act(batch)
    assert theirs.dtype == ours.dtype
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)


EXPORTS = [(name, flag) for name in CONFIGS for flag in ("--onnx=a.onnx", "--torch-export=a.pt2")]
QUICK = [("discrete", "--onnx=a.onnx"), ("gaussian", "--torch-export=a.pt2")]


@pytest.mark.parametrize(("name", "flag"), cases(EXPORTS, quick=QUICK, later=SLOW))
def test_a_policy_is_exported_and_compared(
    name: str, flag: str, trained: dict[str, drumline.Run], terminal: Terminal
):
    if "onnx" in flag:
        pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
    ended = terminal("export", str(trained[name].path), flag, "--policy=last", "--trust-code")
    assert ended.code == 0, ended.err
    assert "differs from the policy by" in ended.out
    silent = terminal("export", str(trained[name].path), flag, "--quiet", "--trust-code")
    assert (silent.code, silent.out) == (0, "")
    policy = trained[name].policy
    batch = observations(policy, 6)
    if "onnx" in flag:
        import onnxruntime

        session = onnxruntime.InferenceSession("a.onnx", providers=["CPUExecutionProvider"])
        actions, _ = session.run(None, {"observations": batch})
    else:
        actions, _ = torch.export.load("a.pt2").module()(torch.from_numpy(batch))
    np.testing.assert_allclose(np.asarray(actions), policy.act(batch), rtol=1e-4, atol=1e-5)
    assert [path.name for path in Path().glob("*a.*")] == [flag.partition("=")[2]]


@pytest.mark.parametrize("env", ["whole_numbers", "half_precision", "single_numbers"])
def test_a_policy_is_compared_on_observations_that_its_space_holds(
    env: str, tmp_path: Path, terminal: Terminal
):
    config = A2C(env=f"lane_environments:{env}", **ROLLOUTS)
    drumline.train(config, workers="inline", out=tmp_path / "run")
    ended = terminal("export", str(tmp_path / "run"), "--torch-export=a.pt2", "--trust-code")
    assert ended.code == 0, ended.err
    assert "differs from the policy by" in ended.out


def test_a_file_that_gives_nan_is_not_written(trained: dict[str, drumline.Run]):
    policy: Any = trained["continuous"].policy

    def called(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return policy.act(seen), np.full((len(seen), 1), np.nan, np.float32)

    with pytest.raises(RunError, match="gives NaN where the policy does not"):
        exported_files._compared(policy, called)


def test_an_export_that_cannot_be_is_one_sentence(terminal: Terminal):
    words = ("train", "es", PENDULUM, "--policy=torch_policies:Untraceable", *TINY, "--out=run")
    assert terminal(*words, "--quiet").code == 0
    for flag in ("--torch-export=a.pt2", "--onnx=a.onnx"):
        ended = terminal("export", "run", flag, "--trust-code")
        assert ended.code == 2
        assert len(ended.err.splitlines()) == 1
        assert "cannot export this policy's network" in ended.err
    assert "names code to import" in terminal("export", "run", "--onnx=a.onnx").err
    assert terminal("export", "run").code == 2
    assert "ends in .pt2" in terminal("export", "run", "--torch-export=a.pth").err
    searched = ("train", "es", "--objective=objectives:noisy_sphere", "--dimensions=6")
    terminal(*searched, "--total-steps=20", "--pool=inline", "--quiet", "--out=objective")
    ended = terminal("export", "objective", "--onnx=a.onnx", "--trust-code")
    assert "holds the parameters of an objective" in ended.err
    assert not list(Path().glob("*a.*"))


def test_a_batch_of_one_keeps_its_axis_where_the_file_has_the_size_alone(tmp_path: Path):
    config = ES(env="lane_environments:table", hidden=(4,), **SEARCH)
    policy = drumline.train(config, workers="inline", out=tmp_path / "run").policy
    one = policy.act(np.zeros(6))
    assert one.shape == (2,)
    for batch in (np.zeros((1, 2, 3)), np.zeros((1, 1, 6)), np.zeros((1, 6))):
        assert policy.act(batch).tobytes() == one[None].tobytes()
        assert policy.act(batch).shape == (1, 2)
    assert policy.act(np.zeros((2, 3))).shape == (2,)
    assert policy.act(np.zeros((4, 2, 3))).shape == (4, 2)


def test_a_batch_of_one_keeps_its_axis_where_the_file_has_the_shape(tmp_path: Path):
    table = A2C(env="lane_environments:table", **ROLLOUTS)
    policy = drumline.train(table, workers="inline", out=tmp_path / "table").policy
    shapes = {(2, 3): (2,), (6,): (2,), (1, 2, 3): (1, 2), (1, 6): (1, 2), (4, 2, 3): (4, 2)}
    assert {given: policy.act(np.zeros(given)).shape for given in shapes} == shapes
    number = A2C(env="lane_environments:single_numbers", **ROLLOUTS)
    policy = drumline.train(number, workers="inline", out=tmp_path / "number").policy
    assert [np.shape(policy.act(np.zeros(given))) for given in ((), (1,), (4,))] == [(), (1,), (4,)]


def test_an_own_networks_observation_may_begin_with_an_axis_of_one(tmp_path: Path):
    network = "actor_critic_networks:Plain"
    config = TD3(env="lane_environments:one_table", network=network, **STREAM)
    policy = drumline.train(config, workers="inline", out=tmp_path / "run").policy
    assert policy.act(np.zeros((1, 2, 3))).shape == (2,)
    assert policy.act(np.zeros((1, 1, 2, 3))).shape == (1, 2)


def test_an_empty_batch_is_refused(trained: dict[str, drumline.Run]):
    for run in trained.values():
        shape = run.policy.observation_shape
        with pytest.raises(ValueError, match="batch of one observation or more"):
            run.policy.act(np.zeros((0, *shape), np.uint8 if len(shape) == 3 else np.float32))


def test_what_is_no_observation_is_refused(trained: dict[str, drumline.Run]):
    with pytest.raises(ValueError, match=r"takes an observation of shape \[4\] or a batch"):
        trained["discrete"].policy.act(np.zeros(5))


def test_an_evaluation_says_what_it_evaluated(trained: dict[str, drumline.Run]):
    run = trained["discrete"]
    result = run.evaluate(episodes=4)
    low, high = result.interval or (0.0, 0.0)
    assert low < result.mean < high
    assert (result.env, result.policy) == ("CartPole-v1", "last")
    assert result.update == run.metrics[-1]["update"]
    assert run.evaluate(episodes=1).interval is None


def test_a_full_disk_under_an_export_is_one_sentence(
    trained: dict[str, drumline.Run], tmp_path: Path
):
    run = trained["images"]
    command = f"{sys.executable} -m drumline export {run.path} --torch-export {tmp_path / 'a.pt2'}"
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 8; {command} --trust-code"],
        capture_output=True,
        text=True,
        check=False,
        cwd=TESTS,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "File too large" in done.stderr
    assert "terminate" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
