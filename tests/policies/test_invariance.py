"""The self-check of batch invariance, with networks that violate it in several ways."""

from collections.abc import Mapping

import numpy as np
import pytest

from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic import initial_parameters
from drumline.policies.inference import InferenceSpec
from drumline.policies.invariance import (
    ANY,
    PADDED,
    SINGLE,
    NotInvariant,
    choose_rows,
    is_invariant,
)
from drumline.policies.network_spec import NetworkSpec

HEAD = ActionHead("categorical", (3,))
MLP = NetworkSpec((5,), "<f4", HEAD, hidden=(8,))
IMAGES = NetworkSpec((2, 44, 40), "|u1", HEAD, network="nature-cnn")


class Padded:
    """Cuts a batch into calls of exactly `rows` rows, as `TorchInference` does."""

    def __init__(self, spec: InferenceSpec):
        self.rows = spec.rows

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.calls = 0

    def __call__(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows, count = self.rows or len(observations), len(observations)
        padded = np.zeros((-(-count // rows) * rows, observations.shape[1]), np.float32)
        padded[:count] = observations
        parts = [self.call(padded[k : k + rows]) for k in range(0, len(padded), rows)]
        outputs = np.concatenate(parts)[:count]
        return outputs, outputs[:, 0]

    def call(self, rows: np.ndarray) -> np.ndarray:
        return rows.copy()


class DependsOnSize(Padded):
    def call(self, rows: np.ndarray) -> np.ndarray:
        return rows * np.float32(1.0 + len(rows) * 1e-6)


class DependsOnCompany(Padded):
    def call(self, rows: np.ndarray) -> np.ndarray:
        return rows - rows.mean(axis=0) if len(rows) > 1 else rows.copy()


class DependsOnPlace(Padded):
    def call(self, rows: np.ndarray) -> np.ndarray:
        return rows + np.arange(len(rows), dtype=np.float32)[:, None]


class DependsOnNothingThatCanBeKept(Padded):
    def call(self, rows: np.ndarray) -> np.ndarray:
        self.calls += 1
        return rows + np.float32(self.calls)


def rows_for(build: type[Padded]) -> int:
    observations = np.random.default_rng(0).standard_normal((12, 5)).astype(np.float32)
    return choose_rows(InferenceSpec(MLP), {}, observations, build)


def test_a_network_that_depends_on_the_size_gets_batches_of_one_size():
    assert rows_for(Padded) == ANY
    assert rows_for(DependsOnSize) == PADDED[0]


@pytest.mark.parametrize("build", [DependsOnCompany, DependsOnPlace])
def test_a_network_that_depends_on_its_other_rows_gets_single_rows(build: type[Padded]):
    assert rows_for(build) == SINGLE


def test_a_network_that_never_repeats_itself_is_refused():
    with pytest.raises(NotInvariant, match="--network mlp gives other bits for the same row"):
        rows_for(DependsOnNothingThatCanBeKept)


@pytest.mark.parametrize("spec", [MLP, IMAGES], ids=lambda spec: spec.network)
def test_our_networks_need_no_single_rows(spec: NetworkSpec):
    rng = np.random.default_rng(1)
    observations = rng.integers(0, 255, (16, *spec.observation_shape)).astype(
        spec.observation_dtype
    )
    arrays = {"parameters": initial_parameters(spec, 0)}
    rows = choose_rows(InferenceSpec(spec), arrays, observations)
    # What BLAS does with the rows of torch's linear layers differs between processors.
    assert rows == ANY if spec.is_mlp else rows in (ANY, *PADDED)


@pytest.mark.parametrize("rows", [1, 8])
def test_torch_keeps_its_bits_with_calls_of_one_size_and_single_rows(rows: int):
    observations = np.random.default_rng(2).integers(0, 255, (9, 2, 44, 40)).astype(np.uint8)
    inference = InferenceSpec(IMAGES, rows=rows)()
    inference.load({"parameters": initial_parameters(IMAGES, 0)})
    assert is_invariant(inference, observations)
