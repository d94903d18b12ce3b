"""Evaluation uses new episodes: none has the seed of a training episode."""

import pytest

from drumline.algorithms.mirrored import MirroredSampler
from drumline.envs.lanes import episode_seed
from drumline.functional.perturbation import counter_noise
from drumline.training.evaluations import evaluation_tasks


@pytest.mark.parametrize("common_seeds", [False, True])
@pytest.mark.parametrize("seed", [0, 7])
def test_evaluations_share_no_seed_with_training(seed: int, common_seeds: bool):
    sampler = MirroredSampler(seed, counter_noise(seed), common_seeds=common_seeds)
    trained = {
        task.seed
        for generation in range(5)
        for task in sampler.tasks(generation, 0, 100, std=0.1, episode_cap=0)
    }
    assert len(trained) == (250 if common_seeds else 500)
    for version in range(5):
        evaluated = {task.seed for task in evaluation_tasks(seed, version, 100)}
        assert len(evaluated) == 100
        assert not evaluated & trained


def test_evaluations_share_no_seed_with_the_lanes_of_a_learner():
    evaluated = {task.seed for version in range(5) for task in evaluation_tasks(0, version, 100)}
    lanes = {
        episode_seed(0, environment, episode) for environment in range(5) for episode in range(100)
    }
    assert len(evaluated) == 500
    assert not evaluated & lanes


def test_each_version_is_evaluated_on_seeds_of_its_own():
    first, second = ({t.seed for t in evaluation_tasks(3, version, 50)} for version in (1, 2))
    assert not first & second


def test_a_shorter_evaluation_is_the_beginning_of_a_longer_one():
    assert evaluation_tasks(3, 1, 8)[:3] == evaluation_tasks(3, 1, 3)
