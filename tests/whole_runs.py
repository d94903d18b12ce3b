"""Whole runs of a method on a layout, small configs for them, and what of a run folder lasts."""

from pathlib import Path
from typing import Any

from drumline.api.opened_runs import silent
from drumline.api.run_document import PROMISE, run_document
from drumline.recipes.cem_rl import CEMRL
from drumline.recipes.erl import ERL
from drumline.recipes.methods import method_of
from drumline.recipes.p_cem_rl import PCEMRL
from drumline.runs.folder import RunFolder
from drumline.runs.segments import segments_there
from drumline.training.layout import Layout
from drumline.training.run_request import RunRequest

_SEARCHED = {
    "env": "InvertedPendulum-v5",
    "population_size": 6,
    "elites": 3,
    "refined_members": 2,
    "initial_variance": 0.1,
    "damp": 0.1,
    "warmup_steps": 40,
    "replay_size": 120,
    "batch_size": 16,
    "hidden": (8,),
    "evaluate_every": 2,
    "evaluate_episodes": 2,
}
SMALL_CEM_RL = CEMRL(**_SEARCHED, total_steps=260, mean_evaluations=2)
SMALL_P_CEM_RL = PCEMRL(**_SEARCHED, total_steps=230, concurrency=3, critic_batches=30)
SMALL_ERL = ERL(
    env="InvertedPendulum-v5",
    total_steps=260,
    population_size=4,
    episodes_per_member=2,
    elite_fraction=0.3,
    sync_every=2,
    warmup_steps=60,
    replay_size=120,
    batch_size=8,
    hidden=(8,),
    critic_hidden=(8, 6),
    learning_rate=1e-2,
    critic_learning_rate=1e-2,
    mean_evaluations=2,
    evaluate_every=2,
    evaluate_episodes=2,
)
LASTING = ("fingerprints.csv", "episodes.csv", "evaluations.csv", "policy-last.safetensors")


def lasting_bytes(folder: RunFolder, names: tuple[str, ...] = LASTING) -> dict[str, bytes]:
    """Everything in a run folder that wall-clock time has no part in, the replay included."""
    lasting = (*names, *segments_there(folder))
    return {name: (folder.path / name).read_bytes() for name in lasting}


def folder_for(out: Path, config: Any, layout: Layout) -> RunFolder:
    """Make the folder of a run that promises the same bits."""
    return RunFolder.create(
        out,
        method=method_of(config).name,
        env_id=config.env,
        seed=config.seed,
        document=run_document(config, layout, PROMISE),
    )


def run_on(out: Path, config: Any, layout: Layout, probe: Any = None, **options: Any) -> RunFolder:
    """Train on a layout, with a probe at every point of a job."""
    folder = folder_for(out, config, layout)
    request = RunRequest(folder, layout, silent(), probe_factory=probe, **options)
    config.build(layout).opened(request).run()
    return folder
