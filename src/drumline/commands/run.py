"""Run: a run folder with its policy, metrics, evaluation and continuation; and `train`, `load`."""

import csv
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from drumline import seeding
from drumline.display.dashboard import Display, choose_display
from drumline.envs.episode import EpisodeLoop
from drumline.envs.make import EnvironmentSpec, make_environment
from drumline.policies.spec import build_policy, spec_from
from drumline.protocols import Policy
from drumline.recipes.document import PROMISE, run_document
from drumline.recipes.layout import Layout
from drumline.recipes.methods import config_from, find_method, method_of
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.policy_files import read_policy
from drumline.types import Evaluation


@dataclass(frozen=True)
class EvaluationResult:
    """Returns and lengths of evaluated episodes."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Return the mean return."""
        return float(np.mean(self.returns))


class Run:
    """A run on disk."""

    def __init__(self, folder: RunFolder):
        self.folder = folder

    @property
    def path(self) -> Path:
        """Return the run folder's path."""
        return self.folder.path

    @property
    def config(self) -> Any:
        """Return the run's config."""
        document = self.folder.document
        return config_from(document["method"], document["config"])

    @property
    def metrics(self) -> list[dict[str, float]]:
        """Return one row per update."""
        with open(self.folder.metrics_csv, newline="") as lines:
            return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(lines)]

    @property
    def policy(self) -> Policy:
        """Return the newest policy; `policy.act(observation)` gives its action."""
        return load_policy(self.folder, "last")[0]

    def evaluate(self, episodes: int = 20, policy: str = "last", seed: int = 0) -> EvaluationResult:
        """Run noiseless episodes of a saved policy in this process."""
        return evaluate_policy(self.folder, policy, episodes, seed)

    def episode(
        self, member: int, *, checkpoint: int | None = None, evaluation: bool = False
    ) -> Evaluation:
        """Run one training (or scheduled evaluation) episode alone, in this process.

        `checkpoint` (by default the newest) is the version that the episode belongs to.
        """
        from drumline.commands.episode import LoneEpisode

        return LoneEpisode(self.folder, member, checkpoint, evaluation=evaluation).run()

    def resume(
        self, *, workers: int | Literal["inline"] = 0, total_steps: int | None = None
    ) -> "Run":
        """Go on, bit for bit as if never stopped."""
        kind = find_method(self.folder.document["method"]).layout
        return resume(self.folder, layout_of(workers, kind), total_steps=total_steps)


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
    """Train a config and return its run; `workers` changes speed and never a bit.

    `last_update` ends the run early, without a change in anything before.
    """
    importable_cwd()
    method = method_of(config)
    layout = layout or layout_of(workers, find_method(method).layout)
    refuse_code_of_main(config, layout)
    recipe = find_method(method).build(config, layout)
    promise = PROMISE if config.promise else "no promise: trained with --no-promise"
    folder = RunFolder.create(
        None if out is None else Path(out),
        method=method,
        env_id=config.env,
        seed=config.seed,
        document=run_document(config, layout, promise),
    )
    display = display or silent()
    find_method(method).run(recipe, folder, layout, display, last_update=last_update).run()
    return Run(folder)


def load(path: str | Path) -> Run:
    """Open a run folder: a path, a name under runs/, or `last`."""
    return Run(RunFolder.open(path))


def resume(
    folder: RunFolder,
    layout: Layout,
    *,
    total_steps: int | None = None,
    checkpoint: int | None = None,
    display: Display | None = None,
) -> Run:
    """Go on from the newest (or a named) checkpoint; `total_steps` is recorded."""
    document = folder.document
    refuse_other_machine(document)
    config = config_from(document["method"], document["config"])
    if total_steps is not None:
        config = replace(config, total_steps=total_steps)
        folder.update_document(config={**document["config"], "total_steps": total_steps})
    refuse_code_of_main(config, layout)
    saved = read_checkpoint(folder, checkpoint)
    method = find_method(document["method"])
    recipe = method.build(config, layout)
    method.run(recipe, folder, layout, display or silent(), resumed_from=saved).run()
    return Run(folder)


def refuse_code_of_main(config: Any, layout: Layout) -> None:
    """Refuse names from a script or notebook where processes would have to import them."""
    for name in (config.env, getattr(config, "policy", ""), getattr(config, "network", "")):
        if layout.pool == "process" and name.startswith("__main__:"):
            raise ValueError(
                f"{name!r} lives in the script or notebook itself, which workers cannot import: "
                'put it into a module, or use workers="inline" (--pool inline)'
            )


def refuse_other_machine(document: dict[str, Any]) -> None:
    """Refuse to go on under other versions of what computes: the bits could differ silently."""
    import gymnasium

    made, here = document["versions"], {"numpy": np.__version__, "gymnasium": gymnasium.__version__}
    for name, version in here.items():
        if made.get(name) != version:
            raise RunError(
                f"this run was made with {name} {made.get(name)} and here is {name} {version}: "
                f"install {name}=={made.get(name)} to go on with the same bits"
            )


def load_policy(folder: RunFolder, name: str) -> tuple[Policy, EnvironmentSpec]:
    """Return a saved policy and the environment that it acts in."""
    stored = read_policy(folder, name)
    policy = build_policy(spec_from(stored.document["policy"]))
    policy.load_vector(stored.tensors["parameters"])
    if "observation_mean" in stored.tensors:
        policy.load_moments(
            stored.tensors["observation_mean"], stored.tensors["observation_inverse_std"]
        )
    return policy, EnvironmentSpec(**stored.document["environment"])


def evaluate_policy(folder: RunFolder, name: str, episodes: int, seed: int) -> EvaluationResult:
    """Run noiseless episodes with seeds of their own stream."""
    if episodes < 1:
        raise RunError(f"--episodes must be 1 or more, got {episodes}")
    policy, spec = load_policy(folder, name)
    made = make_environment(spec)
    loop = EpisodeLoop(made.environment, policy, spec.id)
    returns, lengths = [], []
    for episode_seed in seeding.seeds(seed, episodes, "evaluate-command"):
        seeding.seed_globals(episode_seed)
        episode = loop.run(
            episode_seed, made.limit, progress=lambda amount: None, withdrawn=lambda: False
        )
        returns.append(episode.episode_return)
        lengths.append(episode.length)
    made.environment.close()
    return EvaluationResult(tuple(returns), tuple(lengths))


def importable_cwd() -> None:
    """Make the current directory importable, for names given on the command line."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())


def silent() -> Display:
    """Return a display that shows nothing."""
    return choose_display(sys.stderr, quiet=True, json=False, environ=os.environ)
