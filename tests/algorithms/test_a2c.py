"""A2C's one step of an interval against autograd over plain loops."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from algorithms.learner_examples import (
    A2C_SETTINGS,
    CATEGORICAL,
    GAUSSIAN,
    RATE,
    Downhill,
    Made,
    explicit_a2c,
    parameters_of,
    rollout_of,
)

from drumline.algorithms.a2c import A2CSettings
from drumline.algorithms.microbatches import Microbatches
from drumline.policies.actions import ActionHead


@pytest.fixture(params=["autograd", "written-out"], autouse=True)
def both_gradients(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is true of the one gradient is true of the other."""
    monkeypatch.setattr(Made, "written_out", request.param == "written-out")


def updated(
    made: Made, interval: int = 3
) -> tuple[np.ndarray, np.ndarray, np.ndarray, torch.Tensor]:
    """The parameters and the gradient after one update, found and expected."""
    behavior = made.behavior(1)
    rollout = rollout_of(made.spec, behavior, interval)
    expected, gradient = explicit_a2c(made, rollout, behavior["parameters"])
    made.learner.update(rollout, behavior)
    assert isinstance(made.optimizer, Downhill)
    return made.parameters, expected, made.optimizer.gradients[0].numpy(), gradient


@pytest.mark.parametrize("head", [CATEGORICAL, GAUSSIAN], ids=lambda head: head.kind)
@pytest.mark.parametrize("unroll", [0, 1, 3, 7])
@pytest.mark.parametrize("correction", ["delayed", "none", "truncated-is", "vtrace"])
def test_a_step_is_what_autograd_gives_at_the_corrections_parameters(
    correction: Any, unroll: int, head: ActionHead
):
    settings = replace(A2C_SETTINGS, correction=correction, unroll=unroll)
    found, expected, gradient, explicit = updated(Made(settings, head))
    assert gradient == pytest.approx(explicit.numpy(), abs=2e-6)
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("head", [CATEGORICAL, GAUSSIAN], ids=lambda head: head.kind)
@pytest.mark.parametrize("unroll", [0, 3])
@pytest.mark.parametrize("correction", ["delayed", "none", "truncated-is"])
def test_without_a_baseline_a_step_is_that_of_returns_times_scores(
    correction: Any, unroll: int, head: ActionHead
):
    """REINFORCE by plain loops and autograd; the number of an unroll's steps is not read."""
    settings = replace(A2C_SETTINGS, correction=correction, unroll=unroll, baseline="none")
    found, expected, gradient, explicit = updated(Made(settings, head))
    assert gradient == pytest.approx(explicit.numpy(), abs=5e-6)
    assert found == pytest.approx(expected, abs=2e-6)
    whole = updated(Made(replace(settings, baseline="critic"), head))[2]
    assert np.abs(gradient - whole).max() > 1e-3


def test_without_a_baseline_nothing_is_learned_about_values_nor_reported():
    made = Made(replace(A2C_SETTINGS, correction="none", baseline="none"))
    assert isinstance(made.optimizer, Downhill)
    behavior = made.behavior(1)
    rollout = rollout_of(made.spec, behavior, 3)
    metrics = made.learner.update(rollout, behavior)
    assert "policy_loss" in metrics
    assert not {"value_loss", "explained_variance"} & set(metrics)
    of_values = [
        parameter.grad
        for name, parameter in made.network.live.module.named_parameters()
        if name.startswith("value")
    ]
    assert of_values
    assert not any(gradient.any() for gradient in of_values if gradient is not None)


@pytest.mark.parametrize("baseline", ["critic", "none"])
def test_time_limits_and_ends_of_intervals_are_bootstrapped_with_a_critic_alone(baseline: Any):
    """Other values of what comes after the interval change the step only where they are read."""
    steps = []
    for last in (0.0, 9.0):
        made = Made(replace(A2C_SETTINGS, correction="none", baseline=baseline))
        behavior = made.behavior(1)
        rollout = rollout_of(made.spec, behavior, 3)
        rollout.observations[-1] += last
        rollout.final_observations[:] += last
        made.learner.update(rollout, behavior)
        steps.append(made.parameters)
    assert (steps[0].tobytes() == steps[1].tobytes()) == (baseline == "none")


def test_the_corrections_differ_where_live_and_behaviour_do():
    steps = []
    for correction in ("delayed", "none", "truncated-is", "vtrace"):
        settings = replace(A2C_SETTINGS, correction=correction)
        steps.append(updated(Made(settings))[2])
    for place, one in enumerate(steps):
        for other in steps[place + 1 :]:
            assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("correction", ["delayed", "none", "truncated-is", "vtrace"])
