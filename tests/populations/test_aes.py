"""AES-RL's population by hand-made lives: what is published, told, refined and let begin."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from drumline import seeding
from drumline.algorithms.actor_choice import ActorChoice
from drumline.algorithms.first_critics import first_critics
from drumline.buffers.queued_replay import QueuedReplay
from drumline.buffers.replay import TERMINATED, Replay, ReplayShape
from drumline.functional.trust_region import diagonal_kl
from drumline.populations.aes import AESPopulation, PopulationPlan
from drumline.recipes.aes import AES
from drumline.tasks import CriticsTrained, Job, Lived, MeanEvaluated, Told
from drumline.training.layout import SteadyLayout
from drumline.types import Candidate, Individual, Metrics, State

SHAPE = ReplayShape(capacity=200, observation_size=4, action_size=1, slack=100, truncations=50)
PLAN = PopulationPlan(
    seed=0,
    warmup_steps=10,
    mean_evaluations=2,
    batch_size=8,
    critic_batches=25,
    critic_lag=0,
    recent_episodes=3,
    actor_steps=lambda env_steps: env_steps,
    learns_critics=True,
)
BUILT = AES(
    env="InvertedPendulum-v5",
    warmup_steps=10,
    batch_size=8,
    hidden=(8,),
    recent_episodes=3,
    critic_lag=0,
    p_desired=1.0,
)


class Recording:
    """A strategy that notes what it is told, and whose mean counts the tells."""

    def __init__(self):
        self.told: list[Individual] = []
        self.asked = 0

    @property
    def parameters(self) -> np.ndarray:
        return np.full(2, len(self.told), np.float32)

    def ask(self, count: int) -> list[Candidate]:
        first, self.asked = self.asked, self.asked + count
        vectors = [np.array([10.0 * i, 1.0], np.float32) for i in range(first, self.asked)]
        return [Candidate(first + i, len(self.told), vector) for i, vector in enumerate(vectors)]

    def tell(self, individuals: Sequence[Individual]) -> Metrics:
        self.told += individuals
        return {"update_norm": 1.0}


def empty_replay() -> QueuedReplay:
    arrays = {name: np.zeros(size, kind) for name, (size, kind) in SHAPE.layout().items()}
    return QueuedReplay(Replay(SHAPE, arrays), 50)


def lives(
    population: AESPopulation,
    worker: int,
    job: Job,
    length: int,
    fitness: float = 0.0,
    vector: np.ndarray | None = None,
) -> Told:
    """End a job with an episode of so many steps."""
    rows = np.zeros((length + 1, 4), np.float32), np.zeros((length, 1), np.float32)
    lived = Lived(vector, fitness, length, TERMINATED, *rows, np.zeros(length, np.float32))
    return population.tell(worker, job.task, lived)


def next_job(population: AESPopulation, worker: int = 0) -> Job:
    job = population.ask(worker)
    assert job is not None
    return job


def warm(population: AESPopulation, *lengths: int) -> AESPopulation:
    for length in lengths or (10,):
        lives(population, 0, next_job(population), length)
    return population


def recorded(
    plan: PopulationPlan = PLAN, rl_probability: float = 1.0
) -> tuple[AESPopulation, Recording]:
    """A warm population, all of whose individuals are refined unless told, and its strategy."""
    strategy, choice = Recording(), ActorChoice(lambda rl, es: rl_probability, seed=0)
    critics = first_critics((5, 8, 1), 0)
    return warm(AESPopulation(plan, strategy, choice, critics, empty_replay())), strategy


def built(replay: QueuedReplay | None = None, **changes: Any) -> AESPopulation:
    recipe = replace(BUILT, **changes).build(SteadyLayout(pool="inline"))
    population = recipe.population(empty_replay() if replay is None else replay)
    assert isinstance(population, AESPopulation)
    return population


def warm_and_fresh(**changes: Any) -> tuple[AESPopulation, AESPopulation]:
    """Two populations over one replay: one that is warm, and one to load its state."""
    replay = empty_replay()
    return warm(built(replay, **changes)), built(replay, **changes)


def mean_and_variance(population: AESPopulation) -> tuple[np.ndarray, np.ndarray]:
    tensors = population.state().tensors
    return tensors["parameters"], tensors["variance"]


def test_an_individual_is_told_as_it_lived_not_as_it_was_asked():
    population, strategy = recorded()
    job = next_job(population)
    asked = population.published()["actor"]
    changed = asked + np.array([3.0, 4.0], np.float32)
    assert lives(population, 0, job, 5, 7.0, changed).metrics == {}
    mean = MeanEvaluated((1.0, 2.0), 6)
    metrics = population.tell(0, next_job(population).task, mean).metrics
    (told,) = strategy.told
    assert np.array_equal(told.vector, changed)
    assert told._replace(vector=changed) == Individual(
        0, 0, changed, 7.0, 1.5, refined=True, mean_version=0
    )
    assert metrics["distance_moved"] == 5.0
    assert metrics["improvement_over_mean"] == 5.5


def test_an_individual_that_nothing_refined_is_told_as_it_was_asked():
    population, strategy = recorded(replace(PLAN, mean_evaluations=0))
    job = next_job(population)
    asked = population.published()["actor"]
    metrics = lives(population, 0, job, 5).metrics
    (told,) = strategy.told
    assert np.array_equal(told.vector, asked)
    assert told.mean_fitness is None
    assert metrics["distance_moved"] == 0.0


def test_the_mean_is_evaluated_as_it_is_when_its_evaluation_begins():
    population, strategy = recorded()
    jobs = [next_job(population, worker) for worker in range(2)]
    for worker, job in enumerate(jobs):
        lives(population, worker, job, 5)
        second = next_job(population, worker)
        assert np.array_equal(population.published()["actor"], [worker, worker])
        assert second.version == second.task.version
        population.tell(worker, second.task, MeanEvaluated((1.0, 2.0), 6))
    assert [told.version for told in strategy.told] == [0, 0]


def test_only_steps_of_individuals_and_warm_up_are_counted():
    population, _ = recorded()
    lives(population, 0, next_job(population), 5)
    population.tell(0, next_job(population).task, MeanEvaluated((1.0, 2.0), 6))
    assert (population.env_steps_counted, population.env_steps_beside) == (15, 6)


def test_the_critic_takes_a_job_only_while_it_is_behind_the_environment():
    population, _ = recorded()
    taken = jobs = 0
    for length in (5, 20, 30, 1, 40):
        lives(population, 0, next_job(population), length)
        population.tell(0, next_job(population).task, MeanEvaluated((0.0, 0.0), 2))
        while job := population.ask_critic():
            assert taken < population.env_steps_counted
            taken, jobs = taken + job.gradient_steps, jobs + 1
            state = State(first_critics((5, 8, 1), 0).tensors, {"critic_steps": taken})
            population.take_critic(job.task, CriticsTrained(state, {}))
        assert population.env_steps_counted <= taken < population.env_steps_counted + 25
    assert jobs == 5


def test_the_critics_follow_the_mean():
    population, strategy = recorded(replace(PLAN, mean_evaluations=0))
    lives(population, 0, next_job(population), 5)
    job = population.ask_critic()
    assert job is not None
    assert job.version == job.task.version
    assert np.array_equal(population.published()["actor"], strategy.parameters)


CHAINED = replace(PLAN, mean_evaluations=0, chained=True)


def told_refined(population: AESPopulation, vector: Sequence[float]) -> np.ndarray:
    """End a refined individual with these parameters; return those that it began with."""
    job = next_job(population)
    began = population.published()["actor"]
    lives(population, 0, job, 5, 7.0, np.array(vector, np.float32))
    return began


def test_a_chain_of_refinements_goes_on_from_the_newest():
    population, strategy = recorded(CHAINED)
    assert told_refined(population, [3.0, 4.0]).tolist() == [0.0, 1.0]  # the first sample
    assert told_refined(population, [5.0, 6.0]).tolist() == [3.0, 4.0]
    critics = population.ask_critic()
    assert critics is not None
    assert population.published()["actor"].tolist() == [5.0, 6.0]
    assert [told.vector.tolist() for told in strategy.told] == [[3.0, 4.0], [5.0, 6.0]]


def test_without_a_chain_refinements_begin_with_samples():
    population, _ = recorded(replace(CHAINED, chained=False))
    told_refined(population, [3.0, 4.0])
    assert told_refined(population, [5.0, 6.0]).tolist() == [10.0, 1.0]


def test_individuals_without_gradient_steps_are_samples_beside_a_chain():
    population, _ = recorded(CHAINED, rl_probability=0.5)
    begun: dict[bool, list[list[float]]] = {False: [], True: []}
    for index in range(20):
        job = next_job(population)
        refined = job.gradient_steps > 0
        begun[refined].append(population.published()["actor"].tolist())
        newest = np.array([-1.0, index], np.float32)
        lives(population, 0, job, 5, -1.0, newest if refined else None)
    assert len(begun[True]) > 5
    assert len(begun[False]) > 5
    assert all(first >= 0.0 for first, _ in begun[False])
    assert all(first == -1.0 for first, _ in begun[True][1:])


def test_an_evaluation_says_how_many_had_been_told_when_it_was_asked():
    population, strategy = recorded()
    for worker in (0, 1, 2):
        lives(population, worker, next_job(population, worker), 5)
    tasks = {worker: next_job(population, worker).task for worker in (0, 1)}
    population.tell(1, tasks[1], MeanEvaluated((1.0,), 3))
    tasks[2] = next_job(population, 2).task
    for worker in (0, 2):
        population.tell(worker, tasks[worker], MeanEvaluated((1.0,), 3))
    told = [(individual.index, individual.mean_version) for individual in strategy.told]
    assert told == [(1, 0), (0, 0), (2, 1)]


def test_a_resumed_evaluation_is_of_the_same_mean():
    changes = {"mean_rule": "confirmed-move", "variance_rule": "one-fifth"}
    population, resumed = warm_and_fresh(**changes)
    for worker in (0, 1):
        lives(population, worker, next_job(population, worker), 5, 9.0)
    tasks = [next_job(population, worker).task for worker in (0, 1)]
    population.tell(0, tasks[0], MeanEvaluated((1.0,), 3))
    resumed.load(population.state())
    for one in (population, resumed):
        one.tell(1, tasks[1], MeanEvaluated((2.0,), 3))
    states = [one.state() for one in (population, resumed)]
    assert states[0].counters == states[1].counters
    assert all(
        np.array_equal(array, states[1].tensors[name]) for name, array in states[0].tensors.items()
    )


def test_a_resumed_chain_goes_on_from_the_same_individual():
    population, resumed = warm_and_fresh(refined_from="newest", mean_evaluations=0)
    newest = np.arange(population.parameters.size, dtype=np.float32)
    lives(population, 0, next_job(population), 5, -1.0, newest)
    resumed.load(population.state())
    for one in (population, resumed):
        next_job(one, 1)
        assert np.array_equal(one.published()["actor"], newest)


@pytest.mark.parametrize(("scale", "steps"), [(1.0, 16), (0.5, 8), (2.0, 32)])
def test_actor_steps_follow_the_lengths_of_the_recent_episodes(scale: float, steps: int):
    population = warm(built(actor_steps_scale=scale), 1, 2, 4, 10)
    assert next_job(population).gradient_steps == steps


def test_fixed_actor_steps_follow_no_episode():
    population = warm(
        built(actor_steps="fixed", fixed_actor_steps=17, recent_episodes=10), 1, 2, 4, 10
    )
    job = next_job(population)
    assert job.gradient_steps == job.task.refine.steps == 17


def refined(population: AESPopulation, individuals: int) -> list[bool]:
    """Return for each of the next individuals whether it is refined."""
    warm(population)
    return [next_job(population, worker).gradient_steps > 0 for worker in range(individuals)]


def test_a_fixed_rl_probability_heeds_no_count():
    draws = [seeding.generator(0, "es-or-rl", i).random() for i in range(40)]
    fixed = refined(built(p_desired=0.3, rl_probability="fixed"), 40)
    assert fixed == [draw < 0.3 for draw in draws]


def test_a_controlled_rl_probability_keeps_to_the_desired_share():
    controlled = refined(built(p_desired=0.3, control_slope=1e9), 40)
    for count in range(1, 41):
        assert abs(sum(controlled[:count]) - 0.3 * count) < 1.5


def step_of_a_better_individual(kl_bound: float) -> tuple[float, Metrics]:
    """The divergence of its step in nats, and what was said about it."""
    population = warm(built(kl_bound=kl_bound, p_desired=0.0))
    before = mean_and_variance(population)
    lives(population, 0, next_job(population), 5, 300.0)
    metrics = population.tell(0, next_job(population).task, MeanEvaluated((1.0,), 1)).metrics
    return diagonal_kl(*mean_and_variance(population), *before), metrics


def test_a_kl_bound_shortens_the_step_to_just_within_it():
    divergence, free = step_of_a_better_individual(0.0)
    assert divergence > 1.0
    assert free["trust_region_share"] == 1.0
    divergence, bounded = step_of_a_better_individual(0.01)
    assert divergence == pytest.approx(0.01, rel=1e-3)
    assert bounded["update_norm"] < free["update_norm"]
