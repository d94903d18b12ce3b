"""Networks in torch: their shapes, what they start with, and what is refused of a user's."""

import logging
import math
import random

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits
from torch import nn

from drumline.algorithms.learned_network import LearnedNetwork
from drumline.algorithms.microbatches import Microbatches
from drumline.policies import own_modules
from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic import (
    build_network,
    initial_parameters,
    takes_channels_last,
)
from drumline.policies.inference import InferenceSpec
from drumline.policies.network_spec import NetworkSpec

FOOTBALL = NetworkSpec((16, 72, 96), "|u1", ActionHead("categorical", (19,)), "football-cnn")
NATURE = NetworkSpec((4, 84, 84), "|u1", ActionHead("categorical", (6,)), "nature-cnn")
IMPALA = NetworkSpec((4, 84, 84), "|u1", ActionHead("categorical", (6,)), "impala-resnet")
SMALL = NetworkSpec((2, 36, 36), "|u1", ActionHead("multi-discrete", (3, 2)), "nature-cnn")
SMALL_IMPALA = NetworkSpec((2, 16, 16), "|u1", ActionHead("categorical", (5,)), "impala-resnet")
MLP = NetworkSpec((11,), "<f4", ActionHead("gaussian", (3,)), hidden=(32, 16))
NO_AXIS = NetworkSpec((), "<f4", ActionHead("categorical", (2,)), hidden=(8,))
USERS = NetworkSpec((2, 3), "<f4", ActionHead("categorical", (5,)), "actor_critic_networks:Plain")


def weights(spec: NetworkSpec, seed: int = 0) -> dict[str, np.ndarray]:
    """Initial parameters by name, in their shapes."""
    vector, start, named = initial_parameters(spec, seed), 0, {}
    for name, parameter in build_network(spec).named_parameters():
        end = start + parameter.numel()
        named[name] = vector[start:end].reshape(parameter.shape)
        start = end
    assert start == vector.size
    return named


def convolution(channels: int, out: int, kernel: int) -> int:
    return (channels * kernel * kernel + 1) * out


def impala_size(channels: int, side: int, outputs: int) -> int:
    """Three stages of a convolution and four residual ones, halved (rounded up) after each."""
    size = 0
    for out in (16, 32, 32):
        size += convolution(channels, out, 3) + 4 * convolution(out, out, 3)
        channels, side = out, (side + 1) // 2
    return size + (channels * side * side + 1) * 256 + 257 * (outputs + 1)


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        (FOOTBALL, 1_424_052),
        (NATURE, 77_984 + (3136 + 1) * 512 + 513 * 7),
        (IMPALA, impala_size(4, 84, 6)),
        (SMALL_IMPALA, impala_size(2, 16, 5)),
        (MLP, 3 + 12 * 32 + 33 * 16 + 17 * 3 + 12 * 32 + 33 * 16 + 17),
    ],
)
def test_networks_have_as_many_parameters_as_their_papers_say(spec: NetworkSpec, size: int):
    assert sum(parameter.numel() for parameter in build_network(spec).parameters()) == size


