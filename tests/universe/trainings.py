"""Small trainings that universes run, and what of their folders must be the same in every one."""

import csv
import io
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from drumline import AES, ARS, CEM, CEMRL, ES, HTS, PPO, TD3, train
from drumline.api.foreign_code import CodeTrust
from drumline.api.run import resume
from drumline.recipes.methods import method_of
from drumline.runs import policy_files, recorder, run_files
from drumline.runs.folder import RunFolder
from drumline.training.layout import LockstepLayout, RotationLayout
from drumline.training.rotation_run import RotationRun
from drumline.training.stream_run import StreamRun
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


def td3(rng: random.Random) -> Any:
    """TD3: the driver learns, and workers run the episodes of evaluations."""
    return TD3(
        "universe.tiny:continuous",
        seed=rng.randrange(3),
        total_steps=48,
        steps_per_update=12,
        random_steps=14,
        replay_size=40,
        hidden=(3,),
        batch_size=4,
        evaluate_every=2,
        evaluate_episodes=3,
    )


def ppo(rng: random.Random) -> Any:
    """PPO: four updates in lock-step."""
    return PPO(
        "universe.tiny:Tiny",
        seed=rng.randrange(3),
        total_steps=4 * 4 * 3,
        engine="gymnasium",
        num_envs=3,
        alpha=4,
        hidden=(3,),
        epochs=2,
        minibatches=2,
        evaluate_every=2,
        evaluate_episodes=2,
    )


def cem(rng: random.Random) -> Any:
    """CEM: four generations."""
    return CEM(
        "universe.tiny:continuous",
        seed=rng.randrange(3),
        total_steps=120,
        population_size=6,
        elites=3,
        hidden=(3,),
        evaluate_every=2,
        evaluate_episodes=2,
    )


def ars(rng: random.Random) -> Any:
    """ARS: four generations."""
    return ARS(
        "universe.tiny:continuous",
        seed=rng.randrange(3),
        total_steps=150,
        population_size=6,
        noise_table_size=5000,
        evaluate_every=2,
        evaluate_episodes=2,
    )


def cem_rl(rng: random.Random) -> Any:
    """CEM-RL: three generations, half of each refined."""
    return CEMRL(
        "universe.tiny:continuous",
        seed=rng.randrange(3),
        total_steps=80,
        hidden=(3,),
        warmup_steps=12,
        replay_size=200,
        batch_size=4,
        population_size=4,
        elites=2,
        refined_members=2,
        evaluate_every=2,
        evaluate_episodes=2,
    )


METHODS: dict[str, Callable[[random.Random], Any]] = {
    "es": es,
    "hts": hts,
    "aes": aes,
    "td3": td3,
    "ppo": ppo,
    "cem": cem,
    "ars": ars,
    "cem-rl": cem_rl,
}
WEIGHTS = (6, 6, 4, 1, 1, 1, 1, 1)
"""Shares of the methods; IMPALA has no promise, so there is nothing to compare its bytes with."""


def layout_of(method: str, rng: random.Random) -> Any:
    """Return a layout that must not matter."""
    every = {"tensorboard": False, "checkpoint_minutes": rng.choice([1e-6, 1e-4, 2.0])}
    workers = rng.randint(1, 3)
    if method == "hts":
        barrier: Any = rng.choice(["sliding", "hard"])
        actors = rng.choice([0, 1, 2])
        return RotationLayout(executors=workers, actors=actors, barrier=barrier, **every)
    if method == "ppo":
        halves: Any = rng.choice([1, 2])
        return LockstepLayout(executors=workers, halves=halves, **every)
    return _kind(method)(workers=workers, **every)


def _kind(method: str) -> Any:
    return method_of(METHODS[method](random.Random())).layout


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


@dataclass
class Whole:
    """Everything that a training without faults has ever had on its disk."""

    content: dict[str, bytes]
    """Files at its end, as `content` returns them."""
    states: set[tuple[int, str]] = field(default_factory=set)
    """Update and fingerprint of the learned state at every place where a checkpoint may lie."""
    policies: set[tuple[str, str]] = field(default_factory=set)
    """Name and digest of every policy."""
    segments: dict[str, bytes] = field(default_factory=dict)
    """Replay segments."""


@cache
def expected(method: str, seed: int, place: Path) -> Whole:
    """Return what the same training has on its disk without faults, in one process."""
    config = replace(METHODS[method](random.Random()), seed=seed)
    out = place / f"{method}-{seed}"
    shutil.rmtree(out, ignore_errors=True)
    whole = Whole({})
    write_checkpoint, write_policy = run_files.write_checkpoint, recorder.write_policy
    segment = run_files.RunFiles.segment

    def checkpoint_seen(folder: Any, update: int, state: Any, *rest: Any, **more: Any) -> str:
        fingerprint = write_checkpoint(folder, update, state, *rest, **more)
        whole.states.add((update, fingerprint))
        return fingerprint

    def policy_seen(folder: Any, name: str, tensors: Any, document: Any) -> None:
        write_policy(folder, name, tensors, document)
        whole.policies.add((name, policy_digest(tensors, document)))

    def segment_seen(files: Any, name: str, data: bytes) -> None:
        segment(files, name, data)
        whole.segments[name] = whole.segments.get(name, b"") + data

    def record_of(kind: Any) -> Callable[..., None]:
        record = kind._record

        def update_seen(training: Any, *recorded: Any) -> None:
            record(training, *recorded)
            training._checkpoint()  # where one lies after a stop in the wait for an evaluation

        return update_seen

    points, tiny.POINTS[:] = list(tiny.POINTS), []
    with (
        mock.patch.object(StreamRun, "_record", record_of(StreamRun)),
        mock.patch.object(RotationRun, "_record", record_of(RotationRun)),
        mock.patch.object(run_files, "write_checkpoint", checkpoint_seen),
        mock.patch.object(recorder, "write_policy", policy_seen),
        mock.patch.object(run_files.RunFiles, "segment", segment_seen),
        mock.patch.object(os, "fsync"),  # most of the time would be waits for the disk
    ):
        layout = _kind(method)(
            pool="inline",
            hang_seconds=1e6,  # real ones: a campaign in the background waits for processors
            creation_seconds=1e6,
            tensorboard=False,
            checkpoint_minutes=1e-9,
        )
        train(config, layout=layout, out=out)
    tiny.POINTS[:] = points
    whole.content = content(out)
    return whole


def policy_digest(tensors: Any, document: dict[str, Any]) -> str:
    """Return the digest of a policy's tensors and of the update that it is of."""
    return policy_files._digest(policy_files.storable(tensors), document)
