"""Blocks are counted in index order, whatever arrives when."""

import pytest
from doubles import ShuffledPool

from drumline.protocols import PublishedLayout
from drumline.runtime.inline_pool import InlinePool
from drumline.schedules.generational import GenerationPlan, generational
from drumline.types import Evaluate, Evaluation


class Counter:
    """A strategy that only remembers which members it was told."""

    def __init__(self):
        self.told, self.version, self.asked = [], 0, 0

    def ask(self, count):
        first, self.asked = self.asked, self.asked + count
        return [
            Evaluate(self.version, m, 1, 0, m, 0.1, 0, False, True)
            for m in range(first, first + count)
        ]

    def tell(self, results):
        self.told.append([(r.member, r.length) for r in results])
        self.version, self.asked = self.version + 1, 0
        return {}

    def published(self):
        return {}


def lengths_worker(context):
    return lambda task: Evaluation(
        task.version, task.member, 1, 0, 0.1, 0.0, 0.0, 3 + task.member % 4, None, b""
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_generation_ends_with_the_first_block_that_reaches_the_minimum(seed: int):
    strategy = Counter()
    inline = InlinePool(lengths_worker, published=PublishedLayout({}))
    pool = ShuffledPool(inline, seed)
    pool.size = 5  # hungry: blocks are begun ahead of time
    plan = GenerationPlan(population_size=4, minimum_env_steps=40, rehearse=False)
    generations = list(
        generational(
            strategy,
            pool,
            plan,
            first_version=0,
            evaluation=lambda update: (),
            finished=lambda update, env_steps: update == 3,
        )
    )
    pool.close()
    # A block is 3 + 4 + 5 + 6 = 18 env steps, so three blocks reach 40.
    expected = [(member, 3 + member % 4) for member in range(12)]
    assert strategy.told == [expected] * 3
    assert [generation.env_steps for generation in generations] == [54] * 3