def test_the_impala_network_has_fifteen_convolutions():
    convolutions = [m for m in build_network(IMPALA).modules() if isinstance(m, torch.nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [16] * 5 + [32] * 10


@pytest.mark.parametrize(
    "spec", [FOOTBALL, NATURE, IMPALA, SMALL, SMALL_IMPALA, MLP, NO_AXIS, USERS]
)
def test_every_network_returns_outputs_and_values(spec: NetworkSpec):
    with torch.no_grad():
        outputs, values = build_network(spec)(torch.rand(3, *spec.observation_shape))
    assert outputs.shape == (3, spec.head.output_size)
    assert values.shape == (3,)


@pytest.mark.parametrize("spec", [SMALL, SMALL_IMPALA, MLP, USERS])
def test_initial_parameters_depend_on_the_seed_and_on_nothing_else(spec: NetworkSpec):
    expected = initial_parameters(spec, 7)
    assert expected.dtype == np.float32
    assert expected.ndim == 1
    threads = torch.get_num_threads()
    try:
        for state in range(3):
            torch.rand(state)
            np.random.seed(state)
            random.seed(state)
            torch.set_num_threads(1 + state)
            with threadpool_limits(1 + state):
                assert initial_parameters(spec, 7).tobytes() == expected.tobytes()
    finally:
        torch.set_num_threads(threads)
    assert not np.array_equal(initial_parameters(spec, 8), expected)


def test_the_large_layers_do_not_depend_on_threads_either():
    with threadpool_limits(1):
        expected = initial_parameters(NATURE, 0)
    with threadpool_limits(2):
        assert initial_parameters(NATURE, 0).tobytes() == expected.tobytes()


@pytest.mark.parametrize("spec", [SMALL, USERS])
def test_torchs_global_generator_is_left_alone(spec: NetworkSpec):
    before = torch.random.get_rng_state()
    initial_parameters(spec, 0)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("spec", "policy", "value", "policy_gain"),
    [
        (SMALL, "policy", "value", 0.01),
        (SMALL_IMPALA, "policy", "value", 0.01),
        (
            NetworkSpec((3, 40, 44), "|u1", ActionHead("categorical", (19,)), "football-cnn"),
            "policy",
            "value",
            1.0,
        ),
        (MLP, "policy.4", "value.4", 0.01),
    ],
)
def test_weights_start_orthogonal_with_their_gains_and_the_rest_with_0(
    spec: NetworkSpec, policy: str, value: str, policy_gain: float
):
    gains = {f"{policy}.weight": policy_gain, f"{value}.weight": 1.0}
    for name, weight in weights(spec).items():
        if weight.ndim == 1:
            assert not weight.any()
            continue
        gain = gains.pop(name, math.sqrt(2.0))
        matrix = weight.reshape(len(weight), -1).astype(np.float64) / gain
        short = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
        assert short == pytest.approx(np.eye(len(short)), abs=1e-5)
    assert not gains


def test_layers_of_one_shape_start_differently():
    named = weights(SMALL_IMPALA)
    convolutions = [w.tobytes() for w in named.values() if w.shape == (32, 32, 3, 3)]
    assert len(set(convolutions)) == len(convolutions) > 1
    mlp = weights(MLP)
    assert not np.array_equal(mlp["policy.0.weight"], mlp["value.0.weight"])


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("OneOutputTooMany", r"returned \[\[2, 6\], \[2\]\] instead of \[\[2, 5\], \[2\]\]"),
        ("ValuesInAColumn", r"returned \[\[2, 5\], \[2, 1\]\] instead"),
        ("OutputsOnly", "returned Tensor instead"),
        ("ValueIsANumber", r"returned \[\[2, 5\], 'float'\] instead"),
        ("NoParameters", "made a NoParameters, not a Module with parameters"),
        ("no_module", "made a int, not a Module with parameters"),
        ("WithBatchNorm", "has buffers .* use a layer without them, such as LayerNorm"),
        ("DoublePrecision", "parameters must be float32"),
        ("Absent", "cannot be imported"),
        ("ForwardRaises", r"fails on two observations of zeros \[2, 2, 3\]: RuntimeError: mat1"),
        ("NaNOutput", r"1 of 10 outputs are not finite for two observations of zeros \[2, 2, 3\]"),
        ("InfiniteValues", "2 of 2 values are not finite"),
        ("Recurrent", r"recurrent layer, GRU \('memory'\).*FrameStackObservation"),
        ("KeepsState", "another result for the same observation after others"),
        ("SharesStorage", "share storage .*use it twice in forward"),
        ("DrawsInForward", "draws random numbers in forward"),
        ("ValuesSqueezed", r"for one observation it returned \[\[1, 5\], \[\]\] instead"),
        ("AllFrozen", "no parameter requires a gradient, so there is nothing to train"),
    ],
)
def test_a_module_that_cannot_serve_is_a_clear_error(network: str, message: str):
    name = f"actor_critic_networks:{network}"
    with pytest.raises(ValueError, match=f"(?s)--network '{name}'.*{message}"):
        build_network(NetworkSpec((2, 3), "<f4", USERS.head, name))


def test_dropout_does_not_draw_and_says_so(caplog: pytest.LogCaptureFixture):
    spec = NetworkSpec((2, 3), "<f4", USERS.head, "actor_critic_networks:WithDropout")
    own_modules._say_dropout.cache_clear()
    with caplog.at_level(logging.WARNING, "drumline"):
        network, observations = build_network(spec), torch.ones(4, 2, 3)
    assert torch.equal(network(observations)[0], network(observations)[0])
    assert "has dropout (dropout), which does nothing here" in caplog.text


