"""One episode of a run, alone and in this process: to examine one that hung, raised or gave NaN."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import numpy as np

from drumline.api.foreign_code import CodeTrust
from drumline.api.stored_search import stored_search
from drumline.errors import WorkerError
from drumline.functional.numpy_threads import one_numpy_thread
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunError, RunFolder
from drumline.schedules.member_groups import group_of
from drumline.tasks import Evaluate, Evaluation
from drumline.training.evaluations import scheduled_tasks
from drumline.training.generational_run import GenerationalRecipe
from drumline.training.ledger import learned


class LoneEpisode:
    """A task of a run, from a checkpoint; `run` gives the same bits as a worker."""

    def __init__(
        self,
        folder: RunFolder,
        member: int,
        checkpoint: int | None,
        trust: CodeTrust,
        *,
        evaluation: bool,
    ):
        recipe = stored_search(
            folder,
            trust,
            ", whose episodes depend on all that was learned meanwhile: only a search's stand "
            "alone; try drumline evaluate",
        )
        saved = read_checkpoint(folder, checkpoint)
        recipe.load(learned(saved))
        self._recipe = recipe
        tasks = _tasks_until(recipe, saved.update, member, evaluation=evaluation)
        self.task = tasks[member]
        size = recipe.members_per_call
        self._group = group_of(tasks, member, size) if size > 1 else None

    def run(self, progress: Callable[[int], None] = lambda amount: None) -> Evaluation:
        """Make the environment and run the episode; `progress` is called at every step."""
        try:
            alone = _Alone(self._recipe, progress)
            try:
                with one_numpy_thread():  # as in a worker
                    result = self._run(self._recipe.worker(alone))
            finally:
                alone.leaving.close()
        except (Exception, SystemExit) as error:
            name = f"{type(error).__name__}: {error}"
            raise WorkerError(self.task, name, traceback.format_exc(), error) from error
        assert isinstance(result, Evaluation)
        return result

    def _run(self, worker: Any) -> Any:
        """Members of one call are evaluated together, because their number decides their bits."""
        if self._group is None:
            return worker(self.task)
        return worker(self._group)[self._group.tasks.index(self.task)]


class _Alone:
    """The `WorkerContext` of a worker without a pool."""

    def __init__(self, recipe: GenerationalRecipe, progress: Callable[[int], None]):
        self.shared: Mapping[str, np.ndarray] = (
            {} if recipe.shared is None else recipe.shared.arrays
        )
        self.leaving = ExitStack()
        self._progress = progress
        self._published = recipe.strategy.published()

    def progress(self, amount: int) -> None:
        """Report an env step."""
        self._progress(amount)

    def probe(self, point: str) -> None:
        """Do nothing: fault probes are for pools."""

    def published(self, version: int) -> Mapping[str, np.ndarray]:
        """Return the arrays of the checkpoint's version, the only version here."""
        return self._published

    def building(self) -> AbstractContextManager[None]:
        """Do nothing: no pool watches for a hang."""
        return nullcontext()

    def withdrawn(self) -> bool:
        """Return False: no pool withdraws this task."""
        return False

    def on_leave(self, callback: Callable[[], None]) -> None:
        """Register `callback` for the end of the worker."""
        self.leaving.callback(callback)


def _tasks_until(
    recipe: GenerationalRecipe, version: int, member: int, *, evaluation: bool
) -> Sequence[Evaluate]:
    """Return the first tasks of a generation or an evaluation, `member` and its call included."""
    if member < 0:
        raise RunError(f"--member must be 0 or more, got {member}")
    if evaluation:
        if member >= recipe.config.evaluate_episodes:
            raise RunError(
                f"an evaluation of this run has {recipe.config.evaluate_episodes} episodes, "
                f"so there is no --member {member}"
            )
        return scheduled_tasks(recipe.config, version)
    size = recipe.plan.population_size
    if recipe.plan.minimum_env_steps == 0 and member >= size:
        raise RunError(
            f"a generation of this run has {size} members, so there is no --member {member}"
        )
    if recipe.members_per_call > 1:
        return recipe.strategy.ask(size)
    return recipe.strategy.ask(member + 2 - member % 2)
