"""Both ways back through a network: autograd's through any module, and the MLP's written out."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from drumline.algorithms import network_gradients
from drumline.algorithms.learned_network import LearnedNetwork
from drumline.algorithms.microbatches import Microbatches
from drumline.algorithms.network_gradients import (
    KEPT_GRAPHS,
    AutogradGradient,
    Derived,
    NetworkGradient,
    WrittenOutGradient,
)
from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic import initial_parameters
from drumline.policies.network_spec import NetworkSpec

HEADS = [
    ActionHead("categorical", (3,)),
    ActionHead("multi-discrete", (2, 4)),
    ActionHead("gaussian", (3,)),
]
ROWS = 30
BOTH = [AutogradGradient, WrittenOutGradient]


def network_of(head: ActionHead = HEADS[0], network: str = "mlp", **options: Any) -> LearnedNetwork:
    spec = NetworkSpec((5,), "<f4", head, hidden=(6, 4), network=network)
    start = initial_parameters(spec, 1)
    start = start + (0.3 * np.random.default_rng(1).standard_normal(start.size)).astype(np.float32)
    made = LearnedNetwork(spec, start, precision="fp32", microbatches=Microbatches(**options))
    made.frozen.load(start)
    return made


def observations(rows: int = ROWS) -> Tensor:
    drawn = np.random.default_rng(2).standard_normal((rows, 5)).astype(np.float32)
    return torch.from_numpy(drawn)


def derive(outputs: np.ndarray, values: np.ndarray, part: slice) -> Derived:
    """½ Σ i/N (outputs_i² + values_i²), where i counts the rows in hand."""
    weights = (np.arange(ROWS, dtype=np.float32) / np.float32(ROWS))[part]
    assert len(outputs) == len(values) == len(weights)
    return Derived(weights[:, None] * outputs, weights * values, {"rows": float(len(weights))})


def whole(network: LearnedNetwork, rows: np.ndarray) -> np.ndarray:
    """The gradient of that by autograd through everything."""
    outputs, values = network.forward(network.live, observations()[torch.from_numpy(rows)])
    weights = torch.arange(ROWS, dtype=torch.float32) / ROWS
    loss = 0.5 * (weights[:, None] * outputs.square()).sum() + 0.5 * weights @ values.square()
    parts = torch.autograd.grad(loss, list(network.live.module.parameters()))
    return np.concatenate([part.numpy().ravel() for part in parts])


@pytest.mark.parametrize("rows_at_once", [4096, 7])
@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind)
def test_the_gradient_of_picked_rows_is_that_of_the_whole(
    head: ActionHead, make: Callable[[LearnedNetwork], NetworkGradient], rows_at_once: int
):
    network = network_of(head, rows_at_once=rows_at_once)
    rows = np.random.default_rng(3).permutation(ROWS)
    expected = whole(network, rows)
    for _ in range(2):  # what was there before does not stay
        parts = list(make(network).accumulate(network.live, observations(), rows, derive))
        assert network.live.gradient.numpy() == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert sum(part["rows"] for part in parts) == ROWS
    assert len(parts) == (1 if rows_at_once == 4096 else 5)


@pytest.mark.parametrize("at", ["live", "frozen"])
@pytest.mark.parametrize("rows_at_once", [4096, 10, 7])
@pytest.mark.parametrize("make", BOTH)
def test_held_rows_give_the_gradient_once_their_targets_are_known(
    make: Callable[[LearnedNetwork], NetworkGradient], rows_at_once: int, at: str
):
    network = network_of(rows_at_once=rows_at_once)
    expected = whole(network, np.arange(ROWS))
    gradient, place = make(network), getattr(network, at)
    held = gradient.hold(place, observations())
    plain = network.evaluate(network.live, observations())
    for found, wanted in zip(held.rows, plain, strict=True):
        assert not found.requires_grad
        assert found.numpy() == pytest.approx(wanted.numpy(), abs=1e-6)
    assert sum(part["rows"] for part in held.accumulate(derive)) == ROWS
    assert place.gradient.numpy() == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("rows_at_once", "passes"), [(4096, 1), (8, 4), (6, 10)])
def test_rows_go_forward_twice_only_if_too_many_graphs_were_kept(
    monkeypatch: pytest.MonkeyPatch, rows_at_once: int, passes: int
):
    network = network_of(rows_at_once=rows_at_once)
    assert (len(network.slices(ROWS)) <= KEPT_GRAPHS) == (passes <= KEPT_GRAPHS)
    forward, seen = network.forward, []

    def counted(*given: Any) -> Any:
        seen.append(0)
        return forward(*given)

    monkeypatch.setattr(network, "forward", counted)
    list(AutogradGradient(network).hold(network.live, observations()).accumulate(derive))
    assert len(seen) == passes


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(threads: int):
    found = []
    for count in (1, threads):
        network = network_of(rows_at_once=4, threads=count)
        gradient = AutogradGradient(network)
        rows = np.arange(ROWS)
        metrics = list(gradient.accumulate(network.live, observations(), rows, derive))
        found.append((metrics, network.live.gradient.numpy().tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("make", BOTH)
def test_no_rows_at_all_have_empty_results(make: Callable[[LearnedNetwork], NetworkGradient]):
    network = network_of(rows_at_once=4096)
    found = make(network).evaluate(network.live, observations(0))
    assert found.outputs.shape == (0, 3)
    assert found.values.shape == (0,)


class Valueless(nn.Module):
    """A user's network whose values follow from nothing."""

    def __init__(self, shape: tuple[int, ...], outputs: int):
        super().__init__()
        self.policy = nn.Linear(shape[0], outputs)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.policy(rows), torch.zeros(len(rows))