def test_an_unknown_name_lists_the_known_ones():
    spec = NetworkSpec((4,), "<f4", USERS.head, "resnet")
    with pytest.raises(ValueError, match=r"'resnet' is none of mlp, nature-cnn, .*module:Class"):
        build_network(spec)


@pytest.mark.parametrize("network", ["nature-cnn", "football-cnn", "impala-resnet"])
def test_a_network_for_images_refuses_vectors(network: str):
    with pytest.raises(ValueError, match=network):
        build_network(NetworkSpec((11,), "<f4", USERS.head, network))


def test_continuous_actions_have_log_stds_of_their_own_beside_the_trunk():
    spec = NetworkSpec((1, 36, 36), "|u1", ActionHead("gaussian", (2,)), "nature-cnn")
    network = build_network(spec)
    outputs, values = network(torch.rand(3, 1, 36, 36))
    assert outputs.shape == (3, 4)
    assert values.shape == (3,)
    log_std = weights(spec)["log_std"]
    assert log_std.shape == (2,)
    assert not log_std.any()


@pytest.mark.parametrize("dtype", ["|u1", "<f4"])
@pytest.mark.parametrize("name", ["nature-cnn", "football-cnn", "impala-resnet"])
def test_images_with_channels_last_are_the_same_images(name: str, dtype: str):
    images = torch.rand(5, 3, 40, 44)
    made = []
    for shape in ((3, 40, 44), (40, 44, 3)):
        spec = NetworkSpec(shape, dtype, USERS.head, name)
        network, vector = build_network(spec), initial_parameters(spec, 0)
        nn.utils.vector_to_parameters(torch.from_numpy(vector), network.parameters())
        given = images if shape[0] == 3 else images.permute(0, 2, 3, 1).contiguous()
        made.append(network(given)[0])
    torch.testing.assert_close(made[0], made[1])


@pytest.mark.parametrize("side", [8, 35])
def test_images_too_small_for_the_convolutions_are_refused(side: int):
    with pytest.raises(ValueError, match=rf"nature-cnn needs larger images, got \(4, {side}"):
        build_network(NetworkSpec((4, side, side), "|u1", USERS.head, "nature-cnn"))


def test_a_module_that_draws_with_any_generator_starts_from_the_seed_alone():
    spec = NetworkSpec((2, 3), "<f4", USERS.head, "actor_critic_networks:DrawsWithAll")
    first = initial_parameters(spec, 0)
    np.random.random(), random.random(), torch.rand(())
    before = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().tolist()
    assert initial_parameters(spec, 0).tobytes() == first.tobytes()
    assert initial_parameters(spec, 1).tobytes() != first.tobytes()
    after = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().tolist()
    assert after == before


@pytest.mark.parametrize(("network", "whether"), [("ViewsImages", False), ("FlattensImages", True)])
def test_a_network_is_asked_whether_it_takes_channels_last(network: str, whether: bool):
    spec = NetworkSpec((3, 20, 20), "|u1", USERS.head, f"actor_critic_networks:{network}")
    assert takes_channels_last(build_network(spec), spec) is whether
    vector = initial_parameters(spec, 0)
    observations = np.random.default_rng(0).integers(0, 256, (6, 3, 20, 20), np.uint8)
    inference = InferenceSpec(spec)()
    inference.load({"parameters": vector})
    outputs, values = inference(observations)
    learned = LearnedNetwork(spec, vector, precision="fp32", microbatches=Microbatches(8))
    found = learned.evaluate(learned.live, torch.from_numpy(observations))
    np.testing.assert_allclose(outputs, found.outputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(values, found.values, rtol=1e-4, atol=1e-5)


def test_constants_of_a_module_go_with_bf16():
    spec = NetworkSpec((2, 3), "<f4", USERS.head, "actor_critic_networks:ConstantBasis")
    inference = InferenceSpec(spec, precision="bf16")()
    inference.load({"parameters": initial_parameters(spec, 0)})
    outputs, _ = inference(np.ones((4, 2, 3), np.float32))
    assert np.isfinite(outputs).all()
