"""TransitionStream: one environment in the learner's process, the data source of TD3.

An episode is a function of its seed and its actions, so a stream is restored by repeating the
actions of the running episode. Exploration is drawn in blocks of steps from named streams.
"""

import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from drumline import seeding
from drumline.buffers.replay import GOES_ON, TERMINATED, TRUNCATED
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.episode import Opening, storable
from drumline.envs.interface import NO_NUMBER, refused_observation, refused_reward
from drumline.envs.make import make_environment
from drumline.errors import WorkerError, words_of
from drumline.functional.torch_threads import one_torch_thread
from drumline.policies.build import build_policy
from drumline.policies.heads import stored_action_function
from drumline.policies.spec import PolicySpec
from drumline.protocols import Unwatched, Whereabouts
from drumline.types import EpisodeRow, State

RECENT = 100
_ACTIONS, _RECENT = "stream_actions", "stream_recent_returns"
_EPISODE, _RETURN = "stream_episode", "stream_return"


class UnfiniteTransition(FloatingPointError):
    """An environment or a policy returned NaN or infinity; the message names the step."""


class Step(NamedTuple):
    """One transition, in the replay's form."""

    observation: np.ndarray
    """[D] float32"""
    action: np.ndarray
    """[A] float32; a discrete action counts from 0."""
    reward: float
    kind: int
    """GOES_ON, TERMINATED or TRUNCATED."""
    next_observation: np.ndarray
    """[D] float32; at an episode's end its last observation."""


