"""Episodes of a saved policy, in this process."""

import logging
import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from drumline import seeding
from drumline.api.foreign_code import CodeTrust
from drumline.api.stored_policy import (
    environment_of,
    load_policy,
    policy_spec,
    stored_objective,
)
from drumline.api.whole_numbers import whole_number
from drumline.envs.episode import EpisodeLoop
from drumline.envs.football_frames import GAME_BYTES, never_freed
from drumline.envs.last_info import means
from drumline.envs.make import make_environment
from drumline.errors import WorkerError
from drumline.functional.numpy_threads import one_numpy_thread
from drumline.functional.statistics import mean_interval
from drumline.policies.sampled import SampledPolicy
from drumline.protocols import Policy
from drumline.runs.folder import RunError
from drumline.runs.policy_files import StoredPolicy
from drumline.runtime.guard import Guard
from drumline.training.layout import Layout
from drumline.workers.objective import ObjectiveFunction

HANG_SECONDS = Layout.hang_seconds
_LOGGER = logging.getLogger("drumline")
_NOTED_BYTES = 1 << 30
"""Memory of closed games from which an evaluation says so."""
MOST_EPISODES = 1_000_000
"""Most episodes of one call: their returns and lengths are held in memory."""
_LONGEST_CALL_SECONDS = 86_400.0  # a call of an objective has no steps by which to tell a hang


