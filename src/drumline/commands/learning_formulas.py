"""Speed formulas (`functional.learning_speed`) of a config with a replay."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from drumline.functional.learning_speed import (
    LearningCosts,
    StepWork,
    aes_seconds,
    aes_work,
    cem_rl_seconds,
    cem_rl_work,
    erl_seconds,
    erl_work,
    learning_costs,
    td3_seconds,
    td3_work,
)
from drumline.recipes.aes import AES
from drumline.recipes.cem_rl import CEMRL
from drumline.recipes.erl import ERL
from drumline.recipes.p_cem_rl import PCEMRL
from drumline.recipes.td3 import TD3


class LearningFormulas(NamedTuple):
    """Work per counted env step, and seconds for it by costs, number of processes and of cores."""

    work: StepWork
    seconds: Callable[[LearningCosts, int, int], float]

    def costs(self, times: dict[str, float]) -> LearningCosts:
        """Return the costs of the work, from the times of its single pieces."""
        return learning_costs(
            self.work,
            environment=times["step_seconds"],
            forward=times["forward_1_seconds"],
            critic_step=times["critic_step_seconds"],
            actor_step=times["actor_step_seconds"],
        )


def formulas_of(config: Any) -> LearningFormulas:
    """Return the formulas of a preset.

    They do not hold for settings that a preset does not have: a critic that individuals do not wait
    for, a fixed number of actor steps, P-CEM-RL's parallel critic.
    """
    if isinstance(config, TD3):
        return LearningFormulas(td3_work(config.policy_delay), td3_seconds)
    if isinstance(config, AES):
        work = aes_work(
            config.mean_evaluations,
            config.p_desired,
            config.recent_episodes,
            config.actor_steps_scale,
        )
        return LearningFormulas(work, partial(aes_seconds, concurrency=config.concurrency))
    if isinstance(config, ERL):
        episodes = config.population_size * config.episodes_per_member + 1
        beside = config.mean_evaluations
        work = erl_work(episodes, beside, config.gradient_steps_scale)
        seconds = partial(
            erl_seconds,
            episodes=episodes,
            mean_evaluations=beside,
            concurrency=config.population_size + 1,
        )
        return LearningFormulas(work, seconds)
    return _of_generations(config)


def _of_generations(config: CEMRL | PCEMRL) -> LearningFormulas:
    size, refined, beside = config.population_size, config.refined_members, config.mean_evaluations
    work = cem_rl_work(size, refined, beside, config.actor_steps_scale, config.critic_steps_scale)
    seconds = partial(
        cem_rl_seconds,
        population_size=size,
        refined_members=refined,
        mean_evaluations=beside,
        concurrency=config.concurrency if isinstance(config, PCEMRL) else size,
        critic_first=isinstance(config, PCEMRL),
    )
    return LearningFormulas(work, seconds)
