"""Runs that begin or go on: what is refused, what the folder records, and the run itself."""

import os
import signal
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from drumline.api.edited_code import refuse_edited
from drumline.api.foreign_code import (
    CodeTrust,
    refuse_code_of_main,
    refuse_main_of_another_process,
)
from drumline.api.hash_order import refuse_hash_order
from drumline.api.kept_prints import kept_prints, unsaid
from drumline.api.own_config import own_config
from drumline.api.run_document import (
    NO_PROMISE,
    differences_here,
    promise_of,
    promises,
    run_document,
    step_path_of,
)
from drumline.api.stored_policy import refuse_changed_module
from drumline.display.dashboard import Display, choose_display
from drumline.display.notebook import notebook_display
from drumline.display.plain import ReaderGone
from drumline.envs.environment import EnvironmentProblem
from drumline.envs.episode import NonFinite
from drumline.envs.kept_statistics import kept_statistics
from drumline.envs.make import make_environment
from drumline.errors import ImpureEnvironment, ObjectiveProblem, WorkerError
from drumline.recipes.chosen_environment import chosen_environment
from drumline.recipes.first_policies import start_of
from drumline.recipes.method import Method, without_findings
from drumline.recipes.methods import find_method, method_of
from drumline.recipes.named_objects import with_plain_numbers
from drumline.runs.checkpoint import Checkpoint, checkpoint_numbers, read_checkpoint
from drumline.runs.claims import refuse_busy
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.horizons import after_resume, horizons_of
from drumline.runs.metrics import MOST_EPISODES
from drumline.runs.next_commands import as_typed
from drumline.runs.own_files import is_there
from drumline.runs.printed_file import PrintedFile
from drumline.runs.problem import problem_of
from drumline.runs.run_row import row_of
from drumline.runs.start_policy import keep_start
from drumline.runtime.guard import Guard
from drumline.stores.claim import claimed
from drumline.stores.mirror import Mirror
from drumline.stores.object_store import ObjectStore
from drumline.training.callbacks import CallbackQueue
from drumline.training.cluster import joined
from drumline.training.generational_run import GenerationalRecipe
from drumline.training.layout import Layout
from drumline.training.run_request import Recipe, RunRequest
from drumline.training.stopped import Stopped
from drumline.training.value_kinds import refuse_other_kinds


@dataclass(frozen=True)
class Opening:
    """Arguments of `train` that are no part of the config or the layout."""

    out: str | Path | None
    display: Display
    last_update: int | None
    callbacks: CallbackQueue
    tags: list[str]
    store: str


@dataclass(frozen=True)
class Continuation:
    """Arguments of `resume` that are no part of the layout."""

    total_steps: int | None
    checkpoint: int | None
    other_machine: bool
    display: Display | None
    """The caller's; with one, what environments print goes into a file of the run folder."""
    shown: Display
    last_update: int | None
    callbacks: CallbackQueue
    store: str


def begin(config: Any, layout: Layout, prints: PrintedFile, opening: Opening) -> RunFolder:
    """Make a run's folder and train to its end; nothing is left of a run that is refused."""
    method = method_of(config)
    objects = ObjectStore(opening.store) if opening.store else None
    layout = _layout_for(method, layout)
    refuse_code_of_main(config, layout)
    config = with_plain_numbers(config)
    refuse_other_kinds(config)
    if config.evaluate_episodes > MOST_EPISODES:
        raise ValueError(
            f"--evaluate-episodes must be at most {MOST_EPISODES}, which fit a line of "
            f"evaluations.csv, got {config.evaluate_episodes}"
        )
    config = method.resolved(config)
    recipe = method.built(config, layout)
    refuse_edited(config, layout)
    refuse_hash_order(config, recipe, layout)
    folder = RunFolder.create(
        None if opening.out is None else Path(opening.out),
        method=method.name,
        env_id=problem_of(asdict(config)),
        seed=config.seed,
        document={
            **run_document(config, layout, promise_of(config), opening.tags, facts_of(recipe)),
            **({"store": objects.url} if objects else {}),
        },
    )
    prints.into(folder)
    try:
        if start := start_of(config):
            keep_start(folder, start)
        mirror = _mirror(objects, folder)
    except (RunError, OSError):
        folder.discard_unbegun()
        raise
    request = RunRequest(
        folder,
        layout,
        opening.display,
        mirror=mirror,
        last_update=opening.last_update,
        callbacks=opening.callbacks,
    )
    _carry_out(recipe, request, made_here=True)
    return folder


