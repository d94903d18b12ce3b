"""Small trainings that universes run, and what of their folders must be the same in every one."""

import csv
import io
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from drumline import AES, ES, HTS, train
from drumline.commands.foreign_code import CodeTrust
from drumline.commands.run import resume
from drumline.runs.folder import RunFolder
from drumline.training.layout import RotationLayout, SearchLayout, SteadyLayout
from universe import tiny

TIMED = ("seconds", "per_second", "share", "staleness", "lag_max", "discarded")
COMPARED = ("fingerprints.csv", "evaluations.csv", "episodes.csv", "policy-last.safetensors")


def es(rng: random.Random) -> Any:
    """OpenAI-ES: four generations."""
    return ES(
        "universe.tiny:Tiny",
        seed=rng.randrange(3),
        total_steps=150,
        population_size=8,
        hidden=(3,),
        noise_table_size=5000,
        evaluate_every=2,
        evaluate_episodes=3,
    )


def hts(rng: random.Random) -> Any:
    """HTS-RL: five updates."""
    return HTS(
        "universe.tiny:Tiny",
        seed=rng.randrange(3),
        total_steps=5 * 4 * 3,
        engine="gymnasium",
        num_envs=3,
        alpha=4,
        hidden=(3,),
        epochs=2,
        minibatches=2,
        evaluate_every=2,
        evaluate_episodes=2,
    )


def aes(rng: random.Random) -> Any:
    """AES-RL: a dozen individuals of all kinds."""
    return AES(
        "universe.tiny:continuous",
        seed=rng.randrange(3),
        total_steps=80,
        hidden=(3,),
        warmup_steps=12,
        replay_size=200,
        batch_size=4,
        concurrency=3,
        mean_evaluations=1,
        critic_batches=4,
        evaluate_every=5,
        evaluate_episodes=2,
    )


METHODS: dict[str, Callable[[random.Random], Any]] = {"es": es, "hts": hts, "aes": aes}


def layout_of(method: str, rng: random.Random) -> Any:
    """Return a layout that must not matter."""
    every = {"tensorboard": False, "checkpoint_minutes": rng.choice([1e-6, 1e-4, 2.0])}
    workers = rng.randint(1, 3)
    if method == "es":
        return SearchLayout(workers=workers, **every)
    if method == "aes":
        return SteadyLayout(workers=workers, **every)
    barrier: Any = rng.choice(["sliding", "hard"])
    actors = rng.choice([0, 1, 2])
    return RotationLayout(executors=workers, actors=actors, barrier=barrier, **every)


def run(config: Any, layout: Any, out: Path) -> None:
    """Train, or go on where a run was killed."""
    if (out / "config.json").exists():
        resume(RunFolder.open(out), layout, trust=CodeTrust(True))
        return
    shutil.rmtree(out, ignore_errors=True)
    train(config, layout=layout, out=out)


def content(out: Path) -> dict[str, bytes]:
    """Return what no layout, death or delay may change."""
    found = {name: (out / name).read_bytes() for name in COMPARED if (out / name).exists()}
    rows = list(csv.DictReader(io.StringIO((out / "metrics.csv").read_text())))
    kept = [
        {name: value for name, value in row.items() if not any(word in name for word in TIMED)}
        for row in rows
    ]
    return {**found, "metrics.csv": repr(kept).encode()}


@cache
def expected(method: str, seed: int, place: Path) -> dict[str, bytes]:
    """Return the content of the same training without faults, in one process."""

    config = replace(METHODS[method](random.Random()), seed=seed)
    kinds = {"es": SearchLayout, "aes": SteadyLayout, "hts": RotationLayout}
    out = place / f"{method}-{seed}"
    shutil.rmtree(out, ignore_errors=True)
    points, tiny.POINTS[:] = list(tiny.POINTS), []
    try:
        train(config, layout=kinds[method](pool="inline", tensorboard=False), out=out)
    finally:
        tiny.POINTS[:] = points
    return content(out)
