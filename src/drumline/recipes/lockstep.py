"""A method in lock-step: executors in processes of their own or none, and a driver that acts."""

from drumline.protocols import Learner
from drumline.recipes.actor_critic import make_learner, parts_of
from drumline.recipes.families import Lockstep
from drumline.recipes.refused_values import refuse_device_of_groups
from drumline.schedules.intervals import RotationPlan
from drumline.training.actor_critic_parts import ActorCriticParts
from drumline.training.interval_course import IntervalCourse
from drumline.training.layout import LockstepLayout
from drumline.training.rotation_run import RotationRecipe
from drumline.training.staff import Staff, counted


def lockstep_recipe(config: Lockstep, layout: LockstepLayout) -> RotationRecipe:
    """Put the parts together; the learner's threads make the forward passes, too."""
    refuse_device_of_groups(config, layout)
    environments = layout.environments_of_a_group(config.num_envs, config.learners)
    executors = layout.executors_for(environments)
    inline = layout.pool == "inline" or not executors
    words = counted(executors, "executor") + ", in lock-step" if executors else "one process"
    staff = Staff(
        max(executors, 1),
        inline=inline,
        driver_acts=True,
        acting_threads=config.learner_threads,
        halves=layout.halves,
        engine_threads=layout.engine_threads or (1 if executors else layout.cores),
        words=layout.in_words(words),
        groups=layout.nodes,
    )
    return RotationRecipe(parts_of(config), staff, _course, make_learner)


def _course(
    parts: ActorCriticParts, staff: Staff, updates: int, learner: Learner
) -> IntervalCourse:
    return IntervalCourse(parts, staff, RotationPlan(parts.config.alpha, updates, lag=0), learner)
