"""The evaluator: runs one episode of perturbed parameters, or of a published member."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from drumline import seeding
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.episode import NOISE_BLOCK, Episode, EpisodeLoop
from drumline.envs.episode_stack import Beginning, EpisodeStack
from drumline.envs.frame_skip import FrameSkip
from drumline.envs.lean_steps import LeanEnvironment
from drumline.envs.make import lean_environment, make_environment
from drumline.functional import moments, perturbation
from drumline.functional.low_rank import LowRank
from drumline.functional.subspace import SubspaceSpec
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.build import build_policy
from drumline.policies.mlp import MLPPolicy
from drumline.policies.sampled import SampledPolicy
from drumline.policies.spec import REFERENCE, PolicySpec
from drumline.policies.stacked_mlp import StackedMLP, equals_single, stackable
from drumline.protocols import WorkerContext
from drumline.tasks import Evaluate, Evaluation, Rehearsal, RehearseTwice
from drumline.workers.noise import noise_reader
from drumline.workers.rehearsed import rehearsed

_STACKED_FLOATS = 1 << 18
"""Parameters of all episodes side by side, 1 MiB: more of them leave the caches at each step."""
_LEAST_STACK = 4
"""Episodes side by side below which one call of the policy for all of them gains nothing."""


@dataclass(frozen=True)
class EvaluatorSpec:
    """Everything an evaluator needs besides tasks; a pool calls it to build one."""

    environment: EnvironmentSpec
    policy: PolicySpec | ActorCriticSpec
    noise_seed: int | None
    """Seed of counter noise; None when the pool shares a noise table."""
    subset_fraction: float | None = None
    """Perturb only this share of the parameters."""
    subspace: SubspaceSpec | None = None
    """Perturb within this subspace."""
    action_noise_std: float = 0.0
    reward_shift: float = 0.0
    """Subtracted from every reward in training, also of repeated frames: ARS's survival bonus."""
    sign_fitness: bool = False
    """Whether fitness is the sum of the signs of the rewards."""
    sample: bool = False
    """Draw actions from the policy's distribution, from a stream of each episode's seed."""
    low_rank: LowRank | None = None
    """Matrices of counter noise of low rank; None: it has full rank."""

    def __call__(self, context: WorkerContext) -> "Evaluator":
        """Build the evaluator inside a worker process."""
        return Evaluator(self, context)


