"""Run: a run folder with its policy, metrics, evaluation and continuation; `train` and `load`."""

import logging
import os
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from drumline.api.call_settings import in_our_words, layout_from
from drumline.api.edited_code import refuse_edited
from drumline.api.evaluation import EvaluationResult, draws_actions, evaluate_policy
from drumline.api.foreign_code import (
    TRUSTED,
    UNTRUSTED,
    CodeTrust,
    importable_cwd,
    refuse_code_of_main,
    refuse_main_of_another_process,
)
from drumline.api.hash_order import refuse_hash_order
from drumline.api.kept_prints import kept_prints, unsaid
from drumline.api.loaded_policy import LoadedModule, LoadedPolicy
from drumline.api.process_as_found import process_as_found
from drumline.api.run_document import (
    NO_PROMISE,
    checked_tags,
    differences_here,
    promise_of,
    promises,
    run_document,
    step_path_of,
)
from drumline.api.shown_run import curve_of, line_of
from drumline.api.slow_bf16 import slow_in_bf16
from drumline.api.stored_policy import refuse_changed_module, stored_module
from drumline.api.whole_numbers import whole_number
from drumline.display.dashboard import Display, choose_display
from drumline.display.notebook import notebook_display
from drumline.display.plain import ReaderGone
from drumline.envs.environment import EnvironmentProblem
from drumline.envs.episode import NonFinite
from drumline.errors import ObjectiveProblem, WorkerError
from drumline.recipes.method import Method, without_findings
from drumline.recipes.methods import config_from, find_method, method_of
from drumline.recipes.named_objects import with_plain_numbers
from drumline.runs.checkpoint import Checkpoint, checkpoint_numbers, read_checkpoint
from drumline.runs.claims import refuse_busy
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.horizons import after_resume, horizons_of
from drumline.runs.metrics import MOST_EPISODES
from drumline.runs.next_commands import as_typed
from drumline.runs.own_files import is_there
from drumline.runs.policy_files import read_policy
from drumline.runs.printed_file import PrintedFile
from drumline.runs.problem import problem_of
from drumline.runs.tables import read_table
from drumline.runs.typed_paths import typed_here
from drumline.runtime.guard import Guard
from drumline.stores.claim import claimed
from drumline.stores.mirror import Mirror
from drumline.stores.object_store import ObjectStore
from drumline.tasks import Evaluation
from drumline.training.callbacks import CallbackQueue
from drumline.training.cluster import joined
from drumline.training.generational_run import GenerationalRecipe
from drumline.training.layout import Layout
from drumline.training.run_request import Recipe, RunRequest
from drumline.training.stopped import Stopped
from drumline.training.value_kinds import refuse_other_kinds

_LOGGER = logging.getLogger("drumline")


