"""ARS by ask and tell, against Algorithm 2 in a plain loop."""

import numpy as np
import pytest

from drumline.algorithms.ars import ARS
from drumline.algorithms.mirrored import answer
from drumline.functional.perturbation import counter_noise

SIZE = 6


def fitnesses(count: int, seed: int = 0) -> list[float]:
    return np.random.default_rng(seed).standard_normal(count).tolist()


@pytest.mark.parametrize("top", [None, 1, 3, 8])
def test_a_step_is_algorithm_2(top: int | None):
    strategy = ARS.simple(np.ones(SIZE), learning_rate=0.5, top_directions=top, seed=4)
    tasks, returns = strategy.ask(16), fitnesses(16)
    told = [answer(t, f) for t, f in zip(tasks, returns, strict=True)]
    strategy.tell(told[::-1])
    best = sorted(range(8), key=lambda i: -max(returns[2 * i], returns[2 * i + 1]))[: top or 8]
    used = [returns[2 * i + half] for i in best for half in (0, 1)]
    expected = np.ones(SIZE)
    for i in best:
        noise = counter_noise(4).read(tasks[2 * i].noise_key, 0, SIZE, np.empty(SIZE, np.float32))
        difference = returns[2 * i] - returns[2 * i + 1]
        expected += 0.5 / (len(best) * np.std(used)) * difference * noise
    assert strategy.parameters == pytest.approx(expected, abs=1e-5)


def test_more_directions_than_the_population_has_are_refused():
    strategy = ARS.simple(np.ones(SIZE), top_directions=5)
    with pytest.raises(ValueError, match="top_directions must be 1 to 4"):
        strategy.tell([answer(t, f) for t, f in zip(strategy.ask(8), fitnesses(8), strict=True)])