class Evaluator:
    """Runs `Evaluate` tasks; a result is a pure function of the task and the published arrays."""

    def __init__(self, spec: EvaluatorSpec, context: WorkerContext):
        self._spec = spec
        self._context = context
        made = make_environment(spec.environment)
        context.on_leave(made.close)
        self._limit = made.limit
        self._skip = made.environment if isinstance(made.environment, FrameSkip) else None
        self._policy = build_policy(spec.policy, context.shared.get(REFERENCE))
        if spec.sample:
            self._policy = SampledPolicy(self._policy, spec.policy, 0.0)
        self._loop = EpisodeLoop(
            made.environment, self._policy, spec.environment.id, context.building
        )
        self._read = noise_reader(spec.noise_seed, spec.subspace, context.shared, spec.low_rank)
        self.at_once = self._stack_size(made.environment)
        """Episodes that may run side by side."""
        self._stack: tuple[StackedMLP, EpisodeStack] | None = None

    def __call__(self, task: Evaluate | RehearseTwice) -> Evaluation | Rehearsal:
        """Run one task."""
        if isinstance(task, RehearseTwice):
            return rehearsed(self, task, lambda each, digest: self._evaluate(each, digest=digest))
        return self._evaluate(task, digest=False)

    def leading(self, tasks: Sequence[Any]) -> int:
        """Return how many of the first tasks can run side by side."""
        version, count = getattr(tasks[0], "version", None), 0
        for task in tasks:
            if type(task) is not Evaluate or not task.training or task.version != version:
                break
            count += 1
        return count

    def together(self, tasks: Sequence[Evaluate]) -> list[Evaluation | None]:
        """Run tasks side by side, with the results of each alone; None: withdrawn before."""
        if self._stack is None:
            self._stack = self._stacked()
        policy, stack = self._stack
        published = self._context.published(tasks[0].version)
        if "observation_mean" in published:
            policy.load_moments(published["observation_mean"], published["observation_inverse_std"])
        episodes = stack.run(
            [
                Beginning(
                    task.seed,
                    self._longest(task),
                    partial(self._write, task, published),
                    self._action_noise(task),
                    task.contributes,
                )
                for task in tasks
            ],
            count_signs=self._spec.sign_fitness,
            probe=self._context.probe,
            progress=self._context.progress,
            withdrawn=self._context.withdrawn,
        )
        return [
            None if episode is None else self._result(task, episode)
            for task, episode in zip(tasks, episodes, strict=True)
        ]

    def _stack_size(self, environment: Any) -> int:
        """Return the number of episodes side by side that a lean environment is best with."""
        lean, spec = lean_environment(environment), self._spec.policy
        if lean is None or lean.AT_ONCE == 1 or type(self._policy) is not MLPPolicy:
            return 1
        if not stackable(spec):
            return 1
        assert isinstance(spec, PolicySpec), "only these are stackable"
        count = min(lean.AT_ONCE, _STACKED_FLOATS // self._policy.parameter_count)
        dtype = lean.observation_space.dtype
        return count if count >= _LEAST_STACK and equals_single(spec, count, dtype) else 1

    def _stacked(self) -> tuple[StackedMLP, EpisodeStack]:
        spec, environments = self._spec.policy, list[LeanEnvironment]()
        assert isinstance(spec, PolicySpec), "only these are stackable"
        with self._context.building():
            for _ in range(self.at_once):
                made = make_environment(self._spec.environment)
                self._context.on_leave(made.close)
                lean = lean_environment(made.environment)
                assert lean is not None, "as the evaluator's own, of the same specification"
                environments.append(lean)
        policy = StackedMLP(spec, self.at_once, environments[0].observation_space.dtype)
        return policy, EpisodeStack(environments, policy)

    def _evaluate(self, task: Evaluate, *, digest: bool) -> Evaluation:
        self._load(task)
        seeding.seed_globals(task.seed)
        if isinstance(self._policy, SampledPolicy):
            self._policy.begin(seeding.generator(task.seed, "evaluation-action"))
        self._context.probe("episode-begun")
        episode = self._loop.run(
            task.seed,
            self._longest(task),
            noise=self._action_noise(task),
            count_signs=self._spec.sign_fitness,
            keep_observations=task.contributes,
            keep_numbers=not task.training,
            digest=digest,
            progress=self._context.progress,
            withdrawn=self._context.withdrawn,
        )
        self._context.probe("episode-ended")
        return self._result(task, episode)

    def _longest(self, task: Evaluate) -> int:
        return min((limit for limit in (self._limit, task.episode_cap) if limit), default=0)

    def _result(self, task: Evaluate, episode: Episode) -> Evaluation:
        fitness = episode.sign_return if self._spec.sign_fitness else episode.episode_return
        if task.training:
            rewards = episode.length if self._skip is None else self._skip.frames
            fitness -= self._spec.reward_shift * rewards
        rows = episode.observations
        return Evaluation(
            version=task.version,
            member=task.member,
            sign=task.sign,
            noise_key=task.noise_key,
            std=task.std,
            fitness=fitness,
            episode_return=episode.episode_return,
            length=episode.length,
            moments=None if rows is None else moments.moments_of(rows),
            digest=episode.digest,
            numbers=episode.numbers,
        )

    def _load(self, task: Evaluate) -> None:
        published, policy = self._context.published(task.version), self._policy
        self._write(task, published, policy.vector)
        policy.loaded()
        if "observation_mean" in published:
            policy.load_moments(published["observation_mean"], published["observation_inverse_std"])

    def _write(
        self, task: Evaluate, published: Mapping[str, np.ndarray], vector: np.ndarray
    ) -> None:
        """Write the parameters of a task's member into `vector` `[P]`."""
        parameters = published["parameters"]
        if task.training and "population" in published:
            vector[:] = published["population"][task.member]
        elif task.sign == 0:
            vector[:] = parameters
        else:
            within = None
            if self._spec.subset_fraction is not None:
                within = perturbation.subset_range(
                    task.noise_key, parameters.size, self._spec.subset_fraction
                )
            perturbation.perturb(
                parameters, self._read, task.noise_key, task.sign * task.std, vector, within
            )

    def _action_noise(self, task: Evaluate) -> Callable[[], np.ndarray] | None:
        std, head = self._spec.action_noise_std, self._spec.policy.head
        if not std or not task.training or head is None or head.kind == "discrete":
            return None
        rng: Any = seeding.generator(task.seed, "action-noise")
        return partial(_scaled_block, rng, head.action_size, np.float32(std))


def _scaled_block(rng: np.random.Generator, size: int, std: np.float32) -> np.ndarray:
    return rng.standard_normal((NOISE_BLOCK, size), dtype=np.float32) * std
