"""Drawn actions: their frequencies, their bounds, and their streams."""

from dataclasses import replace

import numpy as np
import pytest

from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.heads import Head
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.sampled import Deterministic, SampledPolicy
from drumline.policies.spec import PolicySpec, build_policy

DISCRETE = Head("discrete", choices=3, start=5)
CONTINUOUS = Head("continuous", low=(-1.0, -1.0), high=(1.0, 1.0), shape=(2,))
BINS = replace(CONTINUOUS, kind="bins", bins=(-1.0, 0.0, 1.0))


def searched(head: Head, std: float = 0.0) -> SampledPolicy:
    spec = PolicySpec(2, head, ())
    return SampledPolicy(build_policy(spec), spec, std)


def trained(actions: ActionHead, head: Head | None) -> SampledPolicy:
    network = NetworkSpec((2,), "<f4", actions, hidden=())
    # A linear policy head and a linear value head, and log stds where actions are continuous.
    outputs = actions.sizes[0] if actions.kind == "gaussian" else actions.output_size
    count = 3 * outputs + 3 + (outputs if actions.kind == "gaussian" else 0)
    spec = ActorCriticSpec(network, head, count)
    return SampledPolicy(build_policy(spec), spec, 0.0)


def drawn(policy: SampledPolicy, outputs: list[float], count: int = 4000) -> np.ndarray:
    policy.begin(np.random.default_rng(0))
    return np.array([policy.to_action(np.array(outputs, np.float32), None) for _ in range(count)])


def softmax(outputs: list[float]) -> np.ndarray:
    return np.exp(outputs) / np.exp(outputs).sum()


@pytest.mark.parametrize(
    "policy", [searched(DISCRETE), trained(ActionHead("categorical", (3,)), DISCRETE)]
)
def test_discrete_actions_have_the_frequencies_of_the_softmax(policy: SampledPolicy):
    outputs = [0.0, 1.0, -1.0]
    counts = np.bincount(drawn(policy, outputs) - 5, minlength=3)
    assert counts / counts.sum() == pytest.approx(softmax(outputs), abs=0.03)


def test_each_component_of_binned_actions_has_its_own_softmax():
    outputs = [0.0, 1.0, -1.0, 2.0, 0.0, 0.0]
    actions = drawn(searched(BINS), outputs)
    for component in range(2):
        counts = np.array([(actions[:, component] == place).sum() for place in (-1, 0, 1)])
        expected = softmax(outputs[3 * component : 3 * component + 3])
        assert counts / counts.sum() == pytest.approx(expected, abs=0.03)


def test_continuous_searched_actions_have_the_trainings_noise_within_the_bounds():
    actions = drawn(searched(CONTINUOUS, 0.2), [0.0, 0.95])
    assert actions[:, 0].std() == pytest.approx(0.2, rel=0.05)
    assert actions.max() <= 1.0
    assert (actions[:, 1] == 1.0).mean() == pytest.approx(0.4, abs=0.05)


def test_gaussian_actions_have_mean_and_std_of_the_distribution_within_the_bounds():
    policy = trained(ActionHead("gaussian", (2,)), CONTINUOUS)
    actions = drawn(policy, [0.1, 5.0, np.log(0.2), np.log(0.2)])
    assert actions[:, 0].mean() == pytest.approx(0.1, abs=0.02)
    assert actions[:, 0].std() == pytest.approx(0.2, rel=0.05)
    assert (actions[:, 1] == 1.0).all()


def test_a_squashed_gaussian_is_drawn_with_the_std_that_its_network_puts_out():
    policy = searched(replace(CONTINUOUS, kind="squashed-gaussian"))
    actions = drawn(policy, [0.1, 9.0, np.log(0.2), np.log(0.2)])
    assert np.arctanh(actions[:, 0]).mean() == pytest.approx(0.1, abs=0.02)
    assert np.arctanh(actions[:, 0]).std() == pytest.approx(0.2, rel=0.05)
    assert (actions[:, 1] > 0.999).all()
    assert "distribution" in policy.words


def test_several_choices_at_once_are_drawn_apart():
    actions = drawn(trained(ActionHead("multi-discrete", (2, 3)), None), [0.0, 1.0, 0.0, 0.0, 2.0])
    assert actions.shape == (4000, 2)
    assert (actions[:, 0] == 1).mean() == pytest.approx(softmax([0.0, 1.0])[1], abs=0.03)
    assert (actions[:, 1] == 2).mean() == pytest.approx(softmax([0.0, 0.0, 2.0])[2], abs=0.03)


def test_an_episodes_actions_follow_from_its_stream():
    policy = searched(DISCRETE)
    policy.load_vector(np.zeros(policy.parameter_count, np.float32))

    def episode(seed: int) -> list[int]:
        policy.begin(np.random.default_rng(seed))
        return [policy.act(np.zeros(2)) for _ in range(20)]

    assert episode(1) == episode(1) != episode(2)


def test_without_action_noise_there_is_nothing_to_draw():
    with pytest.raises(Deterministic, match="deterministic"):
        searched(CONTINUOUS)
