"""An evaluator acts with the parameters that the strategy's own loop would be given."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import doubles
import numpy as np
import pytest
from campaigns import FAULTS

from drumline.algorithms.mirrored import MirroredSampler
from drumline.algorithms.openai_es import OpenAIES
from drumline.algorithms.optimizers import Adam
from drumline.algorithms.search_state import constant_std
from drumline.algorithms.subspace import SubspaceES
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.episode import NonFinite
from drumline.errors import TaskKilledWorkers
from drumline.functional.perturbation import Noise, counter_noise, fill_table, table_noise
from drumline.functional.subspace import SubspaceSpec
from drumline.policies.build import build_policy
from drumline.policies.heads import Head
from drumline.policies.spec import PolicySpec
from drumline.protocols import PublishedLayout
from drumline.runtime.process_pool import ProcessPool
from drumline.training.evaluations import evaluation_tasks
from drumline.workers.evaluator import Evaluator, EvaluatorSpec

POLICY = PolicySpec(4, Head("discrete", choices=2), hidden=(8,), normalize=False)
POLICY_OF_COUNTING = PolicySpec(3, Head("discrete", choices=3), hidden=(4,), normalize=False)
SIZE = 58
START = np.random.default_rng(5).standard_normal(SIZE).astype(np.float32)
TABLE = np.zeros(4096, np.float32)
fill_table(TABLE, seed=3)


def strategy_on(noise: Noise, fraction: float | None) -> OpenAIES:
    return OpenAIES(
        START,
        MirroredSampler(3, noise),
        Adam(SIZE, learning_rate=0.1, weight_decay=0.0),
        constant_std(0.25),
        perturb_fraction=fraction,
    )


def context_of(published: dict[str, np.ndarray]) -> Any:
    return SimpleNamespace(
        shared={"noise": TABLE},
        probe=lambda point: None,
        published=lambda version: published,
        progress=lambda amount: None,
        withdrawn=lambda: False,
        building=nullcontext,
        on_leave=lambda callback: None,
    )


def evaluator_on(published: dict[str, np.ndarray], **spec: Any) -> Evaluator:
    return EvaluatorSpec(EnvironmentSpec("CartPole-v1"), POLICY, **spec)(context_of(published))


def finished_by_a_pool(lines: list[str], limits: dict[str, float], **options: float) -> int:
    """Return how many episodes end on one worker with these limits."""
    published = {"parameters": np.zeros(build_policy(POLICY_OF_COUNTING).parameter_count, "f4")}
    environment = EnvironmentSpec("lane_environments:counting", options=options)
    pool = ProcessPool(
        EvaluatorSpec(environment, POLICY_OF_COUNTING, noise_seed=0),
        size=1,
        published=PublishedLayout.of(published),
        log=lines.append,
        **limits,
    )
    try:
        pool.publish(0, published)
        tasks = evaluation_tasks(3, 0, 3)
        pool.submit(tasks)
        return len(doubles.collect(pool, len(tasks)))
    finally:
        pool.close()


def test_a_first_step_that_compiles_is_no_hang():
    lines: list[str] = []
    assert finished_by_a_pool(lines, {"hang_seconds": 0.4}, compiles_seconds=1.5) == 3
    assert not lines


@FAULTS
def test_a_first_step_that_never_ends_is_blamed_on_its_episode_by_the_creations_limit():
    lines: list[str] = []
    limits = {"hang_seconds": 0.4, "creation_seconds": 15.0}
    with pytest.raises(TaskKilledWorkers, match=r"3 times \(a hang of 15 s, .*--hang-seconds sets"):
        finished_by_a_pool(lines, limits, hangs_at=1)
    assert all("by a hang of 15 s while running Evaluate(" in line for line in lines)


def acted_with(evaluator: Evaluator, task: Any) -> np.ndarray:
    result: Any = evaluator(task)
    assert (result.member, result.sign) == (task.member, task.sign)
    return evaluator._policy.vector.copy()


@pytest.mark.parametrize("fraction", [None, 0.3])
@pytest.mark.parametrize("shared", [False, True], ids=["counter", "table"])
def test_a_task_is_run_with_the_bits_of_its_candidate(fraction: float | None, shared: bool):
    noise = table_noise(TABLE, SIZE, seed=3) if shared else counter_noise(3)
    strategy = strategy_on(noise, fraction)
    seed = None if shared else 3
    evaluator = evaluator_on(strategy.published(), noise_seed=seed, subset_fraction=fraction)
    for plus, minus in zip(*[iter(strategy.ask(6))] * 2, strict=True):
        tasks = [plus, minus, plus._replace(sign=0)]
        assert [task.sign for task in tasks] == [1, -1, 0]
        vectors = [acted_with(evaluator, task) for task in tasks]
        for task, vector in zip(tasks, vectors, strict=True):
            assert vector.tobytes() == strategy.candidate(task).tobytes()
        assert len({vector.tobytes() for vector in vectors}) == 3


@pytest.mark.parametrize("shared", [False, True], ids=["counter", "table"])
def test_a_task_of_a_subspace_is_run_with_the_bits_of_its_candidate(shared: bool):
    noise = table_noise(TABLE, SIZE, seed=3) if shared else counter_noise(3)
    spec = SubspaceSpec(5, SIZE, seed=3)
    adam = Adam(5, learning_rate=0.1, weight_decay=0.0)
    inner = OpenAIES(np.zeros(5, "f4"), MirroredSampler(3, noise), adam, constant_std(0.25))
    strategy = SubspaceES(START, spec.of(noise), inner)
    seed = None if shared else 3
    evaluator = evaluator_on(strategy.published(), noise_seed=seed, subspace=spec)
    tasks = strategy.ask(6)
    vectors = [acted_with(evaluator, task).tobytes() for task in tasks]
    assert vectors == [strategy.candidate(task).tobytes() for task in tasks]
    assert len(set(vectors)) == 6


def test_an_evaluation_is_run_with_the_mean_whatever_was_run_before():
    strategy = strategy_on(counter_noise(3), None)
    evaluator = evaluator_on(strategy.published(), noise_seed=3)
    acted_with(evaluator, strategy.ask(2)[1])
    for task in evaluation_tasks(3, 0, 2):
        assert acted_with(evaluator, task).tobytes() == START.tobytes()


def test_a_published_population_is_trained_member_by_member_and_its_mean_evaluated():
    members = np.random.default_rng(6).standard_normal((4, SIZE)).astype(np.float32)
    published = {"parameters": START, "population": members}
    evaluator = evaluator_on(published, noise_seed=3)
    task = evaluation_tasks(3, 0, 1)[0]
    for number in (2, 0, 3):
        training = task._replace(member=number, training=True)
        assert acted_with(evaluator, training).tobytes() == members[number].tobytes()
        assert acted_with(evaluator, task).tobytes() == START.tobytes()


def bits(results: list[Any]) -> list[Any]:
    """Return results as values that compare by their bytes."""
    return [
        (
            result._replace(moments=None),
            None
            if result.moments is None
            else [np.asarray(part).tobytes() for part in result.moments],
        )
        for result in results
    ]


@pytest.mark.parametrize(
    ("env_id", "head", "size"),
    [
        ("CartPole-v1", Head("discrete", choices=2), 4),
        ("Hopper-v5", Head("bins", (-1.0,) * 3, (1.0,) * 3, (3,), bins=(-1.0, 0.0, 1.0)), 11),
        ("Pendulum-v1", Head("continuous", (-2.0,), (2.0,), (1,)), 3),
    ],
)
@pytest.mark.parametrize("signs", [False, True])
def test_episodes_side_by_side_have_the_bits_of_each_alone(
    env_id: str, head: Head, size: int, signs: bool
):
    spec = PolicySpec(size, head, hidden=(8, 8))
    count, rng = build_policy(spec).parameter_count, np.random.default_rng(1)
    published = {
        "parameters": rng.standard_normal(count).astype(np.float32),
        "observation_mean": rng.standard_normal(size) * 0.1,
        "observation_inverse_std": rng.random(size) + 0.5,
    }
    made = EvaluatorSpec(
        EnvironmentSpec(env_id), spec, noise_seed=None, action_noise_std=0.1, sign_fitness=signs
    )
    evaluator, together = made(context_of(published)), made(context_of(published))
    assert together.at_once > 1
    sampler = MirroredSampler(3, table_noise(TABLE, count, 3), obs_stat_probability=0.5)
    tasks = sampler.tasks(0, 0, 3 * together.at_once + 2, std=0.5, episode_cap=150)
    alone = bits([evaluator(task) for task in tasks])
    assert together.leading(tasks) == len(tasks)
    assert bits(together.together(tasks)) == alone
    assert bits(together.together(tasks[:3])) == alone[:3]
    assert len({row[0].length for row in alone}) > 1 or env_id == "Pendulum-v1"


def test_a_survival_bonus_is_taken_from_training_episodes_alone():
    published = {"parameters": START}
    evaluator = evaluator_on(published, noise_seed=3, reward_shift=0.75)
    tasks = strategy_on(counter_noise(3), None).ask(4)
    trained: list[list[Any]] = [[evaluator(task) for task in tasks], evaluator.together(tasks)]
    for results in trained:
        for result in results:
            assert result.episode_return == result.length  # 1 for each step
            assert result.fitness == 0.25 * result.length
    evaluated: Any = evaluator(evaluation_tasks(3, 0, 1)[0])
    assert evaluated.fitness == evaluated.episode_return == evaluated.length


@pytest.mark.parametrize("skip", [2, 3])
def test_a_survival_bonus_is_taken_from_every_frame_of_a_repeated_action(skip: int):
    environment = EnvironmentSpec("CartPole-v1", frame_skip=skip)
    spec = EvaluatorSpec(environment, POLICY, noise_seed=3, reward_shift=0.75)
    evaluator = spec(context_of({"parameters": START}))
    uneven = 0
    for task in strategy_on(counter_noise(3), None).ask(8):
        result: Any = evaluator(task)
        assert result.fitness == 0.25 * result.episode_return  # 1 for each frame
        uneven += result.episode_return % skip > 0
    assert uneven, "no episode ended within a decision"


@pytest.mark.parametrize("skip", [1, 2])
def test_rewards_of_float32_are_added_in_float64(skip: int):
    environment = EnvironmentSpec("impure_environment:SmallRewards", frame_skip=skip)
    policy = PolicySpec(2, Head("continuous", (-1.0,), (1.0,), (1,)), hidden=(4,), normalize=False)
    start = np.zeros(build_policy(policy).parameter_count, np.float32)
    made = EvaluatorSpec(environment, policy, noise_seed=0)
    result: Any = made(context_of({"parameters": start}))(evaluation_tasks(3, 0, 1)[0])
    assert result.episode_return == pytest.approx(3_000 * float(np.float32(0.1)), rel=1e-12)


def test_large_bodies_run_one_by_one():
    spec = PolicySpec(105, Head("continuous", (-1.0,) * 8, (1.0,) * 8, (8,)), hidden=(8,))
    made = EvaluatorSpec(EnvironmentSpec("Ant-v5"), spec, noise_seed=0)
    assert made(context_of({})).at_once == 1


@pytest.mark.parametrize(("hidden", "at_once"), [((64, 64), 16), ((160, 160), 9), ((256, 256), 1)])
def test_large_policies_run_fewer_episodes_side_by_side_or_one(
    hidden: tuple[int, ...], at_once: int
):
    spec = PolicySpec(4, Head("discrete", choices=2), hidden=hidden)
    made = EvaluatorSpec(EnvironmentSpec("CartPole-v1"), spec, noise_seed=0)
    assert made(context_of({})).at_once == at_once


def test_only_training_episodes_of_one_version_share_a_stack():
    published = {"parameters": START}
    evaluator = evaluator_on(published, noise_seed=3)
    tasks = strategy_on(counter_noise(3), None).ask(4)
    evaluations = evaluation_tasks(3, 0, 2)
    assert evaluator.leading([*tasks[:3], evaluations[0], tasks[3]]) == 3
    assert evaluator.leading([tasks[0], tasks[1]._replace(version=1)]) == 1
    assert evaluator.leading(evaluations) == 0


def test_withdrawn_episodes_end_and_others_do_not_begin():
    withdrawn = False
    evaluator = evaluator_on({"parameters": START}, noise_seed=3)
    evaluator._context.withdrawn = lambda: withdrawn
    tasks = strategy_on(counter_noise(3), None).ask(200)
    assert None not in evaluator.together(tasks)
    withdrawn = True
    results = evaluator.together(tasks)
    assert None in results
    assert any(result is not None for result in results)


def test_a_nan_ends_the_whole_stack():
    evaluator = evaluator_on({"parameters": np.full(SIZE, np.nan, np.float32)}, noise_seed=3)
    with pytest.raises(NonFinite):
        evaluator.together(strategy_on(counter_noise(3), None).ask(4))
