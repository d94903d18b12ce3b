"""Runs on a device: on the host's memory always, and on a GPU with `make test-gpu`.

One device, one set of bits: layouts, kills and resumes change none. Against the host there is
agreement to rounding.
"""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import doubles
import numpy as np
import pytest
from campaigns import FAULTS, cases
from device_examples import DEVICES, absent, near, skip_if_absent
from doubles import KillAt
from typed_commands import environ
from whole_runs import SMALL_CEM_RL, SMALL_ERL, SMALL_P_CEM_RL, lasting_bytes, run_on

from drumline.api.foreign_code import TRUSTED
from drumline.api.run import resume, train
from drumline.api.run_document import NO_PROMISE, ON_DEVICE
from drumline.functional.torch_devices import device_count, not_compared
from drumline.recipes.a2c import A2C
from drumline.recipes.aes import AES
from drumline.recipes.hts import HTS
from drumline.recipes.impala import Impala
from drumline.recipes.methods import method_of
from drumline.recipes.ppo import PPO
from drumline.recipes.td3 import TD3
from drumline.runs.folder import RunFolder
from drumline.runs.policy_files import read_policy
from drumline.training.layout import ActorLayout, LockstepLayout, RotationLayout

IMAGES: dict[str, Any] = {
    "env": "pixel_environment:make",
    "engine": "gymnasium",
    "network": "nature-cnn",
    "num_envs": 4,
    "alpha": 8,
    "total_steps": 160,
    "evaluate_every": 3,
    "evaluate_episodes": 2,
    "evaluate_max_steps": 20,
}
EPOCHS: dict[str, Any] = {"epochs": 2, "minibatches": 2}
ROWS: dict[str, Any] = {**IMAGES, "env": "CartPole-v1", "network": "mlp", "hidden": (8,)}
INTERVALS: dict[str, Any] = {
    "hts-ppo": HTS(**IMAGES, **EPOCHS),
    "hts-a2c": HTS(**IMAGES, learner="a2c"),
    "hts-mlp": HTS(**ROWS, **EPOCHS, normalize_observations=True, scale_rewards=True),
    "hts-float64": HTS(**{**ROWS, "env": "InvertedPendulum-v5"}, **EPOCHS),
    "ppo": PPO(**IMAGES, **EPOCHS),
    "a2c": A2C(**IMAGES),
}
STREAMS: dict[str, Any] = {
    "td3": TD3(
        env="InvertedPendulum-v5",
        total_steps=160,
        steps_per_update=20,
        random_steps=40,
        replay_size=120,
        batch_size=16,
        hidden=(8,),
        evaluate_every=3,
        evaluate_episodes=2,
    ),
    "aes": AES(
        env="InvertedPendulum-v5",
        total_steps=230,
        warmup_steps=40,
        replay_size=120,
        batch_size=16,
        hidden=(8,),
        concurrency=3,
        mean_evaluations=2,
        evaluate_every=4,
        evaluate_episodes=2,
    ),
    "cem-rl": SMALL_CEM_RL,
    "p-cem-rl": SMALL_P_CEM_RL,
    "erl": SMALL_ERL,
}
INTERVALS.update(STREAMS)
LOCKSTEP = [LockstepLayout(), LockstepLayout(executors=2, halves=2)]
ROTATION = [
    RotationLayout(pool="inline"),
    RotationLayout(executors=2, actors=2),
    RotationLayout(executors=3, actors=1, barrier="hard"),
]


def test_the_reason_to_skip_is_that_of_the_command():
    assert bool(absent()) == (device_count() == 0)


@pytest.fixture(params=DEVICES, scope="module")
def device(request: pytest.FixtureRequest) -> str:
    return skip_if_absent(request.param)


