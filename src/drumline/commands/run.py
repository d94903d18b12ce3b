"""Run: a run folder with its policy, metrics, evaluation and continuation; `train` and `load`."""

import os
import signal
import sys
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from drumline.commands.evaluation import EvaluationResult, evaluate_policy
from drumline.commands.foreign_code import (
    TRUSTED,
    UNTRUSTED,
    CodeTrust,
    importable_cwd,
    refuse_code_of_main,
)
from drumline.commands.kept_prints import kept_prints
from drumline.commands.process_as_found import process_as_found
from drumline.commands.run_document import NO_PROMISE, promise_of, run_document, step_path_of
from drumline.commands.stored_policy import load_policy
from drumline.display.dashboard import Display, choose_display
from drumline.display.plain import ReaderGone
from drumline.protocols import Policy
from drumline.recipes.method import Method
from drumline.recipes.methods import config_from, find_method, method_of
from drumline.runs.checkpoint import Checkpoint, checkpoint_numbers, read_checkpoint
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.horizons import after_resume, horizons_of
from drumline.runs.machine import differences
from drumline.runs.next_commands import as_typed
from drumline.runs.own_files import is_there
from drumline.runs.policy_files import read_policy
from drumline.runs.printed_file import PrintedFile
from drumline.runs.problem import problem_of
from drumline.runs.tables import read_table
from drumline.runtime.guard import Guard
from drumline.tasks import Evaluation
from drumline.training.cluster import joined
from drumline.training.layout import Layout
from drumline.training.run_request import Recipe, RunRequest
from drumline.training.stopped import Stopped


class Run:
    """A run on disk; code that its folder names is imported only with `trust`."""

    def __init__(self, folder: RunFolder, trust: CodeTrust = UNTRUSTED):
        self.folder = folder
        self._trust = trust

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

    @property
    @process_as_found()
    def policy(self) -> Policy:
        """Return the policy at the end of training, or at the stop.

        `policy.act(observation)` gives its action.
        """
        return load_policy(read_policy(self.folder, "last"), self._trust)

    @process_as_found()
    def evaluate(
        self, episodes: int = 20, policy: str = "last", seed: int = 0, *, sample: bool = False
    ) -> EvaluationResult:
        """Run episodes of a saved policy in this process; `sample` draws its actions."""
        stored = read_policy(self.folder, policy)
        config = self.folder.document["config"]
        return evaluate_policy(stored, config, episodes, seed, self._trust, sample=sample)

    @process_as_found()
    def episode(
        self, member: int, *, checkpoint: int | None = None, evaluation: bool = False
    ) -> Evaluation:
        """Run one training episode (or scheduled evaluation episode) alone, in this process.

        `checkpoint` (by default the newest) selects the version of the parameters.
        """
        from drumline.commands.lone_episode import LoneEpisode

        return LoneEpisode(
            self.folder, member, checkpoint, self._trust, evaluation=evaluation
        ).run()

    def resume(
        self, *, workers: int | Literal["inline"] = 0, total_steps: int | None = None
    ) -> "Run":
        """Go on, bit for bit as an uninterrupted run."""
        self._trust.method(self.folder)
        kind = find_method(self.folder.document["method"]).layout
        layout = layout_of(workers, kind)
        return resume(self.folder, layout, trust=self._trust, total_steps=total_steps)


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def layout_of(workers: int | Literal["inline"], kind: type[Layout] = Layout) -> Layout:
    """Return the layout that the Python interface's `workers` names."""
    return kind(pool="inline") if workers == "inline" else kind(workers=workers)


def train(
    config: Any,
    *,
    workers: int | Literal["inline"] = 0,
    out: str | Path | None = None,
    layout: Layout | None = None,
    display: Display | None = None,
    last_update: int | None = None,
) -> Run:
    """Train a config and return its run; `workers` changes the speed and never a bit.

    `last_update` ends the run early and changes nothing in the updates before.
    """
    importable_cwd()
    layout = layout or layout_of(workers, method_of(config).layout)
    return trained(config, layout, TRUSTED, out=out, display=display, last_update=last_update)


@process_as_found()
def trained(
    config: Any,
    layout: Layout,
    trust: CodeTrust,
    *,
    out: str | Path | None = None,
    display: Display | None = None,
    last_update: int | None = None,
) -> Run:
    """Train a config whose code may be imported; `trust` is that of the run returned.

    With a display, what environments print goes into a file of the run folder.
    """
    with kept_prints(None if display is None else display.message) as prints:
        return _trained(config, layout, trust, prints, out, display, last_update)


