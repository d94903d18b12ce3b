"""Times of a recipe's pieces and the speed that they allow on a layout, by kind of recipe."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from drumline.commands import timings
from drumline.commands.learning_formulas import formulas_of
from drumline.envs.environment import EnvironmentSpec
from drumline.functional import layout_speed, learning_speed
from drumline.functional.layout_speed import Prediction
from drumline.training.generational_run import GenerationalRecipe
from drumline.training.layout import Layout
from drumline.training.rotation_run import RotationRecipe
from drumline.training.steady_recipes import SteadyRecipe
from drumline.training.stream_run import StreamRecipe
from drumline.workers.evaluator import EvaluatorSpec


@dataclass(frozen=True)
class Pieces:
    """Times of a recipe's pieces, and the prediction from them."""

    environment: EnvironmentSpec
    times: dict[str, float]
    predict: Callable[[int, int], Prediction]
    """(processes, cores) → speed."""
    workers: Sequence[int]
    """Numbers of processes that a prediction is made for."""
    own: int = 0
    """The method's own number of processes; 0: one per core."""
    not_timed: str = ""


def pieces_of(recipe: Any, layout: Layout, cores: int, *, known: bool) -> Pieces:
    """Time a recipe's pieces; `known`: its config's gradient steps have formulas."""
    if isinstance(recipe, RotationRecipe):
        return _of_rotation(recipe, cores)
    if isinstance(recipe, GenerationalRecipe) and isinstance(recipe.worker, EvaluatorSpec):
        return _of_episodes(recipe, recipe.worker.environment, cores)
    if known:
        return _of_known_learner(recipe, layout, cores)
    if isinstance(recipe, StreamRecipe):
        return _of_stream(recipe)
    if isinstance(recipe, SteadyRecipe):
        most = min(cores, recipe.concurrency)
        return _of_episodes(recipe, recipe.environment, most, not_timed="gradient steps")
    raise ValueError(
        f"doctor cannot time a {type(recipe).__name__}: it knows GenerationalRecipe, SteadyRecipe, "
        "StreamRecipe and RotationRecipe"
    )


def _of_rotation(recipe: RotationRecipe, cores: int) -> Pieces:
    lanes, count = recipe.parts.lanes, recipe.parts.shape.environments
    times = timings.lane_times(lanes) | timings.actor_critic_times(recipe)
    costs = timings.step_costs(times, count)
    lockstep = recipe.staff.driver_acts
    speed = layout_speed.sequential_speed if lockstep else layout_speed.overlapped_speed
    workers = range(1, min(cores, count) + 1)
    return Pieces(lanes.environment, times, partial(speed, costs), workers)


def _of_episodes(
    recipe: Any, environment: EnvironmentSpec, most: int, *, not_timed: str = ""
) -> Pieces:
    """Episodes of a pool, without updates between them or gradient steps beside them."""
    times = timings.environment_times(environment) | timings.searched_times(recipe)
    predict = partial(layout_speed.pool_speed, timings.step_costs(times, 1))
    return Pieces(environment, times, predict, range(1, most + 1), not_timed=not_timed)


def _of_stream(recipe: StreamRecipe) -> Pieces:
    """Env step, action and `learn` in turn, in one process."""
    times = timings.environment_times(recipe.environment) | timings.searched_times(recipe)
    times |= timings.learner_times(recipe)
    predict = partial(layout_speed.sequential_speed, timings.step_costs(times, 1))
    return Pieces(recipe.environment, times, predict, (1,), own=1)


def _of_known_learner(recipe: Any, layout: Layout, cores: int) -> Pieces:
    times = timings.environment_times(recipe.environment) | timings.searched_times(recipe)
    times |= timings.stream_times(recipe)
    formulas = formulas_of(recipe.config)
    costs = formulas.costs(times)
    times["acting_seconds_per_env_step"] = costs.acting
    times["learner_seconds_per_env_step"] = costs.learner
    predict = partial(learning_speed.fastest, formulas.seconds, costs)
    concurrency = getattr(recipe, "concurrency", 0)  # a single stream has one process
    own = layout.processes_for(concurrency)
    workers = sorted({*range(1, min(cores, concurrency + 1) + 1), own})
    return Pieces(recipe.environment, times, predict, workers, own)
