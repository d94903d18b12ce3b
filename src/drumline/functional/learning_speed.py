"""Least time per counted env step of methods with a replay, by layout.

    work     steps that come with one counted env step: env steps, critic steps, actor steps
    costs    core seconds of that work
    seconds  wall-clock time of that work on a number of processes and cores

A counted env step is one of training, as in `--total-steps`. The formulas assume episodes of equal
length and a finished warm-up, and leave out hand-overs between processes.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from drumline.functional.layout_speed import Prediction


class StepWork(NamedTuple):
    """Steps of each kind that come with one counted env step."""

    env_steps: float
    """The counted step itself, and steps of evaluations that belong to training."""
    critic_steps: float
    actor_steps: float


class LearningCosts(NamedTuple):
    """Core seconds that come with one counted env step."""

    environment: float
    forward: float
    critic_steps: float
    actor_steps: float

    @property
    def acting(self) -> float:
        """Return the core seconds of episodes."""
        return self.environment + self.forward

    @property
    def learner(self) -> float:
        """Return the core seconds of gradient steps."""
        return self.critic_steps + self.actor_steps


def learning_costs(
    work: StepWork, environment: float, forward: float, critic_step: float, actor_step: float
) -> LearningCosts:
    """Return the number of each kind of step times its cost."""
    return LearningCosts(
        work.env_steps * environment,
        work.env_steps * forward,
        work.critic_steps * critic_step,
        work.actor_steps * actor_step,
    )


def td3_work(policy_delay: int) -> StepWork:
    """TD3 online: a critic step for each env step, an actor step every `policy_delay`."""
    return StepWork(1.0, 1.0, 1.0 / policy_delay)


def aes_work(
    mean_evaluations: int, refined_share: float, recent_episodes: int, actor_steps_scale: float
) -> StepWork:
    """AES-RL: M episodes of the mean beside each individual, one critic step, p s R actor steps.

    A share p of individuals of L env steps takes s R L actor steps, if the R recent episodes have
    the same length. Without such individuals the critic does not learn.
    """
    critic_steps = 1.0 if refined_share > 0.0 else 0.0
    return StepWork(
        1.0 + mean_evaluations,
        critic_steps,
        refined_share * actor_steps_scale * recent_episodes,
    )


def cem_rl_work(
    population_size: int,
    refined_members: int,
    mean_evaluations: int,
    actor_steps_scale: float,
    critic_steps_scale: float,
) -> StepWork:
    """CEM-RL: s_c critic steps and s_a actor steps, per env step of the last generation.

    The s_a actor steps are taken for each of R refined members; M episodes of the mean come beside
    N.
    """
    return StepWork(
        1.0 + mean_evaluations / population_size,
        critic_steps_scale if refined_members else 0.0,
        refined_members * actor_steps_scale,
    )


def erl_work(episodes: int, mean_evaluations: int, gradient_steps_scale: float) -> StepWork:
    """ERL: s critic steps and as many actor steps per env step of training.

    M episodes of the champion come beside a generation's episodes.
    """
    scale = gradient_steps_scale
    return StepWork(1.0 + mean_evaluations / episodes, scale, scale)


def aes_seconds(costs: LearningCosts, processes: int, cores: int, *, concurrency: int) -> float:
    """max(critic, (acting + actor) / logical workers, all / min(processes, cores)): no barrier.

    Critic jobs come one after another, and individuals wait for a critic that lags behind.
    """
    individuals = costs.acting + costs.actor_steps
    return max(
        costs.critic_steps,
        individuals / concurrency,
        (individuals + costs.critic_steps) / min(processes, cores),
    )


def cem_rl_seconds(
    costs: LearningCosts,
    processes: int,
    cores: int,
    *,
    population_size: int,
    refined_members: int,
    mean_evaluations: int,
    concurrency: int,
    critic_first: bool,
) -> float:
    """A generation of N members, R of them refined, then M episodes of the mean, per env step.

    A refined member's actor steps and episode run in one process, so ⌈R/P⌉ of them come one after
    another. With `critic_first` (P-CEM-RL) all members wait for the critics' R turns. Otherwise
    (CEM-RL) member i waits for the turns up to its own, and the last member for all of them.
    """
    processes = min(processes, concurrency if critic_first else concurrency + 1)
    cores = min(processes, cores)
    episode = costs.acting / (population_size + mean_evaluations)
    critic, actor = costs.critic_steps, costs.actor_steps
    spread = actor + population_size * episode
    beside = mean_evaluations * episode
    if not refined_members:
        return spread / cores + beside
    refined = actor / refined_members + episode
    rounds = math.ceil(refined_members / processes) * refined
    if critic_first:
        return critic + max(spread / cores, rounds) + beside
    earliest = critic / refined_members
    return max((critic + spread) / cores, critic + refined, earliest + rounds) + beside


def erl_seconds(
    costs: LearningCosts,
    processes: int,
    cores: int,
    *,
    episodes: int,
    mean_evaluations: int,
    concurrency: int,
) -> float:
    """acting / min(processes, cores) + learner + champion: episodes, then learning."""
    episode = costs.acting / (episodes + mean_evaluations)
    spread = episode * episodes / min(processes, cores, concurrency)
    return spread + costs.learner + mean_evaluations * episode


def td3_seconds(costs: LearningCosts, processes: int, cores: int) -> float:
    """acting + learner, in one process."""
    return costs.acting + costs.learner


def fastest(
    seconds: Callable[[LearningCosts, int, int], float],
    costs: LearningCosts,
    processes: int,
    cores: int,
) -> Prediction:
    """1 / seconds on this layout, bound by the piece that would save the most at zero cost."""
    without = {
        name: seconds(costs._replace(**{name: 0.0}), processes, cores)
        for name in LearningCosts._fields
    }
    bottleneck = min(without, key=lambda name: without[name])
    speed = 1.0 / seconds(costs, processes, cores)
    return Prediction(processes, speed, bottleneck.replace("_", " "))