def test_every_correction_follows_lambda(correction: Any):
    settings = replace(A2C_SETTINGS, correction=correction, unroll=0)
    steps = [updated(Made(replace(settings, gae_lambda=each)))[2] for each in (0.0, 0.9)]
    assert np.abs(steps[0] - steps[1]).max() > 1e-3


def test_the_delayed_gradient_does_not_depend_on_the_live_parameters():
    """The policy-version table: ∇J(θ_{k−1}; D_{k−1}) steps from θ_k, whatever θ_k is."""
    gradients = []
    for live in (1, 2, 5):
        made = Made(live=live)
        start = made.parameters
        found, _, gradient, _ = updated(made)
        assert found == pytest.approx(start - RATE * gradient, abs=1e-7)
        gradients.append(gradient.tobytes())
    assert len(set(gradients)) == 1


@pytest.mark.parametrize("options", [{"shards": 2}, {"shards": 4}, {"shards": 3}])
@pytest.mark.parametrize("rows_at_once", [4096, 5])
@pytest.mark.parametrize("correction", ["delayed", "vtrace"])
def test_shards_and_slices_add_up_to_the_whole(
    correction: Any, rows_at_once: int, options: dict[str, Any]
):
    settings = replace(A2C_SETTINGS, correction=correction, unroll=3)
    made = Made(settings, microbatches=Microbatches(rows_at_once), options=options)
    found, expected, _, _ = updated(made)
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_gradient_is_clipped_by_its_global_norm():
    settings = replace(A2C_SETTINGS, max_gradient_norm=0.01)
    made = Made(settings)
    behavior = made.behavior(1)
    rollout = rollout_of(made.spec, behavior)
    expected, _ = explicit_a2c(made, rollout, behavior["parameters"])
    metrics = made.learner.update(rollout, behavior)
    assert isinstance(made.optimizer, Downhill)
    assert float(made.optimizer.gradients[0].norm()) == pytest.approx(0.01, rel=1e-3)
    assert metrics["gradient_norm"] > 0.01
    assert made.parameters == pytest.approx(expected, abs=1e-6)


def test_a_bound_on_the_ratio_bounds_it():
    settings = replace(A2C_SETTINGS, correction="truncated-is", ratio_bound=1.3)
    found, expected, _, _ = updated(Made(settings))
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_learning_rate_is_a_function_of_the_interval():
    rates: list[int] = []
    made = Made()

    def rate(interval: int) -> float:
        rates.append(interval)
        return 0.5 / (1 + interval)

    made.learner._learning_rate = rate
    before = made.parameters
    behavior = made.behavior(1)
    metrics = made.learner.update(rollout_of(made.spec, behavior, interval=4), behavior)
    assert isinstance(made.optimizer, Downhill)
    assert rates == [4]
    assert metrics["learning_rate"] == 0.1
    expected = before - np.float32(0.1) * made.optimizer.gradients[0].numpy()
    assert made.parameters == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("head", [CATEGORICAL, GAUSSIAN], ids=lambda head: head.kind)
@pytest.mark.parametrize("interval", [0, 4, 7])
def test_the_entropy_coefficient_is_a_function_of_the_interval(interval: int, head: ActionHead):
    made = Made(head=head, entropy=lambda interval: 0.5 - 0.0625 * interval)
    _, _, gradient, explicit = updated(made, interval)
    assert gradient == pytest.approx(explicit.numpy(), abs=2e-6)
    constant = updated(Made(head=head), interval)[2]
    assert np.abs(gradient - constant).max() > 1e-3


def test_a_uniform_policy_has_the_entropy_log_n_and_kl_zero():
    made = Made()
    uniform = np.zeros_like(parameters_of(made.spec, 0))
    made.network.live.load(uniform)
    behavior = {"parameters": uniform}
    metrics = made.learner.update(rollout_of(made.spec, behavior), behavior)
    assert metrics["policy_entropy_nats"] == pytest.approx(np.log(3.0), rel=1e-6)
    assert metrics["approximate_kl_nats"] == pytest.approx(0.0, abs=1e-6)
    assert metrics["gradient_steps"] == 1


def test_pausing_happens_between_gradient_computations():
    pauses: list[int] = []
    settings: A2CSettings = A2C_SETTINGS
    made = Made(
        settings,
        microbatches=Microbatches(7),
        options={"shards": 2, "pause": lambda: pauses.append(0)},
    )
    updated(made)
    assert len(pauses) == 2 * (1 if Made.written_out else 2)
