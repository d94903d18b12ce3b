"""TD3's targets against hand-computed numbers and autograd."""

import torch

from drumline.functional.double_q import (
    expected_values,
    one_step_targets,
    pessimistic_values,
    smoothed_actions,
    squared_error_gradient,
)


def test_a_terminated_transition_is_worth_its_reward_whatever_follows():
    rewards, ended = torch.tensor([1.0, 2.0]), torch.tensor([False, True])
    got = one_step_targets(rewards, ended, torch.tensor([10.0, float("nan")]), 0.5)
    assert got.tolist() == [6.0, 2.0]


def test_the_smaller_critic_counts_in_every_entry():
    values = torch.tensor([[[1.0, 5.0], [2.0, 2.0]], [[3.0, 4.0], [0.0, 7.0]]])
    assert pessimistic_values(values).tolist() == [[1.0, 4.0], [0.0, 2.0]]


def test_discrete_values_are_weighted_by_the_policy():
    got = expected_values(torch.tensor([[0.25, 0.75]]), torch.tensor([[4.0, 8.0]]))
    assert got.tolist() == [7.0]


def test_smoothing_stays_within_the_bounds_of_each_component():
    low, high = torch.tensor([-0.4, -2.0]), torch.tensor([0.4, 2.0])
    got = smoothed_actions(torch.tensor([[0.3, -1.0]]), torch.tensor([[0.5, -0.5]]), low, high)
    torch.testing.assert_close(got, torch.tensor([[0.4, -1.5]]))


def test_the_gradient_of_the_squared_error_is_autograds():
    values = torch.tensor([[1.0, 2.0, 4.0], [0.0, -1.0, 3.0]], requires_grad=True)
    targets = torch.tensor([0.5, 1.0, 5.0])
    expected = sum(torch.nn.functional.mse_loss(row, targets) for row in values)
    assert isinstance(expected, torch.Tensor)
    expected.backward()
    gradient, loss = squared_error_gradient(values.detach(), targets)
    assert values.grad is not None
    torch.testing.assert_close(gradient, values.grad)
    torch.testing.assert_close(loss, expected.detach())
