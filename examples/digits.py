"""Accuracy on handwritten digits, which has no gradient, as an objective.

    pip install scikit-learn
    drumline train es --objective digits:accuracy --dimensions 650 \\
        --population-size 100 --std 0.5 --total-steps 40000

A linear classifier: 64 weights and a bias for each of the 10 digits. Each seed is another batch of
the training images; `test_accuracy` uses images that no batch has.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

BATCH = 256
DIMENSIONS = 64 * 10 + 10


class Images(NamedTuple):
    pixels: np.ndarray
    """[N, 64] float32, from 0 to 1."""
    digits: np.ndarray


@cache
def images() -> tuple[Images, Images]:
    """Return the images for training and for the test, the same in every process."""
    data = load_digits()
    pixels = (data.data / 16.0).astype(np.float32)
    train, test, of_train, of_test = train_test_split(
        pixels, data.target, test_size=0.25, random_state=0, stratify=data.target
    )
    return Images(train, of_train), Images(test, of_test)


def accuracy(parameters: np.ndarray, seed: int) -> float:
    """Return the share of a batch of the training images that is classified correctly."""
    train, _ = images()
    rows = np.random.default_rng(seed).choice(len(train.digits), BATCH, replace=False)
    return correct(parameters, Images(train.pixels[rows], train.digits[rows]))


def test_accuracy(parameters: np.ndarray) -> float:
    """Return the share of the test images that is classified correctly."""
    return correct(parameters, images()[1])


def correct(parameters: np.ndarray, given: Images) -> float:
    weights, biases = parameters[:640].reshape(64, 10), parameters[640:]
    return float(np.mean((given.pixels @ weights + biases).argmax(axis=1) == given.digits))


if __name__ == "__main__":
    import drumline

    settings = {"population_size": 100, "std": 0.5, "total_steps": 40_000}
    config = drumline.ES(
        objective="digits:accuracy",
        dimensions=DIMENSIONS,
        **{**drumline.ES.OBJECTIVE, **settings},
    )
    run = drumline.train(config)
    print(f"{test_accuracy(run.parameters()):.3f} of the test images, {run.path}")
