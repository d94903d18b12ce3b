"""Returns, lengths and scores of training episodes, in the order (t, environment)."""

from typing import Any

import numpy as np

from drumline.training.episode_tally import EpisodeTally
from drumline.types import Rollout


def rollout(interval: int, rewards: Any, ended: Any, scores: Any = None) -> Rollout:
    rewards, ended = np.array(rewards, np.float32), np.array(ended, bool)
    nothing, no = np.zeros(0), np.zeros_like(ended)
    told = None if scores is None else np.array(scores, np.float32)
    return Rollout(interval, *(nothing,) * 2, rewards, ended, no, *(nothing,) * 5, told)


def test_scores_are_summed_apart_from_rewards():
    tally = EpisodeTally(2, 2, 0, scores=True)
    tally.fold(rollout(0, [[0.1, 0.2], [1.4, 0.3]], [[0, 0], [1, 0]], [[0, 0], [1, 0]]))
    tally.fold(rollout(1, [[0.5, 0.5], [0, 0]], [[0, 1], [0, 0]], [[0, -1], [0, 0]]))
    rows = [
        (row.update, row.member, round(row.episode_return, 5), row.length, row.score)
        for row in tally.take()
    ]
    assert rows == [(1, 0, 1.5, 2, 1.0), (2, 1, 1.0, 3, -1.0)]
    assert tally.recent_score == 0.0


def test_without_scores_there_are_none():
    tally = EpisodeTally(1, 1, 0)
    tally.fold(rollout(0, [[2.0]], [[1]]))
    assert tally.take()[0].score is None
    assert tally.recent_score is None
    assert "episode_scores" not in tally.state().tensors


def test_there_is_no_mean_before_the_first_episode_has_ended():
    tally = EpisodeTally(1, 1, 0, scores=True)
    tally.fold(rollout(0, [[-5.0]], [[0]], [[1.0]]))
    assert np.isnan([tally.recent_mean, tally.recent_score]).all()
    tally.fold(rollout(1, [[-5.0]], [[1]], [[1.0]]))
    assert (tally.recent_mean, tally.recent_score) == (-10.0, 2.0)


def test_a_renewal_forgets_running_scores():
    tally = EpisodeTally(1, 1, 1, scores=True)
    tally.fold(rollout(0, [[1.0]], [[0]], [[1.0]]))
    tally.fold(rollout(1, [[0.5]], [[1]], [[0.0]]))
    assert (tally.take()[0].score, tally.cut) == (0.0, 1)


def test_a_tally_that_was_loaded_goes_on_with_the_same_scores():
    first, second = (EpisodeTally(1, 1, 0, scores=True) for _ in range(2))
    for interval in range(3):
        first.fold(rollout(interval, [[1.0]], [[interval == 1]], [[1.0]]))
    first.take()
    second.load(first.state())
    last = rollout(3, [[1.0]], [[1]], [[1.0]])
    for tally in (first, second):
        tally.fold(last)
    assert first.take() == second.take()
    assert first.recent_score == second.recent_score == 2.0
