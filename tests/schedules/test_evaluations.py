"""Choice of the updates that are evaluated."""

from drumline.schedules.evaluations import is_due


def test_every_so_many_updates_are_evaluated_and_the_untrained_policy_is_not():
    assert [update for update in range(10) if is_due(3, update)] == [3, 6, 9]
    assert [update for update in range(4) if is_due(1, update)] == [1, 2, 3]


def test_none_are_evaluated_on_the_way_if_none_are_asked_for():
    assert not any(is_due(0, update) for update in range(10))
