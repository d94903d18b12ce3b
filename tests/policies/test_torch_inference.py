"""Acting with torch networks: what they are given, and the same bits in every batch."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic import build_network, initial_parameters
from drumline.policies.inference import InferenceSpec
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.torch_inference import TorchInference
from drumline.policies.vector import FlatParameters

HEAD = ActionHead("categorical", (6,))
SMALL = NetworkSpec((4, 36, 40), "|u1", HEAD, "nature-cnn")
FULL = NetworkSpec((4, 84, 84), "|u1", HEAD, "nature-cnn")
VECTOR = NetworkSpec((11,), "<f8", HEAD, "actor_critic_networks:Plain")
MOMENTS = {
    "observation_mean": np.random.default_rng(1).normal(size=11),
    "observation_inverse_std": np.random.default_rng(2).uniform(0.5, 3.0, 11),
}


@pytest.fixture(autouse=True)
def one_torch_thread() -> Iterator[None]:
    """As in every process that acts."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def vector_for(spec: NetworkSpec) -> np.ndarray:
    return initial_parameters(spec, 0)


def loaded(spec: InferenceSpec) -> TorchInference:
    inference = spec()
    assert isinstance(inference, TorchInference)
    inference.load({"parameters": vector_for(spec.network), **MOMENTS})
    return inference


def images(spec: NetworkSpec, count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.integers(0, 256, (count, *spec.observation_shape), dtype=np.uint8)


def by_module(spec: NetworkSpec, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    flat = FlatParameters(build_network(spec))
    flat.load(vector_for(spec))
    with torch.no_grad():
        outputs, values = flat.module(torch.from_numpy(seen.astype(np.float32)))
    return outputs.numpy(), values.numpy()


def test_images_are_divided_by_255():
    observations = images(SMALL, 5)
    outputs, values = loaded(InferenceSpec(SMALL))(observations)
    expected_outputs, expected_values = by_module(SMALL, observations / 255.0)
    assert outputs.shape == (5, 6)
    assert values.shape == (5,)
    assert outputs == pytest.approx(expected_outputs, rel=1e-4, abs=1e-5)
    assert values == pytest.approx(expected_values, rel=1e-4, abs=1e-5)


def test_bf16_is_close_to_fp32_and_returns_float32():
    observations = images(SMALL, 6)
    exact = loaded(InferenceSpec(SMALL))(observations)
    half = loaded(InferenceSpec(SMALL, precision="bf16"))(observations)
    for part, expected in zip(half, exact, strict=True):
        assert part.dtype == np.float32
        assert part == pytest.approx(expected, rel=0.05, abs=0.05)
        assert not np.array_equal(part, expected)


@pytest.mark.parametrize("normalize", [False, True])
def test_vectors_are_normalised_by_the_published_moments_as_the_learner_does(normalize: bool):
    spec = replace(VECTOR, normalize=normalize)
    observations = np.random.default_rng(4).normal(0, 20, (7, 11))
    seen = observations
    if normalize:
        seen = (observations - MOMENTS["observation_mean"]) * MOMENTS["observation_inverse_std"]
        seen = np.clip(seen, -10.0, 10.0)
    outputs, values = loaded(InferenceSpec(spec))(observations)
    expected_outputs, expected_values = by_module(spec, seen)
    assert outputs == pytest.approx(expected_outputs, rel=1e-4, abs=1e-5)
    assert values == pytest.approx(expected_values, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("spec", [SMALL, FULL, VECTOR])
def test_a_rows_bits_are_the_same_in_every_batch(spec: NetworkSpec, precision: str):
    rows = 8 if precision == "fp32" else 0  # what the start-up self-check may find
    inference = loaded(InferenceSpec(spec, precision=precision, rows=rows))  # pyright: ignore[reportArgumentType]
    rng = np.random.default_rng(5)
    observations = images(spec, 20) if spec is not VECTOR else rng.normal(size=(20, 11))
    outputs, values = (part.copy() for part in inference(observations))
    for size in range(1, 20):
        rows = rng.permutation(20)[:size]
        got_outputs, got_values = inference(observations[rows])
        assert got_outputs.tobytes() == outputs[rows].tobytes()
        assert got_values.tobytes() == values[rows].tobytes()


@pytest.mark.parametrize("rows", [1, 5])
def test_with_a_fixed_number_of_rows_every_forward_pass_has_exactly_that_many(rows: int):
    inference = loaded(InferenceSpec(SMALL, rows=rows))
    seen: list[int] = []
    network = inference._module  # pyright: ignore[reportPrivateUsage]
    network.register_forward_hook(lambda module, given, result: seen.append(len(given[0])))
    observations = images(SMALL, 12)
    expected = loaded(InferenceSpec(SMALL))(observations)
    for size in range(1, 13):
        seen.clear()
        outputs, values = inference(observations[:size])
        assert seen == [rows] * -(-size // rows)
        assert outputs == pytest.approx(expected[0][:size], abs=1e-5)
        assert values == pytest.approx(expected[1][:size], abs=1e-5)


def test_without_one_small_batches_are_padded_to_four_rows():
    inference = loaded(InferenceSpec(SMALL))
    seen: list[int] = []
    network = inference._module  # pyright: ignore[reportPrivateUsage]
    network.register_forward_hook(lambda module, given, result: seen.append(len(given[0])))
    for size in range(1, 8):
        inference(images(SMALL, size))
    assert seen == [4, 4, 4, 4, 5, 6, 7]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_loading_another_version_changes_what_is_computed(precision: str):
    inference = loaded(InferenceSpec(SMALL, precision=precision))  # pyright: ignore[reportArgumentType]
    observations, vector = images(SMALL, 4), vector_for(SMALL)
    first = inference(observations)[0].copy()
    inference.load({"parameters": vector * np.float32(1.5)})
    assert not np.array_equal(inference(observations)[0], first)
    inference.load({"parameters": vector})
    assert inference(observations)[0].tobytes() == first.tobytes()


@pytest.mark.parametrize("change", [1, -1])
def test_a_vector_of_another_size_is_refused(change: int):
    vector = np.zeros(vector_for(SMALL).size + change, np.float32)
    with pytest.raises(ValueError, match=r"this network has \d+ parameters, got "):
        loaded(InferenceSpec(SMALL)).load({"parameters": vector})
