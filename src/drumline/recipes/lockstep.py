"""A method in lock-step: executors of their own processes or none, and a driver that acts."""

from typing import Any

from drumline.protocols import Learner
from drumline.recipes import actor_critic
from drumline.recipes.actor_critic import ActorCriticParts, parts_of
from drumline.recipes.interval_course import IntervalCourse
from drumline.recipes.layout import LockstepLayout
from drumline.recipes.rotation import RotationRecipe
from drumline.recipes.staff import Staff, counted
from drumline.runtime.cores import available_cores
from drumline.schedules.intervals import RotationPlan


def lockstep_recipe(method: str, config: Any, layout: LockstepLayout) -> RotationRecipe:
    """Put the parts together; the learner's threads make the forward passes, too."""
    executors = layout.executors_for(config.num_envs)
    inline = layout.pool == "inline" or not executors
    words = counted(executors, "executor") + ", in lock-step" if executors else "one process"
    staff = Staff(
        max(executors, 1),
        inline=inline,
        driver_acts=True,
        acting_threads=config.learner_threads,
        halves=layout.halves,
        engine_threads=layout.engine_threads or (1 if executors else available_cores()),
        words=words,
    )
    return RotationRecipe(method, parts_of(config), staff, _course)


def resolve(config: Any) -> Any:
    """Return the config with the rows that keep the bits of the driver's forward pass."""
    return actor_critic.resolve(config, config.learner_threads)


def _course(
    parts: ActorCriticParts, staff: Staff, updates: int, learner: Learner
) -> IntervalCourse:
    return IntervalCourse(parts, staff, RotationPlan(parts.config.alpha, updates, lag=0), learner)