def go_on(folder: RunFolder, layout: Layout, trust: CodeTrust, further: Continuation) -> None:
    """Train a run from its newest (or a named) checkpoint to its end."""
    folder.read_again()  # it may have been resumed since by another process, or another handle
    trust.run(folder)
    objects = ObjectStore(further.store) if further.store else None
    method = find_method(folder.document["method"])
    layout = _layout_for(method, layout)
    changes = _changes_of_machine(folder, further)
    with kept_prints(None if further.display is None else unsaid):
        config = resumed_config(folder, further.total_steps, trust)
        refuse_main_of_another_process(config)
        refuse_code_of_main(config, layout)
        if changes or not promises(folder):
            config = without_findings(config)
        config = method.resolved(config)
        saved = _newest_state(folder, further.checkpoint)
        if saved and config.total_steps < folder.document["config"]["total_steps"]:
            _refuse_less_than_done(config.total_steps, saved)
        recipe = method.built(config, layout)
        refuse_edited(config, layout)
        refuse_hash_order(config, recipe, layout)
        refuse_changed_module(folder, recipe)
    if further.total_steps is None and row_of(folder)["state"] == "finished":
        further.shown.message(
            f"this run has made all of its {config.total_steps:,} env steps: a greater "
            "--total-steps (total_steps=) goes on"
        )
    before = horizons_of(folder)
    horizons = after_resume(before, 0 if saved is None else saved.update, config.total_steps)
    if horizons != before:
        fields = {**folder.document["config"], "total_steps": config.total_steps}
        folder.amend_when_claimed(config=fields, horizons=horizons)
    if changes:
        folder.amend_when_claimed(promise=f"{NO_PROMISE}: resumed on another machine ({changes})")
    if (path := step_path_of(config)) != folder.document.get("step_path"):
        folder.amend_when_claimed(step_path=path)
    if objects is not None:
        refuse_busy(folder)  # the claim would stop the uploads of the driver that is at work
        folder.amend_when_claimed(store=objects.url)
    elif before := folder.document.get("store"):
        further.shown.message(
            f"this run was copied to {before}; to go on with that: --store {before}"
        )
    mirror = _mirror(objects, folder, rewinds=further.checkpoint is not None)
    request = RunRequest(
        folder,
        layout,
        further.shown,
        resumed_from=saved,
        mirror=mirror,
        last_update=further.last_update,
        callbacks=further.callbacks,
    )
    if start := start_of(config):
        keep_start(folder, start)  # a kill may have come before it
    say = None if further.display is None else further.display.message
    with kept_prints(say) as prints:
        prints.into(folder)
        _carry_out(recipe, request)


def facts_of(recipe: Any) -> dict[str, str]:
    """Return the facts on which a run's bits depend besides config and versions."""
    return recipe.facts if isinstance(recipe, GenerationalRecipe) else {}


def resumed_config(folder: RunFolder, total_steps: int | None, trust: CodeTrust) -> Any:
    """Return a run's config, with the new `total_steps` if given."""
    trust.method(folder)
    config = own_config(folder)
    if total_steps is None:
        return config
    config = with_plain_numbers(replace(config, total_steps=total_steps))
    refuse_other_kinds(config)
    return config


def _layout_for(method: Method, layout: Layout) -> Layout:
    """Return a layout of the method's own kind; ValueError if flags of `layout` would be lost."""
    kind = method.layout
    if not issubclass(kind, type(layout)):
        raise ValueError(f"{method.name} takes a {kind.__name__}, got a {type(layout).__name__}")
    plain = with_plain_numbers(layout)
    return kind(**{field.name: getattr(plain, field.name) for field in fields(plain)})