def test_values_that_follow_from_no_parameter_are_allowed():
    network = network_of(network=f"{__name__}:Valueless", rows_at_once=4096)
    outputs, _ = network.forward(network.live, observations())
    gradient = AutogradGradient(network)
    list(gradient.accumulate(network.live, observations(), np.arange(ROWS), derive))
    d_outputs = torch.arange(ROWS)[:, None] / ROWS * outputs.detach()
    expected = torch.cat([(d_outputs.T @ observations()).reshape(-1), d_outputs.sum(0)])
    assert network.live.gradient.numpy() == pytest.approx(expected.numpy(), rel=1e-5, abs=1e-5)


def test_outputs_in_half_precision_reach_the_loss_in_single_precision():
    spec = NetworkSpec((5,), "<f4", HEADS[0], hidden=(6,))
    network = LearnedNetwork(
        spec, initial_parameters(spec, 1), precision="bf16", microbatches=Microbatches(8)
    )
    kinds: set[Any] = set()

    def noted(seen: set[Any], outputs: np.ndarray, values: np.ndarray, part: slice) -> Derived:
        seen |= {outputs.dtype, values.dtype}
        return derive(outputs, values, part)

    gradient = AutogradGradient(network)
    wanted = partial(noted, kinds)
    list(gradient.accumulate(network.live, observations(), np.arange(ROWS), wanted))
    assert kinds == {np.dtype(np.float32)}
    exact = whole(network, np.arange(ROWS))
    assert network.live.gradient.numpy() == pytest.approx(exact, rel=0.05, abs=0.05)


def on_device(network: str, **options: Any) -> LearnedNetwork:
    spec = NetworkSpec((5,), "<f4", HEADS[0], hidden=(6, 4), network=network)
    return LearnedNetwork(
        spec,
        initial_parameters(spec, 1),
        precision="fp32",
        microbatches=Microbatches(**options),
        device=torch.device("cpu", 0),
    )


@pytest.mark.parametrize("sizes", [0, 1, 4])
@pytest.mark.parametrize("most_rows", [8, 1024])
@pytest.mark.parametrize("rows_at_once", [4096, 7])
def test_recorded_passes_have_the_bits_of_passes_that_are_not(
    monkeypatch: pytest.MonkeyPatch, rows_at_once: int, most_rows: int, sizes: int
):
    def gradients(*, recorded: bool) -> list[bytes]:
        monkeypatch.setattr(network_gradients, "MOST_SIZES", sizes if recorded else 0)
        monkeypatch.setattr(network_gradients, "MOST_ROWS", most_rows)
        network = on_device("mlp", rows_at_once=rows_at_once)
        gradient, found = AutogradGradient(network), []
        rng = np.random.default_rng(4)
        for count in (12, 6, 12, 12, 30, 6):
            rows = rng.permutation(ROWS)[:count]
            for _ in gradient.accumulate(network.live, observations(), rows, derive):
                pass
            found.append(network.live.gradient.numpy().tobytes())
            held = gradient.hold(network.live, observations()[:count])
            found += [part.numpy().tobytes() for part in held.rows]
            for _ in held.accumulate(derive):
                pass
            found.append(network.live.gradient.numpy().tobytes())
            network.live.values.sub_(network.live.gradient, alpha=0.1)
        return found

    assert gradients(recorded=True) == gradients(recorded=False)


def test_passes_of_the_librarys_networks_alone_are_recorded(monkeypatch: pytest.MonkeyPatch):
    class Seen(Exception):
        """A pass would be recorded."""

    def record(*arguments: object) -> None:
        raise Seen

    monkeypatch.setattr(network_gradients, "RecordedPass", record)
    rows = np.arange(6)
    for network in ("mlp", "actor_critic_networks:Doubles"):
        made = on_device(network, rows_at_once=4096)
        parts = AutogradGradient(made).accumulate(made.live, observations(), rows, derive)
        if network == "mlp":
            with pytest.raises(Seen):
                list(parts)
        else:
            assert len(list(parts)) == 1
    host = network_of(rows_at_once=4096)
    assert (
        len(list(AutogradGradient(host).accumulate(host.live, observations(), rows, derive))) == 1
    )