class Run:
    """A run on disk; code that its folder names is imported only with `trust`."""

    def __init__(self, folder: RunFolder, trust: CodeTrust = UNTRUSTED):
        self.folder = folder
        self._trust = trust

    def __repr__(self) -> str:
        return line_of(self.folder)

    def _repr_png_(self) -> bytes | None:
        """Return the learning curve, which a notebook shows."""
        return curve_of(self.folder)

    @property
    def path(self) -> Path:
        """Return the run folder's path."""
        return self.folder.path

    @property
    def config(self) -> Any:
        """Return the run's config."""
        self._trust.method(self.folder)
        return config_from(self.folder.document)

    @property
    def metrics(self) -> list[dict[str, float]]:
        """Return one row per update."""
        if not is_there(self.folder.metrics_csv):
            return []
        table = read_table(self.folder.metrics_csv)
        kinds = [_number] * len(table.columns)
        return [
            {
                name: value
                for name, value in zip(table.columns, row, strict=True)
                if value is not None
            }
            for row in table.values(table.columns, kinds)
        ]

    def parameters(self, policy: str = "last") -> np.ndarray:
        """Return the parameters `[P]` of a saved policy, `last` or `best`; imports no code."""
        return read_policy(self.folder, policy).tensors["parameters"]

    @process_as_found()
    def module(self, policy: str = "last") -> Any:
        """Return the torch module of an objective with the parameters of a saved policy."""
        return stored_module(read_policy(self.folder, policy), self._trust)

    @property
    @process_as_found()
    def policy(self) -> "LoadedPolicy | LoadedModule":
        """Return the policy at the end of training, or at the stop.

        `policy.act(observation)` gives its action, and those of a batch; `policy.to_torch()` is a
        torch module. Of an objective with a torch module, `policy.to_torch()` alone.
        """
        stored = read_policy(self.folder, "last")
        kind = LoadedModule if stored.objective.get("module") else LoadedPolicy
        return kind(stored, self._trust)

    @process_as_found()
    def evaluate(
        self,
        episodes: int = 20,
        policy: str = "last",
        seed: int = 0,
        *,
        sample: bool | None = None,
    ) -> EvaluationResult:
        """Run episodes of a saved policy in this process, `last` or `best`.

        `sample` draws its actions, `False` takes the most likely ones; by default it is as in the
        run's own evaluations. (`drumline evaluate` takes `best`, unless told otherwise.)
        """
        stored = read_policy(self.folder, policy)
        config = self.folder.document["config"]
        sample = draws_actions(config, sample=bool(sample), deterministic=sample is False)
        return evaluate_policy(stored, config, episodes, seed, self._trust, sample=sample)

    @process_as_found()
    def episode(
        self, member: int, *, checkpoint: int | None = None, evaluation: bool = False
    ) -> Evaluation:
        """Run one training episode (or scheduled evaluation episode) alone, in this process.

        `checkpoint` (by default the newest) selects the version of the parameters.
        """
        member = whole_number("member", member, least=0)
        if checkpoint is not None:
            checkpoint = whole_number("checkpoint", checkpoint, least=0)
        from drumline.api.lone_episode import LoneEpisode

        return LoneEpisode(
            self.folder, member, checkpoint, self._trust, evaluation=evaluation
        ).run()

    def resume(
        self,
        *,
        workers: int | Literal["inline"] = 0,
        total_steps: int | None = None,
        layout: Layout | None = None,
        callbacks: object = (),
        store: str = "",
        progress: bool = True,
        **settings: Any,
    ) -> "Run":
        """Go on, bit for bit as an uninterrupted run; the other arguments are those of `train`.

        `settings` are those of the layout: `run.resume(executors=2)`.
        """
        self._trust.method(self.folder)
        method = find_method(self.folder.document["method"])
        layout = layout_from(method, workers, layout, settings)
        if settings:
            raise ValueError(
                f"resume changes total_steps and the layout alone, not {', '.join(settings)}: a "
                "run keeps its config"
            )
        return resume(
            self.folder,
            layout,
            trust=self._trust,
            total_steps=total_steps,
            callbacks=callbacks,
            store=store,
            progress=progress,
        )


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def configure(
    method: str, env: Any = "", *, preset: str | None = "", objective: Any = "", **settings: Any
) -> Any:
    """Return the config of a method, by its name, for an environment, as `drumline train` makes it.

    It begins with the environment's preset (`None`: with none), and `settings` are fields of the
    config. `env` and `objective` are names, or classes and functions at the top of a module.
    Raises `ValueError` for an unknown method, preset or setting.
    """
    importable_cwd(first=False)
    found = find_method(method)
    settings = in_our_words(found, settings)
    found.refuse_unknown(settings)
    if objective:
        if env or preset:
            raise ValueError("an objective stands in place of an environment and its preset")
        return found.made_for(objective, **settings)
    config = found.made(env, preset, **settings)
    if preset == "" and (sentence := found.without_preset(config.env)):
        _LOGGER.warning("%s", sentence)
    return config