@pytest.fixture(scope="module")
def expected(device: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Bytes of each config's run in the first of its layouts, made once."""
    made: dict[str, dict[str, bytes]] = {}

    def of(name: str) -> dict[str, bytes]:
        if name not in made:
            out = tmp_path_factory.mktemp("expected") / name
            made[name] = bytes_of(run_on(out, on(name, device), layouts_of(name)[0]))
        return made[name]

    return of


def on(name: str, device: str) -> Any:
    """A config on a device, with what its start-up checks find there."""
    config = replace(INTERVALS[name], device=device)
    return method_of(config).resolved(config)


def layouts_of(name: str) -> list[Any]:
    if name in STREAMS:
        kind = method_of(INTERVALS[name]).layout
        return [kind(pool="inline"), kind(workers=2)]
    return LOCKSTEP if name in ("ppo", "a2c") else ROTATION


def bytes_of(folder: RunFolder) -> dict[str, bytes]:
    return lasting_bytes(folder)


@pytest.mark.parametrize(
    ("name", "layout"),
    cases(
        [(name, layout) for name in INTERVALS for layout in layouts_of(name)[1:]],
        quick=[("hts-ppo", ROTATION[1]), *((name, layouts_of(name)[1]) for name in ("td3", "aes"))],
    ),
    ids=lambda case: case if isinstance(case, str) else f"{getattr(case, 'executors', '')}",
)
def test_no_layout_changes_a_byte(
    tmp_path: Path, device: str, expected: Any, name: str, layout: Any
):
    folder = run_on(tmp_path / "run", on(name, device), layout)
    assert bytes_of(folder) == expected(name)


@pytest.mark.parametrize("name", cases(["hts-ppo", "ppo", *STREAMS], quick=["ppo", "td3"]))
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, device: str, expected: Any, name: str
):
    every = layouts_of(name)
    folder = run_on(tmp_path / "run", on(name, device), every[1], last_update=2)
    assert bytes_of(resume(folder, every[0], trust=TRUSTED).folder) == expected(name)


@FAULTS
@pytest.mark.parametrize("point", ["half-row", "half-answer"])
def test_a_role_that_is_killed_changes_no_byte(
    tmp_path: Path, device: str, expected: Any, point: str
):
    probe = KillAt(point, tmp_path / "flag")
    folder = run_on(tmp_path / "run", on("hts-ppo", device), ROTATION[1], probe)
    assert (tmp_path / "flag").exists()
    assert bytes_of(folder) == expected("hts-ppo")


@FAULTS
def test_a_driver_that_is_killed_goes_on_with_the_same_bits(
    tmp_path: Path, device: str, expected: Any
):
    code = (
        "import sys; from pathlib import Path\n"
        "from test_device_promise import ROTATION, on\n"
        "from whole_runs import run_on\n"
        "from dataclasses import replace\n"
        "layout = replace(ROTATION[1], checkpoint_minutes=1e-4)\n"
        "run_on(Path(sys.argv[1]), on('hts-ppo', sys.argv[2]), layout)"
    )
    out = tmp_path / "run"
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(out), device], env={**environ(), "PYTHONPATH": paths}
    )
    metrics = out / "metrics.csv"
    doubles.wait_until(
        lambda: (
            process.poll() is not None or (metrics.exists() and metrics.read_text().count("\n") > 2)
        )
    )
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL, "it had ended"
    folder = resume(RunFolder.open(out), ROTATION[0], trust=TRUSTED).folder
    assert bytes_of(folder) == expected("hts-ppo")


@pytest.mark.parametrize("name", ["hts-mlp", "hts-float64", "ppo"])
def test_the_first_update_agrees_with_the_host_to_rounding(tmp_path: Path, device: str, name: str):
    def first(where: str) -> np.ndarray:
        config = replace(INTERVALS[name], device=where, total_steps=32)
        folder = run_on(
            tmp_path / where[:4],
            method_of(config).resolved(config),
            LOCKSTEP[0] if name == "ppo" else ROTATION[0],
        )
        return read_policy(folder, "last").tensors["parameters"]

    near(first(device), first("cpu"), apart=2e-3)


def test_what_is_kept_says_what_it_promises_and_names_no_device_but_in_its_config(
    tmp_path: Path, device: str
):
    config = replace(INTERVALS["hts-mlp"], device=device, total_steps=64)
    run = train(config, workers="inline", out=tmp_path / "run")
    document = run.folder.document
    reason = not_compared(device)
    promise = f"{NO_PROMISE}: {reason}" if reason else ON_DEVICE
    assert document["promise"] == promise
    assert run.folder.card_md.read_text().startswith(promise)
    assert document["config"]["device"] == device
    assert document["machine"]["device"]
    policy = read_policy(run.folder, "last")
    assert b"cuda" not in run.folder.path.joinpath("policy-last.safetensors").read_bytes()
    assert all(isinstance(array, np.ndarray) for array in policy.tensors.values())


def test_a_free_running_learner_learns_on_the_device(tmp_path: Path, device: str):
    config = Impala(**IMAGES, batch=2, device=device)
    config = method_of(config).resolved(config)
    folder = run_on(tmp_path / "run", config, ActorLayout(executors=2))
    rows = folder.processes_csv.read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows].count("actor") == 1
