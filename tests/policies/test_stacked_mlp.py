"""Members side by side get the outputs and actions that they get alone, bit by bit."""

from dataclasses import replace

import numpy as np
import pytest

from drumline.policies import stacked_mlp
from drumline.policies.heads import Head
from drumline.policies.mlp import MLPPolicy
from drumline.policies.spec import PolicySpec
from drumline.policies.stacked_mlp import StackedMLP, equals_single, stackable

LOW, HIGH = (-1.0, -0.4, -2.0), (1.0, 0.4, 3.0)
HEADS = {
    "discrete": Head("discrete", choices=2, start=1),
    "bounded": Head("continuous", LOW, HIGH, (3,)),
    "unbounded": Head("continuous", (-np.inf,) * 3, (np.inf,) * 3, (3,)),
    "bins": Head("bins", LOW, HIGH, (3,), bins=(-1.0, 0.0, 1.0)),
}


@pytest.mark.parametrize("head", HEADS.values(), ids=list(HEADS))
@pytest.mark.parametrize(
    ("observed", "hidden"), [(4, (16, 16)), (11, (64, 64)), (17, (5,)), (3, ())]
)
@pytest.mark.parametrize("plain", [False, True])
def test_outputs_and_actions_are_those_of_each_member_alone(
    head: Head, observed: int, hidden: tuple[int, ...], plain: bool
):
    spec = PolicySpec(
        observed,
        head,
        hidden=hidden,
        normalize=not plain,
        bias=not plain,
        activation="relu" if plain else "tanh",
    )
    assert stackable(spec)
    assert equals_single(spec, 5, np.float64)
    assert equals_single(spec, 5, np.float32)


def test_a_member_that_moves_keeps_its_outputs():
    spec = PolicySpec(4, HEADS["bounded"], hidden=(8,))
    rng = np.random.default_rng(3)
    policy = StackedMLP(spec, 4)
    for vector, row in zip(policy.vectors, policy.rows, strict=True):
        vector[:] = rng.standard_normal(vector.size)
        row[:] = rng.standard_normal(row.size)
    before = policy.outputs(4).copy()
    policy.move(3, 0)
    assert policy.outputs(3).tobytes() == before[[3, 1, 2]].tobytes()


def test_a_product_with_other_bits_is_found(monkeypatch: pytest.MonkeyPatch):
    spec = PolicySpec(4, HEADS["discrete"], hidden=(8,))

    class Another(MLPPolicy):
        def output(self, observation: np.ndarray) -> np.ndarray:
            found = super().output(observation)
            found[0] = np.nextafter(found[0], np.float32(9.0))
            return found

    assert equals_single(spec, 3)
    monkeypatch.setattr(stacked_mlp, "MLPPolicy", Another)
    assert not equals_single(spec, 3)


@pytest.mark.parametrize(
    "head",
    [
        Head("squashed", LOW, HIGH, (3,)),
        Head("continuous", LOW, HIGH, (3,), dtype="<f8"),
        Head("continuous", LOW, HIGH, (3, 1)),
    ],
)
def test_other_heads_are_left_to_single_policies(head: Head):
    assert not stackable(PolicySpec(4, head))


def test_networks_that_are_no_plain_perceptrons_are_left_to_single_policies():
    spec = PolicySpec(4, HEADS["discrete"])
    assert not stackable(replace(spec, module="torch_policies:Small"))
    assert not stackable(replace(spec, convolutions="a3c-cnn"))
    assert not stackable(replace(spec, virtual_batch=128))