@typed_here()
def train(
    config: Any,
    env: Any = "",
    *,
    preset: str | None = "",
    workers: int | Literal["inline"] = 0,
    out: str | Path | None = None,
    layout: Layout | None = None,
    display: Display | None = None,
    last_update: int | None = None,
    callbacks: object = (),
    store: str = "",
    tags: Sequence[str] = (),
    progress: bool = True,
    **settings: Any,
) -> Run:
    """Train a config and return its run; `workers` changes the speed and never a bit.

    In place of a config, `train("es", "Hopper-v5", seed=1)` takes what `configure` takes. Settings
    of the layout are arguments, too: `executors=2`, `hang_seconds=600`; or all of it is `layout`.
    `last_update` ends the run early and changes nothing in the updates before. `callbacks`: one or
    a list of objects with `on_update`, `on_episode`, `on_evaluation` or `on_checkpoint`; one that
    returns `False` ends the run in order, and none changes a bit (`drumline.Callbacks`). `store` is
    the URL (s3://bucket/prefix) of a copy of the run folder, and `tags` are words for
    `drumline list`. In a notebook the cell shows the run's `progress`; scripts print nothing.
    """
    importable_cwd(first=False)
    method = find_method(config) if isinstance(config, str) else method_of(config)
    layout = layout_from(method, workers, layout, settings)
    if isinstance(config, str):
        config = configure(config, env, preset=preset, **settings)
    elif env or preset or settings:
        raise ValueError(
            "train takes a config alone, or a method by its name with ENV and settings, as in "
            'drumline.train("es", "Hopper-v5", seed=1); dataclasses.replace changes a config'
        )
    if last_update is not None:
        last_update = whole_number("last_update", last_update, least=0)
    if sentence := slow_in_bf16(config):
        _LOGGER.warning("%s", sentence)
    return trained(
        config,
        layout,
        TRUSTED,
        out=out,
        display=display,
        last_update=last_update,
        callbacks=callbacks,
        store=store,
        tags=tags,
        progress=progress,
    )


@process_as_found()
def trained(
    config: Any,
    layout: Layout,
    trust: CodeTrust,
    *,
    out: str | Path | None = None,
    display: Display | None = None,
    last_update: int | None = None,
    callbacks: object = (),
    store: str = "",
    tags: Sequence[str] = (),
    progress: bool = False,
) -> Run:
    """Train a config whose code may be imported; `trust` is that of the run returned.

    With a display, what environments print goes into a file of the run folder. `progress` is shown
    in a notebook if there is no display.
    """
    with kept_prints(None if display is None else display.message) as prints:
        told = CallbackQueue(callbacks)
        shown = display or _default_display(progress)
        request = _Opening(out, shown, last_update, told, checked_tags(tags), store)
        return _trained(config, layout, trust, prints, request)


@dataclass(frozen=True)
class _Opening:
    """Arguments of `trained` about a run that is no part of its config or its layout."""

    out: str | Path | None
    display: Display
    last_update: int | None
    callbacks: CallbackQueue
    tags: list[str]
    store: str


def _trained(
    config: Any, layout: Layout, trust: CodeTrust, prints: PrintedFile, opening: _Opening
) -> Run:
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
        mirror = _mirror(objects, folder)
    except RunError:
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
    return _carry_out(recipe, request, trust, made_here=True)


def facts_of(recipe: Any) -> dict[str, str]:
    """Return the facts on which a run's bits depend besides config and versions."""
    return recipe.facts if isinstance(recipe, GenerationalRecipe) else {}


def _layout_for(method: Method, layout: Layout) -> Layout:
    """Return a layout of the method's own kind; ValueError if flags of `layout` would be lost."""
    kind = method.layout
    if not issubclass(kind, type(layout)):
        raise ValueError(f"{method.name} takes a {kind.__name__}, got a {type(layout).__name__}")
    plain = with_plain_numbers(layout)
    return kind(**{field.name: getattr(plain, field.name) for field in fields(plain)})


def load(path: str | Path, *, trust_code: bool = False) -> Run:
    """Open a run folder: a path, a name under runs/, or `last`.

    `trust_code` lets the run import code that its folder names; without it, a call that would need
    such code is refused.
    """
    return Run(RunFolder.open(path), CodeTrust(trust_code))


