"""The refiner: runs individuals, trains actors and critics, evaluates the mean.

    Live           (refine on a frozen critic and replay window →) one episode → its transitions
    TrainCritics   minibatch steps on the critics, the target policy standing still
    EvaluateMean   episodes that nothing learns from
    Explore        one episode with noise on the actions → its transitions
    TrainLearner   minibatch steps on an actor and its critics

Every task is a pure function of itself, the published arrays and a replay window. Rollouts never
import torch; refining and training import it on first use.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from drumline import seeding
from drumline.buffers.replay import TERMINATED, TRUNCATED
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.episode import EpisodeLoop, NonFinite, storable
from drumline.envs.interface import NO_NUMBER, refused_observation, refused_reward
from drumline.envs.make import make_environment
from drumline.functional.torch_threads import one_torch_thread
from drumline.policies.build import build_policy
from drumline.policies.heads import stored_action_function
from drumline.policies.spec import PolicySpec
from drumline.protocols import WorkerContext
from drumline.tasks import (
    LEARNER,
    LEARNER_COUNTERS,
    CriticsTrained,
    EvaluateMean,
    Explore,
    GradientJob,
    LearnerTrained,
    Live,
    Lived,
    MeanEvaluated,
    TrainCritics,
    TrainLearner,
)
from drumline.types import Metrics, State

CRITIC_TENSORS = ("critics", "target_critics", "critic_adam_first", "critic_adam_second")
"""Published tensors of the critics, besides the number of their gradient steps."""

_WARMUP_BLOCK = 128


class Jobs(Protocol):
    """Gradient steps as jobs; implemented by `algorithms.td3.TD3Jobs`."""

    def refine(
        self,
        actor: np.ndarray,
        critics: np.ndarray,
        job: GradientJob,
        progress: Callable[[int], None],
    ) -> np.ndarray:
        """Return the actor's parameters after the job's steps."""
        ...

    def train_critics(
        self,
        state: State,
        target_actor: np.ndarray,
        job: GradientJob,
        progress: Callable[[int], None],
    ) -> tuple[State, Metrics]:
        """Return the critics' state after the job's steps."""
        ...

    def learn(
        self, state: State, job: GradientJob, progress: Callable[[int], None]
    ) -> tuple[State, Metrics]:
        """Return a learner's state after the job's steps."""
        ...


@dataclass(frozen=True)
class RefinerSpec:
    """Everything a refiner needs besides tasks; a pool calls it to build one."""

    environment: EnvironmentSpec
    policy: PolicySpec
    jobs: Callable[[Mapping[str, np.ndarray]], Jobs]
    """Shared arrays → `Jobs`; pickled by reference, and torch is imported when it is called."""

    def __call__(self, context: WorkerContext) -> "Refiner":
        """Build the refiner inside a worker process."""
        return Refiner(self, context)


class Refiner:
    """Runs the tasks of a population."""

    def __init__(self, spec: RefinerSpec, context: WorkerContext):
        self._spec = spec
        self._context = context
        made = make_environment(spec.environment)
        context.on_leave(made.close)
        self._environment, self._limit = made.environment, made.limit
        self._policy = build_policy(spec.policy)
        self._head = spec.policy.head
        self._discrete = self._head.kind == "discrete"
        self._to_environment = stored_action_function(self._head)
        self._loop = EpisodeLoop(
            made.environment, self._policy, spec.environment.id, context.building
        )
        self._made_jobs: Jobs | None = None
        self._rows = np.empty((257, spec.policy.observation_size), np.float32)
        self._actions = np.empty((256, self._head.action_size), np.float32)

    @one_torch_thread()
    def __call__(self, task: Live | EvaluateMean | TrainCritics | Explore | TrainLearner) -> Any:
        """Run one task."""
        if isinstance(task, Explore):
            return self._explore(task)
        if isinstance(task, TrainLearner):
            return self._learn(task)
        if isinstance(task, Live):
            return self._live(task)
        if isinstance(task, EvaluateMean):
            return self._evaluate(task)
        return self._train(task)

    @property
    def _jobs(self) -> Jobs:
        if self._made_jobs is None:
            with self._context.building():  # imports torch, from a slow disk perhaps
                self._made_jobs = self._spec.jobs(self._context.shared)
        return self._made_jobs

    def _live(self, task: Live) -> Lived:
        published = self._context.published(task.version)
        vector: np.ndarray | None = None
        self._context.probe("individual-begun")
        if task.refine is None:
            self._policy.load_vector(published["actor"])
        else:
            # Copies: torch needs memory that no other process can change while it computes.
            actor, critics = published["actor"].copy(), published["critics"].copy()
            vector = self._jobs.refine(actor, critics, task.refine, self._context.progress)
            self._context.probe("individual-refined")
            self._policy.load_vector(vector)
        random = _Random(task.seed, self._head) if task.random else None
        lived = self._episode(task, vector, random=random)
        self._context.probe("individual-ended")
        return lived

    def _explore(self, task: Explore) -> Lived:
        self._context.probe("exploration-begun")
        self._policy.load_vector(self._context.published(task.version)["actor"])
        return self._episode(task, None, noise=_OrnsteinUhlenbeck(task, self._head))

    def _evaluate(self, task: EvaluateMean) -> MeanEvaluated:
        self._context.probe("mean-begun")
        self._policy.load_vector(self._context.published(task.version)["actor"])
        returns: list[float] = []
        steps = 0
        for seed in seeding.seeds(task.seed, task.episodes, "mean-evaluation"):
            seeding.seed_globals(seed)
            episode = self._loop.run(
                seed,
                self._limit,
                progress=self._context.progress,
                withdrawn=self._context.withdrawn,
            )
            returns.append(episode.episode_return)
            steps += episode.length
        self._context.probe("mean-ended")
        return MeanEvaluated(tuple(returns), steps)

    def _train(self, task: TrainCritics) -> CriticsTrained:
        self._context.probe("critic-begun")
        published = self._context.published(task.version)
        tensors = {name: published[name].copy() for name in CRITIC_TENSORS}
        state = State(tensors, {"critic_steps": int(published["critic_steps"][0])})
        actor = published["actor"].copy()
        trained, metrics = self._jobs.train_critics(state, actor, task.job, self._context.progress)
        self._context.probe("critic-ended")
        return CriticsTrained(trained, metrics)

    def _learn(self, task: TrainLearner) -> LearnerTrained:
        self._context.probe("learner-begun")
        published = self._context.published(task.version)
        names = [name for name in published if name.startswith(LEARNER)]
        arrays = {name.removeprefix(LEARNER): published[name].copy() for name in names}
        counters = {name: int(arrays.pop(name)[0]) for name in LEARNER_COUNTERS}
        state = State(arrays, {**counters})
        trained, metrics = self._jobs.learn(state, task.job, self._context.progress)
        self._context.probe("learner-ended")
        return LearnerTrained(trained, metrics)

    def _episode(
        self,
        task: Live | Explore,
        vector: np.ndarray | None,
        *,
        random: "_Random | None" = None,
        noise: "_OrnsteinUhlenbeck | None" = None,
    ) -> Lived:
        """Run an episode from `reset(seed)` to its end, keeping every transition."""
        environment, progress = self._environment, self._context.progress
        seeding.seed_globals(task.seed)
        self._loop.opening.begin()
        observation, _ = environment.reset(seed=task.seed)
        rewards: list[float] = []
        total, length = 0.0, 0
        self._rows[0] = self._finite(observation, task, 0)
        while True:
            if length == len(self._actions):
                self._grow()
            if random is None:
                output = self._policy.output(observation)
                if output[0] != output[0]:
                    raise NonFinite(f"the policy's output is NaN in {self._place(task, length)}")
                action = self._policy.to_action(output, None if noise is None else noise.next())
                stored = action - self._head.start if self._discrete else action
            else:
                stored = random.next(length)
                action = self._to_environment(stored)
            self._actions[length] = np.asarray(stored, np.float32).reshape(-1)
            observation, reward, terminated, truncated, _ = environment.step(action)
            if not length:
                self._loop.opening.end()
            length += 1
            self._rows[length] = self._finite(observation, task, length)
            try:
                fits, value = storable(reward), float(reward)
            except NO_NUMBER as error:
                raise refused_reward(reward, self._place(task, length)) from error
            if not fits:
                raise NonFinite(
                    f"the reward ({reward}) is not finite in {self._place(task, length)}"
                )
            rewards.append(value)
            total += value
            progress(1)
            if terminated or truncated or length == self._limit:
                break
        return Lived(
            vector,
            total,
            length,
            TERMINATED if terminated else TRUNCATED,
            self._rows[: length + 1].copy(),
            self._actions[:length].copy(),
            np.array(rewards, np.float32),
        )

    def _grow(self) -> None:
        self._actions = np.concatenate([self._actions, np.empty_like(self._actions)])
        self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])

    def _finite(self, observation: Any, task: Live | Explore, step: int) -> np.ndarray:
        shape = self._environment.observation_space.shape
        try:
            array = np.asarray(observation, np.float32).reshape(-1)
        except (TypeError, ValueError) as error:
            raise refused_observation(observation, shape, self._place(task, step)) from error
        if len(array) != self._rows.shape[1]:
            raise refused_observation(observation, shape, self._place(task, step))
        if not np.isfinite(array).all():
            raise NonFinite(f"the observation is not finite in {self._place(task, step)}")
        return array

    def _place(self, task: Live | Explore, step: int) -> str:
        return f"{self._spec.environment.id}, episode seed {task.seed}, step {step}"


class _Random:
    """Uniformly random actions of one warm-up episode, in the replay's form."""

    def __init__(self, seed: int, head: Any):
        self._rng = seeding.generator(seed, "warm-up-actions")
        self._head = head
        self._block = np.empty((0, 0), np.float32)

    def next(self, step: int) -> np.ndarray:
        """Return the action of `step`; steps must be asked for in order."""
        row = step % _WARMUP_BLOCK
        if row == 0:
            shape = (_WARMUP_BLOCK, self._head.action_size)
            self._block = self._rng.random(shape, dtype=np.float32)
        uniform = self._block[row]
        if self._head.kind == "discrete":
            choices = self._head.choices
            return np.array([min(int(uniform[0] * choices), choices - 1)], np.float32)
        low, high = np.array(self._head.low, np.float32), np.array(self._head.high, np.float32)
        return low + uniform * (high - low)


class _OrnsteinUhlenbeck:
    """Exploration noise of one episode (Ornstein and Uhlenbeck 1930, in unit steps)."""

    def __init__(self, task: Explore, head: Any):
        self._rng = seeding.generator(task.seed, "exploration")
        self._task = task
        self._half = (np.array(head.high, np.float32) - np.array(head.low, np.float32)) * 0.5
        self._state = np.zeros(self._half.size)

    def next(self) -> np.ndarray:
        """Return the noise of the next step, in units of actions."""
        task, drawn = self._task, self._rng.standard_normal(self._half.size)
        self._state += task.sigma * drawn - task.theta * self._state
        return (task.scale * self._state * self._half).astype(np.float32)