@dataclass(frozen=True)
class EvaluationResult:
    """Returns and lengths (in env steps) of evaluated episodes."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    actions: str = "deterministic"
    """The choice of actions, in words."""
    env: str = ""
    """Environment, or objective."""
    policy: str = ""
    """best, last, or the name of a policy file."""
    update: int | None = None
    """Update after which the policy was saved."""
    info: tuple[tuple[str, float], ...] = ()
    """Means of the numbers in the environment's last `info` of each episode, by name."""

    @property
    def mean(self) -> float:
        """Return the mean return."""
        return float(np.mean(self.returns))

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the mean (Student's t); None for one episode."""
        if len(self.returns) < 2:
            return None
        low, high = mean_interval(np.array(self.returns))
        return float(low), float(high)


def sampled(policy: Policy, stored: StoredPolicy, config: Mapping[str, Any]) -> SampledPolicy:
    """Return the policy with drawn actions; `config` is that of its run."""
    return SampledPolicy(policy, policy_spec(stored), action_noise_std(config))


def action_noise_std(config: Mapping[str, Any]) -> float:
    """Return the std of a run's noise on actions, 0 where it has none."""
    std = config.get("action_noise_std", 0.0)
    if not isinstance(std, (int, float)) or not 0.0 <= std < np.inf:
        raise RunError(f"config.json is damaged: action_noise_std is {std!r}, no std")
    return float(std)


def episode_seeds(seed: int, episodes: int) -> list[int]:
    """Return the seeds of the first `episodes` episodes under a root seed."""
    return seeding.seeds(seed, episodes, "evaluate-command")


def begin_episode(policy: Policy, seed: int, episode: int, episode_seed: int) -> None:
    """Seed everything that an episode depends on: the globals, and the stream of drawn actions."""
    seeding.seed_globals(episode_seed)
    if isinstance(policy, SampledPolicy):
        policy.begin(seeding.generator(seed, "evaluate-command-action", episode))


@contextmanager
def telling(place: Callable[[], str]) -> Iterator[None]:
    """Say in a note where code of the user's raised; its `sys.exit` ends no command."""
    try:
        yield
    except SystemExit as error:
        name, text = f"SystemExit: {error}", traceback.format_exc()
        raise WorkerError(place(), name, text, error) from error
    except Exception as error:
        if not type(error).__module__.startswith("drumline."):  # those say it themselves
            error.add_note(f"in {place()}")
        raise


def _step_of(place: str, guard: Guard) -> str:
    return f"{place}, step {guard.step[0]}"


def draws_actions(config: Mapping[str, Any], *, sample: bool, deterministic: bool) -> bool:
    """Return whether actions are drawn: as typed, else as in the run's own evaluations."""
    return sample or (bool(config.get("evaluate_sample", False)) and not deterministic)


def longest_episode(config: Mapping[str, Any], *limits: int) -> int:
    """Return the smallest of the limits and of the run's `evaluate_max_steps`; 0: none."""
    own = config.get("evaluate_max_steps", 0)
    if not isinstance(own, int) or own < 0:
        raise RunError(f"config.json is damaged: evaluate_max_steps is {own!r}, no number of steps")
    bounds = (*limits, own)
    return min((steps for steps in bounds if steps), default=0)


def evaluate_policy(
    stored: StoredPolicy,
    config: Mapping[str, Any],
    episodes: int,
    seed: int,
    trust: CodeTrust,
    *,
    sample: bool = False,
) -> EvaluationResult:
    """Run episodes seeded from `seed` alone, no longer than those of the run's own evaluations.

    Of an objective it is that many calls. RunError unless `episodes` is 1 to `MOST_EPISODES`.
    """
    episodes, seed = whole_number("episodes", episodes), whole_number("seed", seed)
    if episodes < 1:
        raise RunError(f"--episodes must be 1 or more, got {episodes}")
    if episodes > MOST_EPISODES:
        raise RunError(f"--episodes must be at most {MOST_EPISODES:,}, got {episodes:,}")
    if stored.objective:
        return _called(stored, episodes, seed, trust, sample=sample)
    policy = load_policy(stored, trust)
    if sample:
        policy = sampled(policy, stored, config)
    spec = environment_of(stored)
    if never_freed(spec) and (kept := episodes * GAME_BYTES) >= _NOTED_BYTES:
        _LOGGER.warning(
            "%d games of football keep %.1f GiB until this process ends, because EnvPool frees "
            "none: fewer episodes at a time take less",
            episodes,
            kept / 2**30,
        )
    made = make_environment(spec)
    limit = longest_episode(config, made.limit)
    guard = Guard(HANG_SECONDS, Layout.creation_seconds)
    loop = EpisodeLoop(made.environment, policy, spec.id, guard.building)
    returns, lengths, numbers = [], [], []
    try:
        for number, episode_seed in enumerate(episode_seeds(seed, episodes)):
            begin_episode(policy, seed, number, episode_seed)
            place = f"{spec.id}, episode {number}, seed {episode_seed}"
            guard.enter(place)
            with telling(partial(_step_of, place, guard)):
                episode = loop.run(
                    episode_seed,
                    limit,
                    keep_numbers=True,
                    progress=guard.progress,
                    withdrawn=lambda: False,
                )
            guard.leave()
            returns.append(episode.episode_return)
            lengths.append(episode.length)
            numbers.append(episode.numbers)
    finally:
        guard.close()
        made.close()
    words = policy.words if isinstance(policy, SampledPolicy) else "deterministic"
    found = (tuple(returns), tuple(lengths), words, spec.id)
    return EvaluationResult(*found, *_named(stored), means(numbers))


def _named(stored: StoredPolicy) -> tuple[str, int | None]:
    """Return the name of a policy, and its update where the file says it."""
    update = stored.document.get("update")
    name = stored.path.stem.removeprefix("policy-")
    return name, update if isinstance(update, int) else None


def _called(
    stored: StoredPolicy, calls: int, seed: int, trust: CodeTrust, *, sample: bool
) -> EvaluationResult:
    """Call the objective of a policy file; the values are those of a worker."""
    if sample:
        raise RunError("--sample draws actions, and an objective has none: leave it out")
    trust.policy(stored)
    objective = stored_objective(stored)
    function, vector = ObjectiveFunction(objective), stored.tensors["parameters"]
    guard = Guard(_LONGEST_CALL_SECONDS)
    values: list[tuple[float, ...]] = []
    try:
        with one_numpy_thread():  # as in a worker
            seeds, size = episode_seeds(seed, calls), objective.members_per_call
            for number in range(0, calls, size):
                place = f"{objective.function}, call {number}, seed {seeds[number]}"
                guard.enter(place)
                with telling(partial(str, place)):
                    values += function.unperturbed(vector, seeds[number : number + size])
                guard.leave()
    finally:
        guard.close()
    means = tuple(math.fsum(each) / len(each) for each in values)
    lengths = tuple(map(len, values))
    return EvaluationResult(means, lengths, "none", objective.function, *_named(stored))
