"""Learners on a device come to what those on the host come to, and mix no memory with it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import device_examples
import numpy as np
import pytest
from device_examples import (
    CONFIGS,
    DEVICES,
    STEPS,
    acted,
    learned,
    near,
    parts_on,
    refusals,
    skip_if_absent,
    stepped,
)

from drumline.recipes.learners import make_learner

TESTS = Path(device_examples.__file__).parent
HOST, DEVICE = "cpu", "cpu:0"


@pytest.fixture(scope="module")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """States of a process whose device is apart from the host."""
    out = tmp_path_factory.mktemp("pretended")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-W", "error", str(TESTS / "device_examples.py"), str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return out


def close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return skip_if_absent(request.param)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_device_path_agrees_with_the_host_to_rounding(name: str, device: str):
    expected, found = learned(name, HOST), learned(name, device)
    assert found.counters == expected.counters
    assert found.tensors.keys() == expected.tensors.keys()
    for key, array in expected.tensors.items():
        (near if device == "cuda" else close)(found.tensors[key], array)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_device_apart_from_the_host_agrees_too(name: str, pretended: Path):
    expected = learned(name, HOST).tensors
    with np.load(pretended / f"{name}.npz") as found:
        assert set(found) == set(expected)
        for key, array in expected.items():
            close(found[key], array)


def test_a_network_for_images_acts_on_the_device(pretended: Path):
    expected = acted("ppo-images", HOST)
    close(acted("ppo-images", DEVICE), expected)
    close(np.load(pretended / "acted.npy"), expected)
    np.testing.assert_array_equal(expected[:3], expected[3:6])


@pytest.mark.parametrize("name", ["ppo-mlp", "ppo-images", "a2c-mlp"])
def test_a_state_that_is_loaded_goes_on_with_the_same_bits(name: str, device: str):
    expected, found = learned(name, device), learned(name, device, through_state=True)
    for key, array in expected.tensors.items():
        np.testing.assert_array_equal(found.tensors[key], array)


@pytest.mark.parametrize("name", ["ppo-images", "a2c-mlp"])
def test_states_have_the_same_form_on_every_device(name: str, device: str):
    of_host = make_learner(parts_on(name, HOST), lambda: None)
    of_device = make_learner(parts_on(name, device), lambda: None)
    host, other = of_host.state(), of_device.state()
    assert {k: (v.dtype, v.shape) for k, v in other.tensors.items()} == {
        k: (v.dtype, v.shape) for k, v in host.tensors.items()
    }
    state = learned(name, HOST)
    of_device.load(state)
    for key, array in of_device.state().tensors.items():
        assert array.tobytes() == state.tensors[key].tobytes()
    published = of_device.published()["parameters"]
    assert published.tobytes() == state.tensors["parameters"].tobytes()


@pytest.mark.parametrize("name", STEPS)
def test_gradient_steps_of_td3_agree_on_every_device(name: str, pretended: Path):
    expected, found = stepped(name, HOST), stepped(name, DEVICE)
    assert found.keys() == expected.keys()
    with np.load(pretended / f"td3-{name}.npz") as apart:
        for key, array in expected.items():
            # The device path of the host's memory has the very operators of the host.
            assert found[key].tobytes() == array.tobytes()
            close(apart[key], array)


def test_constants_that_stay_on_the_host_are_refused_before_a_run_begins(pretended: Path):
    listed = "actor_critic_networks:ListedConstants"
    of_network, of_actor = json.loads((pretended / "refusals.json").read_text())
    for said in (of_network, of_actor):
        assert said.startswith(f"--device pretend cannot train --network {listed}: ")
        assert "got tensors of the host and of the device" in said
    assert refusals(DEVICE) == []


@pytest.mark.gpu
@pytest.mark.parametrize("name", STEPS)
def test_gradient_steps_of_td3_on_a_gpu_agree_and_repeat_themselves(name: str):
    device = skip_if_absent("cuda")
    expected, found, again = stepped(name, HOST), stepped(name, device), stepped(name, device)
    for key, array in expected.items():
        near(found[key], array)
        assert again[key].tobytes() == found[key].tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("name", CONFIGS)
def test_a_learner_on_a_gpu_repeats_itself(name: str):
    device = skip_if_absent("cuda")
    found, again = learned(name, device), learned(name, device)
    for key, array in found.tensors.items():
        assert again.tensors[key].tobytes() == array.tobytes()
    near(acted("ppo-images", device), acted("ppo-images", HOST))
