"""Objectives of the examples: what they measure, and that a search finds good parameters."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import digits
import sorting

import drumline
from drumline.policies.searched_module import SearchedModule

DIGITS = {"population_size": 100, "std": 0.5, "total_steps": 40_000}
SORTING = {"population_size": 100, "learning_rate": 0.05, "total_steps": 8_000}


def test_accuracy_is_the_share_of_correct_digits_of_a_batch():
    train, test = digits.images()
    assert (len(train.digits), len(test.digits)) == (1347, 450)
    always_three = np.zeros(digits.DIMENSIONS, np.float32)
    always_three[640 + 3] = 1.0
    assert digits.test_accuracy(always_three) == np.mean(test.digits == 3)
    rows = np.random.default_rng(5).choice(1347, digits.BATCH, replace=False)
    assert digits.accuracy(always_three, 5) == np.mean(train.digits[rows] == 3)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked_shapes")
def test_es_finds_a_classifier_of_digits_without_a_gradient(tmp_path: Path):
    config = drumline.ES(
        objective=digits.accuracy,
        dimensions=digits.DIMENSIONS,
        **{**drumline.ES.OBJECTIVE, **DIGITS},
    )
    run = drumline.train(config, workers="inline", out=tmp_path / "run")
    assert digits.test_accuracy(run.parameters()) >= 0.9


def test_only_whole_sequences_count():
    class Sorts(torch.nn.Module):
        def forward(self, sequences: torch.Tensor) -> torch.Tensor:
            answers = sequences.sort(dim=-1).values
            answers[0, 0] = sorting.SYMBOLS - 1 - answers[0, 0]  # one mistake in one sequence
            return torch.nn.functional.one_hot(answers, sorting.SYMBOLS)

    assert sorting.exact_match(Sorts(), 3) == 1.0 - 1.0 / sorting.BATCH


def test_members_of_a_call_have_the_shares_of_their_own_seeds():
    module = SearchedModule("sorting:Sorter", 4).module
    together = sorting.exact_match_of_members(module, np.array([3, 4, 5]))
    assert together.tolist() == [sorting.exact_match(module, seed) for seed in (3, 4, 5)]


def test_two_layers_are_made_alike_under_a_seed():
    one, other = (SearchedModule("sorting:Sorter", 4) for _ in range(2))
    assert one.vector().tobytes() == other.vector().tobytes()
    module = one.with_parameters(one.vector())
    assert len(module.layers) == 2


def test_no_batch_holds_a_sequence_that_a_copy_would_sort():
    drawn = sorting.batch(8)
    sorted_already = (np.sort(drawn, axis=1) == drawn).all(axis=1)
    constant = (drawn == drawn[:, :1]).all(axis=1)
    assert drawn.shape == (sorting.BATCH, sorting.LENGTH)
    assert sorted_already.tolist() == constant.tolist()
    assert sorting.batch(8).tobytes() == drawn.tobytes()


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked_shapes")
def test_es_teaches_a_transformer_to_sort(tmp_path: Path):
    config = drumline.ES(
        objective=sorting.exact_match,
        policy=sorting.Sorter,
        **{**drumline.ES.OBJECTIVE, **SORTING},
    )
    run = drumline.train(config, workers="inline", out=tmp_path / "run")
    assert run.evaluate(episodes=10).mean >= 0.6  # a copy has 0.4
