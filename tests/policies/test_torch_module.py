"""A user's torch module behind the flat vector."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from drumline.policies.build import build_policy, initial_parameters
from drumline.policies.heads import Head
from drumline.policies.mlp import MLPPolicy
from drumline.policies.spec import PolicySpec
from drumline.policies.torch_module import TorchPolicy, initial_vector

HEAD = Head("continuous", low=(-1.0,) * 3, high=(1.0,) * 3, shape=(3,))
PLAIN = PolicySpec(5, HEAD, hidden=(8, 4))
SPEC = replace(PLAIN, module="torch_policies:TanhNetwork")


def as_mlp_vector(vector: np.ndarray) -> np.ndarray:
    """Torch keeps weights `[outputs, inputs]`; the MLP keeps `[inputs, outputs]`."""
    pieces, start = [], 0
    for inputs, outputs in ((5, 8), (8, 4), (4, 3)):
        weights = vector[start : start + inputs * outputs].reshape(outputs, inputs)
        start += inputs * outputs
        pieces += [weights.T.ravel(), vector[start : start + outputs]]
        start += outputs
    return np.concatenate(pieces)


@pytest.mark.parametrize("normalize", [True, False])
def test_a_torch_module_is_the_mlp_of_the_same_sizes(normalize: bool):
    rng = np.random.default_rng(0)
    torch_policy = build_policy(replace(SPEC, normalize=normalize))
    mlp = MLPPolicy(replace(PLAIN, normalize=normalize))
    assert isinstance(torch_policy, TorchPolicy)
    assert torch_policy.parameter_count == mlp.parameter_count
    vector = rng.standard_normal(mlp.parameter_count).astype(np.float32)
    torch_policy.load_vector(vector)
    mlp.load_vector(as_mlp_vector(vector))
    mean, inverse_std = rng.standard_normal(5), rng.uniform(0.5, 3.0, 5)
    for policy in (torch_policy, mlp):
        policy.load_moments(mean, inverse_std)
    for scale in (1.0, 30.0):
        observation = rng.standard_normal(5) * scale
        expected = mlp.output(observation)
        assert torch_policy.output(observation) == pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert torch_policy.act(observation) == pytest.approx(mlp.act(observation), abs=1e-5)


def test_a_modules_own_constants_are_alike_wherever_it_is_built():
    spec = PolicySpec(3, Head("discrete", choices=2), module="torch_policies:RandomFeatures")
    before = torch.random.get_rng_state()
    first, second = TorchPolicy(spec), TorchPolicy(spec)
    assert torch.equal(torch.random.get_rng_state(), before)
    for policy in (first, second):
        policy.load_vector(initial_vector(spec, np.random.default_rng(1)))
    observation = np.ones(3, np.float32)
    assert np.array_equal(first.output(observation), second.output(observation))
    one, other = (initial_vector(spec, np.random.default_rng(seed)) for seed in (1, 2))
    assert not np.array_equal(one, other)


def test_a_nan_in_any_output_is_in_the_first():
    policy = build_policy(replace(SPEC, module="torch_policies:LastIsNaN", normalize=False))
    assert np.isnan(policy.output(np.full(5, 3.0))).tolist() == [True, False, True]
    assert not np.isnan(policy.output(np.full(5, 2.0))).any()


def test_writing_to_the_vector_sets_the_modules_parameters():
    policy = build_policy(SPEC)
    policy.vector[:] = 0.0
    assert not policy.output(np.ones(5)).any()


def test_the_initial_vector_follows_from_the_generator_and_leaves_torchs_alone():
    torch_before = torch.random.get_rng_state()
    first, second = (initial_parameters(SPEC, np.random.default_rng(1)) for _ in range(2))
    other = initial_parameters(SPEC, np.random.default_rng(2))
    assert torch.equal(torch.random.get_rng_state(), torch_before)
    assert first.tobytes() == second.tobytes() != other.tobytes()
    assert first.shape == (build_policy(SPEC).parameter_count,)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("torch_policies:OneOutputTooMany", r"returns \(1, 4\).*needs \(1, 3\)"),
        ("torch_policies:TwoResults", "returns tuple"),
        ("torch_policies:DoublePrecision", "must be float32"),
        ("torch_policies:no_module", "made a int, not a Module"),
        ("torch_policies:WithoutParameters", "has no parameters"),
        ("torch_policies:BatchNormalized", r"buffers \(0\.running_mean.*LayerNorm"),
        ("torch_policies:TakesNothing", r"cannot be made with \(5, 3\): TypeError"),
        ("torch_policies:WrongInputs", r"fails on one observation \[1, 5\]: RuntimeError"),
        ("torch_policies:Absent", "cannot be imported"),
        ("torch_policies:Recurrent", r"recurrent layer, LSTM \('memory'\).*FrameStackObservation"),
        ("torch_policies:ReturnsMemory", "returns tuple .*keeps nothing between steps"),
        ("torch_policies:KeepsState", "another result for the same observation after others"),
        ("torch_policies:SharesStorage", "share storage .*use it twice in forward"),
        ("no_such_package:Policy", "cannot be imported"),
        ("torch_policies:Scripted", r"makes a scripted module \(torch\.jit\)"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_module_that_cannot_serve_is_a_clear_error(module: str, message: str):
    with pytest.raises(ValueError, match=message):
        build_policy(replace(SPEC, module=module))


def test_a_module_that_fails_at_import_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "fails_at_import.py").write_text('\nABSENT = {}["absent"]\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=r"raised KeyError.*fails_at_import\.py, line 2"):
        build_policy(replace(SPEC, module="fails_at_import:Policy"))