def _mirror(
    store: ObjectStore | None, folder: RunFolder, *, rewinds: bool = False
) -> Mirror | None:
    return None if store is None else Mirror(claimed(store, folder, rewinds=rewinds), folder)


def _changes_of_machine(folder: RunFolder, further: Continuation) -> str:
    """Return the differences between the run's machine and this one.

    RunError if there are some, unless the user gave up the promise or the run has none.
    """
    if not promises(folder):
        return ""
    found = differences_here(folder.document)
    if found and not further.other_machine:
        words = ["--store", further.store] if further.store else []
        command = as_typed(folder, "resume", *words, "--other-machine")
        raise RunError(
            f"{folder.shown} was made on another machine ({found}) and could silently get other "
            f"bits on this one; to go on without the promise: {command}"
        )
    return found


def _newest_state(folder: RunFolder, checkpoint: int | None) -> Checkpoint | None:
    """Return the state to go on from; None for a run stopped before its first checkpoint."""
    began = checkpoint_numbers(folder) or is_there(folder.metrics_csv)
    return read_checkpoint(folder, checkpoint) if began or checkpoint is not None else None


def _refuse_less_than_done(total_steps: int, saved: Checkpoint) -> None:
    done = int(saved.state.counter("run_env_steps"))
    if total_steps < done:
        raise RunError(
            f"the checkpoint of update {saved.update} has {done} env steps already, and "
            f"--total-steps is {total_steps}: ask for more, or give an earlier --checkpoint"
        )


def _carry_out(recipe: Recipe, request: RunRequest, *, made_here: bool = False) -> None:
    """Run to the end; the folder of a refused run is removed if it was `made_here`."""
    folder, layout = request.folder, request.layout
    try:
        with (
            _given_back(request.mirror),
            joined(layout) as nodes,
            Guard(layout.hang_seconds, layout.creation_seconds, run=True) as guard,
        ):
            recipe.opened(replace(request, whereabouts=guard, nodes=nodes)).run()
    except Stopped as stop:
        stop.run = folder
        stop.add_note(f"the run can go on: {as_typed(folder, 'resume')}")
        raise
    except WorkerError as error:
        raise _own_cause(error) from error
    except ImpureEnvironment as error:
        _name_wrapper(error, folder)
        raise
    except ReaderGone as error:
        stop = Stopped(signal.SIGPIPE)
        stop.run = folder
        raise stop from error
    except ValueError:
        if made_here:
            folder.discard_unbegun()
        raise


def _name_wrapper(error: ImpureEnvironment, folder: RunFolder) -> None:
    """Note the wrapper that keeps statistics, if the environment has one."""
    config = own_config(folder)
    if config.env:
        spec = replace(chosen_environment(config), frame_skip=1)
        with (
            suppress(Exception),  # the user's own code; the error itself says enough
            closing(make_environment(spec)) as made,
        ):
            if words := kept_statistics(made.environment):
                error.add_note(words)


def _own_cause(error: WorkerError) -> BaseException:
    """Return a worker's exception where it is Drumline's own, which says all; else the error."""
    cause = error.cause
    if not isinstance(cause, (EnvironmentProblem, ObjectiveProblem, NonFinite, FloatingPointError)):
        return error
    if not type(cause).__module__.startswith("drumline."):
        return error
    for note in getattr(error, "__notes__", ()):
        cause.add_note(note)
    return cause


@contextmanager
def _given_back(mirror: Mirror | None) -> Generator[None]:
    """Give a store's prefix back if a run ends by an error or a signal and is not in it."""
    try:
        yield
    except BaseException:
        if mirror is not None:
            mirror.give_back()
        raise


def default_display(progress: bool) -> Display:
    """Return a notebook's display of the run's progress, or one that shows nothing."""
    return (notebook_display() if progress else None) or silent()


def silent() -> Display:
    """Return a display that shows nothing."""
    return choose_display(sys.stderr, quiet=True, json=False, environ=os.environ)
