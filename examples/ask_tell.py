"""OpenAI-ES and ARS in a loop of your own: no runtime, results told in any order."""

import numpy as np

from drumline import ARSStrategy, OpenAIES, answer

TARGET = np.array([1.0, -2.0, 0.5])


def fitness(parameters: np.ndarray) -> float:
    """Higher is better: Drumline maximises."""
    return -float(np.square(parameters - TARGET).sum())


for strategy in (
    OpenAIES.simple(np.zeros(3), std=0.1, learning_rate=0.1),
    ARSStrategy.simple(np.zeros(3), std=0.1, learning_rate=0.1),
):
    for _ in range(150):
        tasks = strategy.ask(20)
        results = [answer(task, fitness(strategy.candidate(task))) for task in tasks]
        strategy.tell(results[::-1])
    print(type(strategy).__name__, strategy.parameters.round(2))