class TransitionStream:
    """Steps of one episode after another, with the parameters of the latest `follow`."""

    def __init__(
        self,
        environment: EnvironmentSpec,
        policy: PolicySpec,
        seed: int,
        exploration: float,
        whereabouts: Whereabouts | None = None,
    ):
        """`exploration`: std of the noise in units of `Head.noise_scale`; ε if discrete."""
        self._whereabouts = whereabouts or Unwatched()
        self._opening = Opening(self._whereabouts.building)
        self._counted = self._whereabouts.step
        self._made = make_environment(environment)
        self._environment, self._limit = self._made.environment, self._made.limit
        self._where = environment.id
        self._shape: tuple[int, ...] = tuple(self._environment.observation_space.shape)
        self._policy = build_policy(policy)
        self._head = policy.head
        self._discrete = policy.head.kind == "discrete"
        self._to_environment = stored_action_function(policy.head)
        self._seed = seed
        self._exploration = exploration
        self._low = np.array(self._head.low, np.float32)
        self._high = np.array(self._head.high, np.float32)
        self._uniform = self._noise = np.zeros((0, 0), np.float32)
        self._row = 0
        self._episode = 0
        self._return = 0.0
        self._actions: list[np.ndarray] = []
        self._recent: list[float] = []
        self._finished: list[EpisodeRow] = []
        self._observation = np.zeros(policy.observation_size, np.float32)
        self._raw: np.ndarray = self._observation
        self._begun = False
        self._place_and_seed = ""

    @property
    def recent_return(self) -> float:
        """Return the mean return of the latest 100 episodes (nan before the first)."""
        return float(np.mean(self._recent)) if self._recent else np.nan

    def follow(self, parameters: np.ndarray) -> None:
        """Act with these parameters `[P]` from now on."""
        self._policy.load_vector(parameters)

    def begin(self, block: int, steps: int) -> None:
        """Draw the random numbers for the exploration of one block of steps."""
        size = self._head.action_size
        rng = seeding.generator(self._seed, "exploration", block)
        self._uniform = rng.random((steps, size + 1), dtype=np.float32)
        if not self._discrete:
            scale = self._head.noise_scale(self._exploration)
            self._noise = rng.standard_normal((steps, size), dtype=np.float32) * scale
        self._row = 0

    def step(self, random: bool) -> Step:
        """Make one step, with the policy and its exploration or with a random action."""
        self._start()
        uniform = self._uniform[self._row]
        if random:
            action = self._random(uniform)
        elif self._discrete:
            greedy = np.float32(self._output().argmax())
            explores = uniform[-1] < self._exploration
            action = self._random(uniform) if explores else np.array([greedy], np.float32)
        else:
            chosen = self._policy.to_action(self._output(), self._noise[self._row])
            action = np.asarray(chosen, np.float32).reshape(-1)
        self._row += 1
        return self.apply(action)

    def apply(self, action: np.ndarray) -> Step:
        """Make one step with an action `[A]` in the replay's form."""
        self._start()
        step = self._called(self._environment.step, self._to_environment(action))
        self._opening.end()
        self._raw, reward, terminated, truncated, _ = step
        before, after = self._observation, self._flat(self._raw)
        length = len(self._actions) + 1
        try:
            fits, value = storable(reward), float(reward)
        except NO_NUMBER as error:
            raise refused_reward(reward, self._place()) from error
        if not (np.isfinite(after).all() and fits):
            raise UnfiniteTransition(
                f"observation or reward ({reward}) is not finite in {self._place()}"
            )
        self._observation = after
        self._actions.append(action)
        self._counted[0] = length
        self._return += value
        kind = GOES_ON
        if terminated:
            kind = TERMINATED
        elif truncated or length == self._limit:
            kind = TRUNCATED
        if kind != GOES_ON:
            self._end(length)
        return Step(before, action, value, kind, after)

    def take(self, update: int) -> list[EpisodeRow]:
        """Return the episodes that ended since the last call, as rows of `update`."""
        rows = [row._replace(update=update) for row in self._finished]
        self._finished = []
        return rows

    def state(self) -> State:
        """Return the state for `load`, taken between two blocks."""
        actions = np.array(self._actions, np.float32).reshape(-1, self._head.action_size)
        tensors = {_ACTIONS: actions, _RECENT: np.array(self._recent)}
        return State(tensors, {_EPISODE: self._episode, _RETURN: self._return})

    def load(
        self, state: State, replaying: Callable[[int, int], None] = lambda replayed, total: None
    ) -> None:
        """Load a state by repeating the running episode's actions; ValueError if it differs.

        `replaying` hears the number of actions that were repeated, and of all.
        """
        actions, made = state.tensor(_ACTIONS), state.counter(_RETURN)
        self._episode = int(state.counter(_EPISODE))
        self._recent = state.tensor(_RECENT).tolist()
        self._begun, self._return, self._actions = False, 0.0, []
        for repeated, action in enumerate(actions):
            replaying(repeated, len(actions))
            self.apply(action)
        if self._return != made:
            raise ValueError(
                f"{self._place()} does not repeat: its return is {self._return!r}, and was {made!r}"
            )

    def note(self) -> None:
        """Note the running episode, whose steps are the next calls of an environment."""
        if self._begun:
            self._whereabouts.enter(self._place_and_seed)
            self._counted[0] = len(self._actions)
            self._whereabouts.leave()

    def close(self) -> None:
        """Close the environment."""
        self._made.close()

    def _start(self) -> None:
        if self._begun:
            return
        seed = seeding.seeds(self._seed, 1, "episode", self._episode)[0]
        self._place_and_seed = f"{self._where}, training episode {self._episode}, seed {seed}"
        self._whereabouts.enter(self._place_and_seed)
        self._opening.begin()
        seeding.seed_globals(seed)
        self._raw, _ = self._called(partial(self._environment.reset, seed=seed))
        self._observation = self._flat(self._raw)
        if not np.isfinite(self._observation).all():
            raise UnfiniteTransition(f"the observation is not finite in {self._place()}")
        self._actions, self._return, self._begun = [], 0.0, True

    @one_torch_thread()
    def _called(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call the environment; its exception becomes a WorkerError with episode and step.

        Only this is noted: a long gradient step or a terminal that stands still is no hang of it.
        """
        self._whereabouts.again()
        try:
            return call(*arguments)
        except (Exception, SystemExit) as error:
            text = traceback.format_exc()
            raise WorkerError(self._place(), words_of(error), text, error) from error
        finally:
            self._whereabouts.leave()

    def _end(self, length: int) -> None:
        self._finished.append(EpisodeRow(0, self._episode, 0, self._return, length))
        self._recent = [*self._recent[1 - RECENT :], self._return]
        self._episode += 1
        self._begun = False
        self._actions, self._return = [], 0.0

    def _output(self) -> np.ndarray:
        output = self._policy.output(self._raw)
        if output[0] != output[0]:
            raise UnfiniteTransition(f"the policy's output is NaN in {self._place()}")
        return output

    def _random(self, uniform: np.ndarray) -> np.ndarray:
        if self._discrete:
            choices = self._head.choices
            return np.array([min(int(uniform[0] * choices), choices - 1)], np.float32)
        return self._low + uniform[:-1] * (self._high - self._low)

    def _place(self) -> str:
        return f"{self._where}, training episode {self._episode}, step {len(self._actions)}"

    def _flat(self, observation: np.ndarray) -> np.ndarray:
        """Return an observation as `[D]` float32; EnvironmentProblem if it has another size."""
        try:
            flat = np.array(observation, np.float32).reshape(-1)
        except (TypeError, ValueError) as error:
            raise refused_observation(observation, self._shape, self._place()) from error
        if len(flat) != len(self._observation):
            raise refused_observation(observation, self._shape, self._place())
        return flat