def _trained(
    config: Any,
    layout: Layout,
    trust: CodeTrust,
    prints: PrintedFile,
    out: str | Path | None,
    display: Display | None,
    last_update: int | None,
) -> Run:
    method = method_of(config)
    layout = _layout_for(method, layout)
    refuse_code_of_main(config, layout)
    config = method.resolved(config)
    recipe = method.built(config, layout)
    folder = RunFolder.create(
        None if out is None else Path(out),
        method=method.name,
        env_id=problem_of(asdict(config)),
        seed=config.seed,
        document=run_document(config, layout, promise_of(config)),
    )
    prints.into(folder.printed_txt)
    request = RunRequest(folder, layout, display or silent(), last_update=last_update)
    return _carry_out(recipe, request, trust)


def _layout_for(method: Method, layout: Layout) -> Layout:
    """Return a layout of the method's own kind; ValueError if flags of `layout` would be lost."""
    kind = method.layout
    if not issubclass(kind, type(layout)):
        raise ValueError(f"{method.name} takes a {kind.__name__}, got a {type(layout).__name__}")
    return kind(**{field.name: getattr(layout, field.name) for field in fields(layout)})


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
) -> Run:
    """Go on from the newest (or a named) checkpoint; a new `total_steps` is recorded.

    `other_machine` goes on with other versions or on another processor, without the promise.
    `last_update` ends the run early, as in `train`.
    """
    trust.run(folder)
    method = find_method(folder.document["method"])
    layout = _layout_for(method, layout)
    changes = _changes_of_machine(folder, other_machine)
    config = resumed_config(folder, total_steps, trust)
    refuse_code_of_main(config, layout)
    config = method.resolved(config)
    saved = _newest_state(folder, checkpoint)
    if saved and config.total_steps < folder.document["config"]["total_steps"]:
        _refuse_less_than_done(config.total_steps, saved)
    with kept_prints(None if display is None else _unsaid):
        recipe = method.built(config, layout)
    before = horizons_of(folder)
    horizons = after_resume(before, 0 if saved is None else saved.update, config.total_steps)
    if horizons != before:
        fields = {**folder.document["config"], "total_steps": config.total_steps}
        folder.amend_when_claimed(config=fields, horizons=horizons)
    if changes:
        folder.amend_when_claimed(promise=f"{NO_PROMISE}: resumed on another machine ({changes})")
    if (path := step_path_of(config)) != folder.document.get("step_path"):
        folder.amend_when_claimed(step_path=path)
    request = RunRequest(
        folder, layout, display or silent(), resumed_from=saved, last_update=last_update
    )
    with kept_prints(None if display is None else display.message) as prints:
        prints.into(folder.printed_txt)
        return _carry_out(recipe, request, trust)


def resumed_config(folder: RunFolder, total_steps: int | None, trust: CodeTrust) -> Any:
    """Return a run's config, with the new `total_steps` if given."""
    trust.method(folder)
    config = config_from(folder.document)
    return config if total_steps is None else replace(config, total_steps=total_steps)


def _changes_of_machine(folder: RunFolder, other_machine: bool) -> str:
    """Return the differences between the run's machine and this one.

    RunError if there are some, unless the user gave up the promise or the run has none.
    """
    if folder.stated("promise").startswith(NO_PROMISE):
        return ""
    found = "; ".join(map(str, differences(folder.document)))
    if found and not other_machine:
        command = as_typed(folder, "resume", "--other-machine")
        raise RunError(
            f"{folder.path} was made on another machine ({found}) and could silently get other "
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


def _carry_out(recipe: Recipe, request: RunRequest, trust: CodeTrust) -> Run:
    folder = request.folder
    try:
        with joined(request.layout) as nodes, Guard(request.layout.hang_seconds) as guard:
            recipe.opened(replace(request, whereabouts=guard, nodes=nodes)).run()
    except Stopped as stop:
        stop.run = folder.path
        raise
    except ReaderGone as error:
        stop = Stopped(signal.SIGPIPE)
        stop.run = folder.path
        raise stop from error
    except ValueError:
        folder.discard_unbegun()
        raise
    return Run(folder, trust)


def _unsaid(text: str) -> None:
    """Say nothing of what an environment prints while its spaces are looked at."""


def silent() -> Display:
    """Return a display that shows nothing."""
    return choose_display(sys.stderr, quiet=True, json=False, environ=os.environ)
