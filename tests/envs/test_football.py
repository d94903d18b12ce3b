"""The checkpoint reward against the game's rule as a loop, alone and in the lanes."""

import numpy as np
import pytest
from campaigns import FAULTS
from envs.lane_streams import streams

from drumline.envs.football import Checkpoints, checkpoints_within, goal_distance
from drumline.envs.lanes import LaneHistory, LanesSpec, renewal_seed
from drumline.envs.make import EnvironmentProblem, EnvironmentSpec, make_environment

EMPTY_GOAL = EnvironmentSpec("gfootball/academy_empty_goal_close-v1", "envpool")
RUN_TO_SCORE = EnvironmentSpec("gfootball/academy_run_to_score_with_keeper-v1", "envpool")


def minimap(x: float, y: float) -> np.ndarray:
    """A minimap with the ball's pixel where the game draws it."""
    planes = np.zeros((72, 96, 4), np.uint8)
    row = min(max(int((y + 1 / 2.25) / (2 / 2.25) * 72), 0), 71)
    planes[row, min(max(int((x + 1) / 2 * 96), 0), 95), 2] = 255
    planes[40, 20, [0, 1, 3]] = 255
    return planes


def slow_reward(distances: list[float], owners: list[int], goals: list[float]) -> list[float]:
    """One episode by the rule as the paper and the game state it."""
    collected, rewards = 0, []
    for distance, owner, goal in zip(distances, owners, goals, strict=True):
        reward = goal
        if goal == 1:
            reward += 0.1 * (10 - collected)
            collected = 10
        elif owner == 0:
            while collected < 10 and distance <= 0.99 - 0.8 / 9 * collected:
                reward += 0.1
                collected += 1
        rewards.append(reward)
    return rewards


def test_the_ball_is_read_within_half_a_pixel():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, 200), rng.uniform(-0.44, 0.44, 200)
    maps = np.stack([minimap(*place) for place in zip(x, y, strict=True)])
    exact = np.hypot(x - 1, y)
    assert np.abs(goal_distance(maps) - exact).max() <= np.hypot(1 / 96, 1 / 72 / 2.25) + 1e-9


def test_the_nearer_the_ball_the_more_checkpoints():
    distances = np.array([2.0, 0.991, 0.989, 0.55, 0.191, 0.189, 0.0])
    assert checkpoints_within(distances).tolist() == [0, 0, 1, 5, 9, 10, 10]


def test_rewards_are_those_of_the_rule_step_by_step():
    rng = np.random.default_rng(1)
    together = Checkpoints(3)
    x = np.cumsum(rng.uniform(-0.05, 0.12, (40, 3)), axis=0).clip(0, 1)
    owners = rng.integers(-1, 2, (40, 3))
    goals = rng.choice([0.0, 1.0, -1.0], (40, 3), p=[0.94, 0.03, 0.03])
    maps = np.stack([[minimap(value, 0.1) for value in row] for row in x])
    got = np.stack(
        [together.rewards(np.arange(3), *step) for step in zip(maps, owners, goals, strict=True)]
    )
    for lane in range(3):
        distances = goal_distance(maps[:, lane]).tolist()
        expected = slow_reward(distances, owners[:, lane].tolist(), goals[:, lane].tolist())
        np.testing.assert_allclose(got[:, lane], expected, atol=1e-6)
    assert (got > 0.05).sum() > 10


def test_a_scored_episode_pays_one_for_the_way_and_one_for_the_goal():
    lanes = LanesSpec(EMPTY_GOAL, 0, 0, 2, checkpoints=True)()
    lanes.begin(0)
    totals, scores = np.zeros(2), np.zeros(2)
    finished = []
    for step in range(120):
        steps = lanes.step(None, np.full(2, 12 if step % 12 > 8 else 5))
        assert lanes.scores is not None
        totals += steps.rewards
        scores += lanes.scores
        for lane in np.flatnonzero(steps.terminated | steps.truncated):
            finished.append((round(float(totals[lane]), 5), float(scores[lane])))
            totals[lane] = scores[lane] = 0
    scored = [total for total, score in finished if score == 1.0]
    assert len(scored) > 4
    assert set(scored) == {2.0}
    lanes.close()


def test_checkpoints_come_back_with_a_restored_lane():
    spec = LanesSpec(RUN_TO_SCORE, 3, 0, 1, checkpoints=True)
    lanes, restored = spec(), spec()
    lanes.begin(0)
    run = np.full(60, 5)
    rewards = [float(lanes.step(None, run[:1]).rewards[0]) for _ in range(60)]
    assert sum(reward > 0 for reward in rewards[:30]) > 2
    restored.restore([LaneHistory(0, 0, run[:30], np.zeros(30, bool))])
    assert [float(restored.step(None, run[:1]).rewards[0]) for _ in range(30)] == rewards[30:]


@FAULTS
def test_an_episode_is_reached_by_resets_alone_whatever_was_done_before():
    spec = EnvironmentSpec(EMPTY_GOAL.id, "envpool", options={"max_episode_steps": 9})
    lanes, restored = (LanesSpec(spec, 3, 0, 2, checkpoints=True)() for _ in range(2))
    rng = np.random.default_rng(0)
    actions, ended = rng.integers(0, 19, (44, 2)), np.zeros((44, 2), bool)
    lanes.begin(0)
    for t in range(44):
        steps = lanes.step(None, actions[t])
        ended[t] = steps.terminated | steps.truncated
    assert ended.sum(axis=0).min() > 3
    histories = [LaneHistory(0, 0, actions[:, lane], ended[:, lane]) for lane in range(2)]
    assert (restored.restore(histories) == steps.observations).all()
    assert restored.episode.tolist() == lanes.episode.tolist()
    for _ in range(20):
        more = rng.integers(0, 19, 2)
        for before, after in zip(lanes.step(None, more), restored.step(None, more), strict=True):
            assert before.tobytes() == after.tobytes()


def test_a_policy_alone_sees_the_stacks_that_lanes_see():
    lanes = LanesSpec(EMPTY_GOAL, 0, 0, 1)()
    alone = make_environment(EMPTY_GOAL).environment
    first = lanes.begin(0)
    observation, _ = alone.reset(seed=renewal_seed(0, 0, 0))
    assert (observation == first[0]).all()
    assert observation.shape == alone.observation_space.shape == (16, 72, 96)
    planes = observation.reshape(4, 4, 72, 96)
    assert (planes == planes[-1]).all()
    before = observation.copy()
    for _ in range(6):
        steps = lanes.step(None, np.array([5]))
        observation = alone.step(5)[0]
        assert (observation == steps.observations[0]).all()
        assert (observation[:12] == before[4:]).all()
        before = observation.copy()
    assert not (observation.reshape(4, 4, 72, 96)[0] == observation[12:]).all()


@pytest.mark.parametrize("engine", ["gymnasium", "envpool"])
def test_checkpoints_are_refused_elsewhere(engine: str):
    spec = EnvironmentSpec("CartPole-v1", engine)  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        EnvironmentProblem, match=r"--reward scoring-checkpoints .* not for 'CartPole-v1'"
    ):
        LanesSpec(spec, 0, 0, 1, checkpoints=True)()


@FAULTS
def test_grouping_does_not_change_a_football_stream():
    assert streams(RUN_TO_SCORE, [1, 2], 25) == streams(RUN_TO_SCORE, [3], 25)
