"""Run: a run folder with its policy, metrics, evaluation and continuation; `train` and `load`."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from drumline.api.call_settings import in_our_words, layout_from
from drumline.api.evaluation import (
    EvaluationResult,
    action_noise_std,
    draws_actions,
    evaluate_policy,
)
from drumline.api.foreign_code import (
    TRUSTED,
    UNTRUSTED,
    CodeTrust,
    importable_cwd,
)
from drumline.api.kept_prints import kept_prints
from drumline.api.loaded_policy import LoadedModule, LoadedPolicy
from drumline.api.opened_runs import Continuation, Opening, begin, default_display, go_on
from drumline.api.own_config import own_config
from drumline.api.process_as_found import process_as_found
from drumline.api.run_document import (
    checked_tags,
)
from drumline.api.shown_run import curve_of, line_of
from drumline.api.slow_bf16 import slow_in_bf16
from drumline.api.stored_policy import stored_module
from drumline.api.whole_numbers import whole_number
from drumline.display.dashboard import Display
from drumline.recipes.methods import find_method, method_of
from drumline.runs.folder import RunFolder
from drumline.runs.own_files import is_there
from drumline.runs.policy_files import read_policy
from drumline.runs.tables import read_table
from drumline.runs.typed_paths import typed_here
from drumline.tasks import Evaluation
from drumline.training.callbacks import CallbackQueue
from drumline.training.layout import Layout

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
        """Return the run's config; a policy that it starts from is the folder's copy."""
        self._trust.method(self.folder)
        return own_config(self.folder)

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
    def policy(self) -> "LoadedPolicy | LoadedModule":
        """Return the policy at the end of training, or at the stop (`load_policy`)."""
        return self.load_policy()

    @process_as_found()
    def load_policy(self, policy: str = "last") -> "LoadedPolicy | LoadedModule":
        """Return a saved policy, `last` or `best`.

        Its `act(observation)` gives the action, and those of a batch; `to_torch()` is a torch
        module. Of an objective with a torch module, `to_torch()` alone.
        """
        stored = read_policy(self.folder, policy)
        if stored.objective.get("module"):
            return LoadedModule(stored, self._trust)
        std = action_noise_std(self.folder.document["config"])
        return LoadedPolicy(stored, self._trust, std)

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
        shown = display or default_display(progress)
        opening = Opening(out, shown, last_update, told, checked_tags(tags), store)
        return Run(begin(config, layout, prints, opening), trust)


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
    further = Continuation(
        total_steps=total_steps,
        checkpoint=checkpoint,
        other_machine=other_machine,
        display=display,
        shown=display or default_display(progress),
        last_update=last_update,
        callbacks=CallbackQueue(callbacks),
        store=store,
    )
    go_on(folder, layout, trust, further)
    return Run(folder, trust)
