"""The network that is learned from: what acting computed, some rows at a time, or in bf16."""

from typing import Literal

import numpy as np
import pytest
import torch

from drumline.algorithms.learned_network import LearnedNetwork
from drumline.algorithms.microbatches import Microbatches
from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic import initial_parameters
from drumline.policies.inference import InferenceSpec
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.vector import FlatParameters

HEAD = ActionHead("categorical", (3,))
ROWS = NetworkSpec((4,), "<f4", HEAD, hidden=(6,))
IMAGES = NetworkSpec((4, 36, 36), "|u1", HEAD, network="nature-cnn")


def made(
    spec: NetworkSpec,
    *,
    precision: Literal["fp32", "bf16"] = "fp32",
    rows_at_once: int = 4096,
    multiple: int = 1,
    threads: int = 1,
) -> LearnedNetwork:
    microbatches = Microbatches(rows_at_once, multiple=multiple, threads=threads)
    return LearnedNetwork(
        spec, initial_parameters(spec, 1), precision=precision, microbatches=microbatches
    )


def test_it_computes_what_acting_computed():
    observations = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    inference = InferenceSpec(ROWS)()
    inference.load({"parameters": initial_parameters(ROWS, 1)})
    network = made(ROWS)
    found = network.evaluate(network.live, torch.from_numpy(observations))
    outputs, values = inference(observations)
    assert found.outputs.numpy() == pytest.approx(outputs, abs=1e-6)
    assert found.values.numpy() == pytest.approx(values, abs=1e-6)


@pytest.mark.parametrize("shape", [(5,), (2, 3), (3, 4, 4)])
def test_bytes_of_any_shape_are_what_acting_saw(shape: tuple[int, ...]):
    spec = NetworkSpec(shape, "|u1", HEAD, hidden=(6,))
    observations = np.random.default_rng(0).integers(0, 256, (9, *shape)).astype(np.uint8)
    inference = InferenceSpec(spec)()
    inference.load({"parameters": initial_parameters(spec, 1)})
    network = made(spec)
    found = network.evaluate(network.live, torch.from_numpy(observations))
    outputs, values = inference(observations)
    assert found.outputs.numpy() == pytest.approx(outputs, abs=1e-6)
    assert found.values.numpy() == pytest.approx(values, abs=1e-6)


@pytest.mark.parametrize("rows_at_once", [1, 4, 9, 10])
def test_rows_some_at_a_time_are_the_rows_at_once(rows_at_once: int):
    observations = torch.from_numpy(
        np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    )
    whole, parts = made(ROWS), made(ROWS, rows_at_once=rows_at_once)
    found = parts.evaluate(parts.live, observations)
    expected = whole.evaluate(whole.live, observations)
    assert found.outputs.numpy() == pytest.approx(expected.outputs.numpy(), abs=1e-6)
    assert found.values.numpy() == pytest.approx(expected.values.numpy(), abs=1e-6)
    slices = list(parts.slices(9))
    assert [row for part in slices for row in range(9)[part]] == list(range(9))
    assert all(part.stop - part.start <= rows_at_once for part in slices)


def test_no_rows_at_all_have_empty_results():
    network = made(ROWS)
    nothing = network.evaluate(network.live, torch.zeros(0, 4))
    assert nothing.outputs.shape == (0, 3)
    assert nothing.values.shape == (0,)


def test_frozen_parameters_are_loaded_beside_the_live_ones():
    network = made(ROWS)
    live = network.live.values.clone()
    network.frozen.load(initial_parameters(ROWS, 2))
    observations = torch.ones(4, 4)
    one = network.evaluate(network.live, observations)
    other = network.evaluate(network.frozen, observations)
    assert torch.equal(network.live.values, live)
    assert not torch.equal(one.values, other.values)
    network.forward(network.frozen, observations).values.sum().backward()
    assert network.frozen.gradient.abs().sum() > 0
    assert network.live.gradient.abs().sum() == 0


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 0.05)])
def test_images_are_scaled_to_one_and_stay_as_they_are(
    precision: Literal["fp32", "bf16"], tolerance: float
):
    drawn = np.random.default_rng(0).integers(0, 256, (2, 4, 36, 36)).astype(np.uint8)
    network, images = made(IMAGES, precision=precision), torch.from_numpy(drawn.copy())
    found = network.forward(network.live, images)
    with torch.no_grad():
        module = network.live.module
        outputs, values = module(torch.from_numpy(drawn).float() / 255.0)
    assert found.outputs.dtype == found.values.dtype == torch.float32
    assert found.values.detach().numpy() == pytest.approx(values.numpy(), abs=tolerance)
    assert found.outputs.detach().numpy() == pytest.approx(outputs.numpy(), abs=tolerance)
    assert np.array_equal(images.numpy(), drawn)
    found.values.sum().backward()
    assert network.live.gradient.dtype == torch.float32
    assert network.live.gradient.abs().sum() > 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["categorical", "gaussian"])
def test_the_policy_that_acts_on_images_is_the_one_that_is_learned(
    kind: Literal["categorical", "gaussian"], precision: Literal["fp32", "bf16"]
):
    """With equal parameters no ratio of probabilities is far from 1, so an update begins there."""
    spec = NetworkSpec((4, 36, 36), "|u1", ActionHead(kind, (3,)), "nature-cnn")
    vector = initial_parameters(spec, 0)
    if kind == "gaussian":
        vector[:3] = -2.9  # log stds, whose rounding to 8 bits would move each probability
    drawn = np.random.default_rng(0).integers(0, 256, (16, 4, 36, 36)).astype(np.uint8)
    acting = InferenceSpec(spec, precision=precision)()
    acting.load({"parameters": vector})
    outputs, _ = acting(drawn)
    learned = LearnedNetwork(spec, vector, precision=precision, microbatches=Microbatches(16))
    found = learned.evaluate(learned.live, torch.from_numpy(drawn)).outputs.numpy()
    assert found == pytest.approx(outputs, abs=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_threads_change_no_bit_of_images(precision: Literal["fp32", "bf16"]):
    torch.set_num_threads(1)
    drawn = np.random.default_rng(0).integers(0, 256, (11, 4, 36, 36)).astype(np.uint8)
    images, found = torch.from_numpy(drawn), []
    for threads in (1, 2, 3):
        network = made(IMAGES, precision=precision, rows_at_once=3, multiple=2, threads=threads)

        def passes(lane: FlatParameters, rows: slice, network: LearnedNetwork = network) -> float:
            loss = network.forward(lane, images[rows]).values.square().sum()
            loss.backward()
            return float(loss.detach())

        losses = list(network.accumulate(network.live, len(images), passes))
        values = network.evaluate(network.live, images).values
        found.append((losses, network.live.gradient.numpy().tobytes(), values.numpy().tobytes()))
        assert len(losses) == 4
        assert network.live.gradient.abs().sum() > 0
    assert found[0] == found[1] == found[2]
