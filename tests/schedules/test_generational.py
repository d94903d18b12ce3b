"""Generations over a toy strategy: whole blocks by index, whatever order results arrive in."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from doubles import ShuffledPool

from drumline.errors import ImpureEnvironment, StrategyFailed
from drumline.protocols import PublishedLayout, Worker, WorkerContext, WorkerPool
from drumline.runtime.inline_pool import InlinePool
from drumline.schedules import evaluations
from drumline.schedules.generational import Generation, GenerationPlan, generational
from drumline.tasks import Evaluate, Evaluation, Rehearsal, RehearseTwice
from drumline.training.evaluations import evaluation_tasks
from drumline.types import Metrics, State

BLOCK = 4


class Toy:
    """Adds every fitness to its one parameter, in the order told."""

    def __init__(self):
        self.parameter = np.ones(1)
        self.generation = 0
        self.told: list[list[int]] = []
        self._asked = 0

    def ask(self, count: int) -> list[Evaluate]:
        members = range(self._asked, self._asked + count)
        self._asked += count
        return [
            Evaluate(self.generation, m, 1, m, 100 * self.generation + m, 0.1, 0, False, True)
            for m in members
        ]

    def tell(self, results: Sequence[Evaluation]) -> Metrics:
        self.told.append([result.member for result in results])
        for result in results:
            self.parameter = self.parameter * 0.9 + result.fitness
        self.generation += 1
        self._asked = 0
        return {"told": float(len(results))}

    def published(self) -> dict[str, np.ndarray]:
        return {"parameters": self.parameter.copy()}

    def state(self) -> State:
        return State({"parameters": self.parameter.copy()})

    def load(self, state: State) -> None:
        self.parameter = state.tensors["parameters"].copy()


def length_of(task: Evaluate) -> int:
    return 1 + task.seed * 7 % 5


def pure_worker(context: WorkerContext) -> Worker:
    """Fitness and length follow from the task and the published parameter."""

    def evaluate(task: Evaluate) -> Evaluation:
        parameter = float(context.published(task.version)["parameters"][0])
        fitness = parameter / (2.0 + task.seed)
        return Evaluation(
            *(task.version, task.member, task.sign, task.noise_key, task.std),
            fitness=fitness,
            episode_return=fitness,
            length=length_of(task),
            moments=None,
            digest=repr((task.seed, fitness)).encode(),
        )

    def run(task: Evaluate | RehearseTwice) -> Evaluation | Rehearsal:
        if isinstance(task, RehearseTwice):
            return Rehearsal(evaluate(task.task), evaluate(task.task))
        return evaluate(task)

    return run


def impure_worker(context: WorkerContext) -> Worker:
    """Its second run of a task has another digest."""
    run = pure_worker(context)

    def spoil(task: Evaluate | RehearseTwice) -> Evaluation | Rehearsal:
        result = run(task)
        if isinstance(result, Rehearsal):
            return result._replace(second=result.second._replace(digest=b"other"))
        return result

    return spoil


def pool_of(worker=pure_worker, seed: int | None = None) -> WorkerPool:
    pool = InlinePool(worker, published=PublishedLayout.of({"parameters": np.zeros(1)}))
    return pool if seed is None else ShuffledPool(pool, seed)


def run(
    strategy: Toy, pool: WorkerPool, plan: GenerationPlan, updates: int = 5
) -> list[Generation]:
    return list(
        generational(
            strategy,
            pool,
            plan,
            first_version=0,
            evaluation=lambda version: evaluation_tasks(0, version, 3) if version % 2 else (),
            finished=lambda update, env_steps: update >= updates,
        )
    )


def fingerprint(strategy: Toy, generations: list[Generation]) -> object:
    rows = [(g.update, g.members, g.evaluated, g.metrics, g.env_steps) for g in generations]
    return strategy.parameter.tobytes(), strategy.told, rows


@pytest.mark.parametrize("minimum", [0, 1, 30, 45])
def test_arrival_order_changes_nothing(minimum: int):
    plan = GenerationPlan(BLOCK, minimum_env_steps=minimum)
    plain = Toy()
    expected = fingerprint(plain, run(plain, pool_of(), plan))
    for seed in range(8):
        strategy = Toy()
        assert fingerprint(strategy, run(strategy, pool_of(seed=seed), plan)) == expected


@pytest.mark.parametrize("minimum", [0, 1, 30, 45])
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_generation_is_the_fewest_whole_blocks_that_make_the_minimum(
    minimum: int, seed: int | None
):
    strategy = Toy()
    done = run(strategy, pool_of(seed=seed), GenerationPlan(BLOCK, minimum_env_steps=minimum))
    for generation, told in zip(done, strategy.told, strict=True):
        lengths = [1 + (100 * (generation.update - 1) + m) * 7 % 5 for m in range(100)]
        totals = list(accumulate(sum(lengths[i : i + BLOCK]) for i in range(0, 100, BLOCK)))
        blocks = 1 + next(i for i, total in enumerate(totals) if total >= minimum)
        assert told == list(range(blocks * BLOCK))
        assert [member.member for member in generation.members] == told
        assert generation.env_steps == totals[blocks - 1]


def test_evaluations_are_of_the_version_before_the_tell_and_by_episode():
    strategy = Toy()
    for generation in run(strategy, pool_of(seed=2), GenerationPlan(BLOCK)):
        due = (generation.update - 1) % 2 == 1
        assert [e.member for e in generation.evaluated] == ([0, 1, 2] if due else [])
        assert {e.version for e in generation.evaluated} <= {generation.update - 1}


def test_an_impure_worker_stops_the_run_before_the_first_tell():
    strategy = Toy()
    with pytest.raises(
        ImpureEnvironment, match=r"gave other observations or rewards in its \d+ steps: the"
    ):
        run(strategy, pool_of(impure_worker), GenerationPlan(BLOCK))
    assert strategy.told == []


def test_without_the_promise_nothing_is_rehearsed():
    strategy = Toy()
    done = run(strategy, pool_of(impure_worker), GenerationPlan(BLOCK, rehearse=False))
    assert len(done) == 5
    assert all(generation.env_steps_discarded == 0 for generation in done)


def test_rehearsals_are_counted_as_discarded_steps_and_change_no_bit():
    with_rehearsal, without = Toy(), Toy()
    first = run(with_rehearsal, pool_of(), GenerationPlan(BLOCK))
    run(without, pool_of(), GenerationPlan(BLOCK, rehearse=False))
    assert with_rehearsal.parameter.tobytes() == without.parameter.tobytes()
    assert first[0].env_steps_discarded == 4 * length_of(Toy().ask(1)[0])


def test_a_run_that_is_finished_yields_nothing():
    strategy = Toy()
    assert run(strategy, pool_of(), GenerationPlan(BLOCK), updates=0) == []
    assert strategy.told == []


def test_at_a_yield_the_state_is_that_after_the_update():
    strategy = Toy()
    steps = generational(
        strategy,
        pool_of(),
        GenerationPlan(BLOCK),
        first_version=0,
        evaluation=lambda version: (),
        finished=lambda update, env_steps: update >= 3,
    )
    for generation in steps:
        assert strategy.generation == generation.update


def test_evaluating_now_ignores_training_tasks_in_flight():
    strategy, pool = Toy(), pool_of(seed=1)
    steps = generational(
        strategy,
        pool,
        GenerationPlan(BLOCK),
        first_version=0,
        evaluation=lambda version: (),
        finished=lambda update, env_steps: False,
    )
    next(steps)
    tasks = evaluation_tasks(0, 1, 3)
    evaluations.begin(pool, 1, strategy.published(), tasks)
    results = evaluations.collect(pool, tasks)
    assert [(r.member, r.sign, r.length) for r in results] == [
        (task.member, 0, length_of(task)) for task in tasks
    ]


class Changed(Toy):
    """A toy strategy whose tasks are changed after they are asked."""

    def __init__(self, change: Callable[[list[Evaluate]], Any]):
        super().__init__()
        self._change = change

    def ask(self, count: int) -> Any:
        return self._change(super().ask(count))


def never_idle(pool: WorkerPool) -> WorkerPool:
    """A pool that fails where a schedule waits for results that never come."""
    completed = pool.completed

    def busy(timeout: float | None = None) -> Any:
        done = completed(timeout)
        assert done, "the schedule waits, and no task is in flight"
        return done

    pool.completed = busy  # type: ignore[method-assign]
    return pool


def each(**fields: Any) -> Callable[[list[Evaluate]], list[Evaluate]]:
    return lambda tasks: [task._replace(**fields) for task in tasks]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tasks: tasks[:-1], r"generation 0 returned 3 tasks: it must return 4 tasks"),
        (lambda tasks: [*tasks, tasks[0]], "returned 5 tasks"),
        (lambda tasks: [], "returned 0 tasks"),
        (lambda tasks: None, "returned None: it must return 4 tasks"),
        (lambda tasks: [task.seed for task in tasks], "returned a task of type int"),
        (each(member=0), "no task of member 1: it must return each of the members 0 to 3 once"),
        (lambda tasks: [t._replace(member=t.member + 1) for t in tasks], "no task of member 0"),
        (each(version=0), "generation 1 returned a task of version 0: version must be 1"),
        (each(training=False), "a task of member 0 with training=False"),
    ],
)
def test_wrong_tasks_are_refused_where_they_are_asked(change: Any, words: str):
    with pytest.raises(StrategyFailed, match=rf"^Changed\.ask\(4\) in .*{words}"):
        run(Changed(change), never_idle(pool_of()), GenerationPlan(BLOCK))


@pytest.mark.timeout(20)
def test_a_second_block_must_go_on_with_the_next_members():
    again = Changed(lambda tasks: [t._replace(member=t.member % BLOCK) for t in tasks])
    with pytest.raises(StrategyFailed, match=r"no task of member 4: .* members 4 to 7 once"):
        run(again, never_idle(pool_of()), GenerationPlan(BLOCK, minimum_env_steps=40))


def test_the_order_of_the_asked_tasks_changes_no_bit():
    plain, backwards = Toy(), Changed(lambda tasks: tasks[::-1])
    plan = GenerationPlan(BLOCK, minimum_env_steps=20, rehearse=False)
    first = run(plain, pool_of(), plan)
    assert fingerprint(plain, first) == fingerprint(backwards, run(backwards, pool_of(), plan))


def test_a_generation_may_have_one_member_but_not_none():
    assert len(run(Toy(), never_idle(pool_of()), GenerationPlan(1))) == 5
    with pytest.raises(ValueError, match="population_size must be at least 1, got 0"):
        GenerationPlan(0)


def test_an_error_names_the_strategy_inside_a_wrapper():
    steps = generational(
        Changed(lambda tasks: []),
        pool_of(),
        GenerationPlan(BLOCK),
        first_version=0,
        evaluation=lambda version: (),
        finished=lambda update, env_steps: False,
        name="Wrapped",
    )
    with pytest.raises(StrategyFailed, match=r"^Wrapped\.ask\(4\)"):
        next(steps)