@process_as_found()
def resume(
    folder: RunFolder,
    layout: Layout,
    *,
    trust: CodeTrust = UNTRUSTED,
    total_steps: int | None = None,
    checkpoint: int | None = None,
    other_machine: bool = False,
    display: Display | None = None,
    last_update: int | None = None,
    callbacks: object = (),
    store: str = "",
    progress: bool = False,
) -> Run:
    """Go on from the newest (or a named) checkpoint; a new `total_steps` is recorded.

    `other_machine` goes on with other versions or on another processor, without the promise.
    `last_update`, `callbacks`, `store` and `progress` as in `train`.
    """
    told = CallbackQueue(callbacks)
    folder.read_again()  # it may have been resumed since by another process, or another handle
    trust.run(folder)
    objects = ObjectStore(store) if store else None
    method = find_method(folder.document["method"])
    layout = _layout_for(method, layout)
    changes = _changes_of_machine(folder, other_machine, store)
    with kept_prints(None if display is None else unsaid):
        config = resumed_config(folder, total_steps, trust)
        refuse_main_of_another_process(config)
        refuse_code_of_main(config, layout)
        if changes or not promises(folder):
            config = without_findings(config)
        config = method.resolved(config)
        saved = _newest_state(folder, checkpoint)
        if saved and config.total_steps < folder.document["config"]["total_steps"]:
            _refuse_less_than_done(config.total_steps, saved)
        recipe = method.built(config, layout)
        refuse_edited(config, layout)
        refuse_hash_order(config, recipe, layout)
        refuse_changed_module(folder, recipe)
    before = horizons_of(folder)
    horizons = after_resume(before, 0 if saved is None else saved.update, config.total_steps)
    if horizons != before:
        fields = {**folder.document["config"], "total_steps": config.total_steps}
        folder.amend_when_claimed(config=fields, horizons=horizons)
    if changes:
        folder.amend_when_claimed(promise=f"{NO_PROMISE}: resumed on another machine ({changes})")
    if (path := step_path_of(config)) != folder.document.get("step_path"):
        folder.amend_when_claimed(step_path=path)
    say = None if display is None else display.message
    display = display or _default_display(progress)
    if objects is not None:
        refuse_busy(folder)  # the claim would stop the uploads of the driver that is at work
        folder.amend_when_claimed(store=objects.url)
    elif before := folder.document.get("store"):
        display.message(f"this run was copied to {before}; to go on with that: --store {before}")
    mirror = _mirror(objects, folder, rewinds=checkpoint is not None)
    request = RunRequest(
        folder,
        layout,
        display,
        resumed_from=saved,
        mirror=mirror,
        last_update=last_update,
        callbacks=told,
    )
    with kept_prints(say) as prints:
        prints.into(folder)
        return _carry_out(recipe, request, trust)


def resumed_config(folder: RunFolder, total_steps: int | None, trust: CodeTrust) -> Any:
    """Return a run's config, with the new `total_steps` if given."""
    trust.method(folder)
    config = config_from(folder.document)
    if total_steps is None:
        return config
    config = with_plain_numbers(replace(config, total_steps=total_steps))
    refuse_other_kinds(config)
    return config


def _mirror(
    store: ObjectStore | None, folder: RunFolder, *, rewinds: bool = False
) -> Mirror | None:
    return None if store is None else Mirror(claimed(store, folder, rewinds=rewinds), folder)


def _changes_of_machine(folder: RunFolder, other_machine: bool, store: str) -> str:
    """Return the differences between the run's machine and this one.

    RunError if there are some, unless the user gave up the promise or the run has none.
    """
    if not promises(folder):
        return ""
    found = differences_here(folder.document)
    if found and not other_machine:
        words = ["--store", store] if store else []
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


def _carry_out(
    recipe: Recipe, request: RunRequest, trust: CodeTrust, *, made_here: bool = False
) -> Run:
    """Run to the end; the folder of a refused run is removed if it was `made_here`."""
    folder, layout = request.folder, request.layout
    try:
        with (
            _given_back(request.mirror),
            joined(layout) as nodes,
            Guard(layout.hang_seconds, layout.creation_seconds) as guard,
        ):
            recipe.opened(replace(request, whereabouts=guard, nodes=nodes)).run()
    except Stopped as stop:
        stop.run = folder
        stop.add_note(f"the run can go on: {as_typed(folder, 'resume')}")
        raise
    except WorkerError as error:
        raise _own_cause(error) from error
    except ReaderGone as error:
        stop = Stopped(signal.SIGPIPE)
        stop.run = folder
        raise stop from error
    except ValueError:
        if made_here:
            folder.discard_unbegun()
        raise
    return Run(folder, trust)


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


def _default_display(progress: bool) -> Display:
    return (notebook_display() if progress else None) or silent()


def silent() -> Display:
    """Return a display that shows nothing."""
    return choose_display(sys.stderr, quiet=True, json=False, environ=os.environ)
