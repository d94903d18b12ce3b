"""AES-RL against a serial loop: one logical worker, gradient steps that cost next to nothing."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from whole_runs import run_on

from drumline import seeding
from drumline.algorithms.actor_choice import ActorChoice
from drumline.algorithms.async_es import AsyncES
from drumline.algorithms.first_critics import first_critics
from drumline.buffers.replay import TERMINATED, Replay, ReplayWriter, one_episode
from drumline.envs.make import make_environment
from drumline.functional.population_control import controlled_probability
from drumline.policies.build import build_policy
from drumline.recipes.aes import AES
from drumline.recipes.learned_actor import learned_actor
from drumline.recipes.update_rules import make_update_rules
from drumline.runs.checkpoint import read_checkpoint
from drumline.tasks import GradientJob
from drumline.training.layout import SteadyLayout
from drumline.types import Individual

INLINE = SteadyLayout(pool="inline", tensorboard=False)
SMALL = AES(
    env="InvertedPendulum-v5",
    total_steps=10_000,
    concurrency=1,
    actor_step_cost=2_000,
    critic_step_cost=2_000,
    critic_lag=0,
    fitness_range=5.0,
    initial_variance=0.1,
    warmup_steps=40,
    replay_size=120,
    batch_size=16,
    hidden=(8,),
    critic_batches=30,
    mean_evaluations=2,
    recent_episodes=3,
)


class SerialAES:
    """One thing after the other: live, train the critics, evaluate the mean, tell."""

    def __init__(self, config: AES):
        recipe, actor = config.build(INLINE), learned_actor(config)
        arrays = {n: np.zeros(size, kind) for n, (size, kind) in recipe.shape.layout().items()}
        rules = make_update_rules(config.mean_rule, config.variance_rule, config.rule_numbers)
        self.config = config
        self.writer = ReplayWriter(Replay(recipe.shape, arrays))
        self.jobs = recipe.jobs(arrays)
        self.environment = make_environment(recipe.environment).environment
        self.policy = build_policy(actor.policy)
        self.critics = first_critics((5, *config.hidden, 1), config.seed)
        self.critic_jobs = 0
        self.lengths: list[int] = []
        self.strategy = AsyncES(
            actor.first_parameters(config.seed),
            rules.mean,
            rules.variance,
            seed=config.seed,
            initial_variance=config.initial_variance,
        )

    def seed(self, role: str, number: int) -> int:
        return seeding.seeds(self.config.seed, 1, role, number)[0]

    def episode(self, seed: int, vector: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Observations, actions and rewards of the actor, or of random actions."""
        drawn = seeding.generator(seed, "warm-up-actions").random((128, 1), dtype=np.float32)
        if vector is not None:
            self.policy.load_vector(vector)
        observation, _ = self.environment.reset(seed=seed)
        rows, actions, rewards, ended = [observation], [], [], False
        while not ended:
            acts = drawn[len(rewards)] * 6.0 - 3.0 if vector is None else self.policy.act(rows[-1])
            observation, reward, ended, _, _ = self.environment.step(acts)
            rows.append(observation)
            actions.append(acts)
            rewards.append(float(reward))
        return tuple(np.array(each, np.float32) for each in (rows, actions, rewards))

    def live(self, seed: int, vector: np.ndarray | None = None) -> float:
        rows, actions, rewards = self.episode(seed, vector)
        self.writer.append(one_episode(rows, actions, rewards, TERMINATED))
        self.lengths.append(len(rewards))
        return float(rewards.sum())

    def train_critics(self) -> None:
        while self.critics.counters["critic_steps"] < sum(self.lengths):
            root = self.seed("critic-job", self.critic_jobs)
            job = GradientJob(self.config.critic_batches, self.writer.watermark, root)
            mean = self.strategy.parameters
            self.critics, _ = self.jobs.train_critics(self.critics, mean, job)
            self.critic_jobs += 1

    def mean_fitness(self, index: int) -> float:
        root = self.seed("mean-evaluations", index)
        seeds = seeding.seeds(root, self.config.mean_evaluations, "mean-evaluation")
        returns = [self.episode(seed, self.strategy.parameters)[2].sum() for seed in seeds]
        return float(np.mean(returns))

    def individuals(self) -> Iterator[Individual]:
        """Warm up, then yield each individual as it is told."""
        config, choice = self.config, ActorChoice(probability, seed=self.config.seed)
        while sum(self.lengths) < config.warmup_steps:
            self.live(self.seed("warm-up-episode", len(self.lengths)))
        seen = self.critics  # the first individual begins together with the critic
        self.train_critics()
        while True:
            (candidate,) = self.strategy.ask(1)
            vector, index = candidate.vector, candidate.index
            if choice.refines(index):
                steps = sum(self.lengths[-config.recent_episodes :])
                job = GradientJob(steps, self.writer.watermark, self.seed("refine-job", index))
                vector = self.jobs.refine(vector, seen.tensors["critics"], job)
            fitness = self.live(self.seed("individual-episode", index), vector)
            self.train_critics()
            seen = self.critics
            told = Individual(index, candidate.version, vector, fitness, self.mean_fitness(index))
            self.strategy.tell([told])
            yield told


def probability(rl_count: int, es_count: int) -> float:
    return controlled_probability(rl_count, es_count, desired_share=0.5, slope=50.0)


def test_with_one_logical_worker_what_is_told_and_learned_is_what_a_serial_loop_has(tmp_path: Path):
    folder = run_on(tmp_path / "run", SMALL, INLINE, last_update=24)
    with folder.metrics_csv.open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["kind"] != "2.0"]
    serial = SerialAES(SMALL)
    for row, told in zip(rows, serial.individuals(), strict=False):
        assert float(row["fitness"]) == told.fitness
        assert float(row["mean_fitness"]) == told.mean_fitness
    serial.environment.close()
    state = read_checkpoint(folder, None).state
    assert state.counters["rl_individuals"] > 3 < state.counters["es_individuals"]
    assert state.counters["critic_steps"] == serial.critics.counters["critic_steps"]
    critics = {f"critics/{name}": array for name, array in serial.critics.tensors.items()}
    for name, array in {**serial.strategy.published(), **critics}.items():
        assert np.array_equal(state.tensors[name], array), name


@pytest.mark.parametrize(
    "flag",
    ["--env-step-cost", "--gradient-overhead-cost", "--actor-step-cost", "--critic-step-cost"],
)
def test_a_cost_whose_virtual_times_64_bits_cannot_hold_is_refused(flag: str):
    field = flag.removeprefix("--").replace("-", "_")
    most = 2**62 // SMALL.total_steps
    replace(SMALL, **{field: most})
    words = f"{flag} must be at most {most} with --total-steps 10000, .* got {most + 1}"
    with pytest.raises(ValueError, match=words):
        replace(SMALL, **{field: most + 1})


def test_a_cost_of_arithmetic_whose_virtual_times_64_bits_cannot_hold_is_refused():
    config = replace(SMALL, actor_step_cost=0, multiply_add_cost=10**15)
    with pytest.raises(ValueError, match=r"a gradient step's cost, by --multiply-add-cost 10+, mu"):
        config.build(INLINE)
