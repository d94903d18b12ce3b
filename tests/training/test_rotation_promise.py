"""The promise of executors, actors and a learner: what must not matter changes, bytes do not."""

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
import torch
from campaigns import FAULTS, cases
from doubles import KillAt, SleepAt
from whole_runs import run_on

from drumline.api.foreign_code import TRUSTED
from drumline.api.opened_runs import silent
from drumline.api.run import resume, train
from drumline.commands.verify import verify_again
from drumline.errors import ImpureEnvironment, WorkerError
from drumline.recipes.hts import HTS
from drumline.runs.checkpoint import checkpoint_numbers, read_checkpoint
from drumline.runs.folder import RunFolder
from drumline.training.layout import RotationLayout
from drumline.training.run_request import RunRequest

PPO = HTS(
    env="CartPole-v1",
    engine="gymnasium",
    total_steps=600,
    num_envs=5,
    alpha=12,
    epochs=2,
    minibatches=3,
    hidden=(8,),
    normalize_observations=True,
    scale_rewards=True,
    evaluate_every=3,
    evaluate_episodes=2,
)
A2C = replace(PPO, learner="a2c", alpha=5, entropy_coefficient=0.01)
OWN = replace(PPO, normalize_observations=False)
RENEWED = replace(PPO, engine="envpool", renew_intervals=3)
CONFIGS = {"ppo": PPO, "a2c": A2C, "envpool": RENEWED}
LASTING = ("fingerprints.csv", "episodes.csv", "evaluations.csv", "policy-last.safetensors")


def lasting_bytes(folder: Path) -> dict[str, bytes]:
    """Everything in a run folder that wall-clock time has no part in."""
    return {name: (folder / name).read_bytes() for name in LASTING}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    out = tmp_path_factory.mktemp("expected")
    return {
        name: lasting_bytes(train(config, workers="inline", out=out / name).path)
        for name, config in CONFIGS.items()
    }


LAYOUTS = [
    RotationLayout(pool="inline", executors=3, actors=2, barrier="hard"),
    RotationLayout(executors=2, actors=2, engine_threads=2),
    RotationLayout(executors=1),
    RotationLayout(executors=2, barrier="hard"),
    RotationLayout(executors=4, actors=1),
]
QUICK = [*((name, LAYOUTS[0]) for name in CONFIGS), ("ppo", LAYOUTS[1])]


def on_layouts(name: str) -> list[Any]:
    # EnvPool takes as long to import as the run itself: a process of each role is enough here.
    later = {"marks": pytest.mark.slow} if name == "envpool" else {"marks": FAULTS}
    return [
        pytest.param(
            name,
            layout,
            id=f"{name}-{layout.pool}-{layout.executors}-{layout.actors}-{layout.barrier}",
            **({} if (name, layout) in QUICK else {"marks": FAULTS} if number == 1 else later),
        )
        for number, layout in enumerate(LAYOUTS)
    ]


@pytest.mark.parametrize(
    ("name", "layout"), [case for name in CONFIGS for case in on_layouts(name)]
)
def test_no_layout_changes_a_byte(tmp_path: Path, expected: Any, name: str, layout: Any):
    folder = run_on(tmp_path / "run", CONFIGS[name], layout)
    assert lasting_bytes(folder.path) == expected[name]
    rows = [row.split(",") for row in folder.processes_csv.read_text().splitlines()[1:]]
    roles = [row[0] for row in rows]
    assert roles.count("executor") == layout.executors
    assert roles.count("actor") == layout.actors
    # A quick evaluator may run every episode alone, but the others own what they do.
    assert all(int(row[4]) > 0 for row in rows if row[0] != "evaluator")
    assert sum(int(row[4]) for row in rows if row[0] == "evaluator") > 0


@FAULTS
@pytest.mark.parametrize("config", [PPO, A2C], ids=["ppo", "a2c"])
def test_half_precision_has_the_same_bytes_on_any_layout(tmp_path: Path, config: HTS):
    half = replace(config, precision="bf16", total_steps=240)
    inline = train(half, workers="inline", out=tmp_path / "inline").path
    spread = run_on(tmp_path / "spread", half, RotationLayout(executors=3, actors=1)).path
    whole = train(replace(half, precision="fp32"), workers="inline", out=tmp_path / "whole").path
    assert lasting_bytes(spread) == lasting_bytes(inline)
    assert lasting_bytes(inline) != lasting_bytes(whole)


@pytest.mark.parametrize(
    ("point", "actors"),
    cases(
        [("before-step", 0), ("half-row", 0), ("first-row-written", 0), ("half-answer", 1)],
        quick=[("half-row", 0)],
    ),
)
def test_a_role_killed_in_a_whole_run_changes_no_byte(
    tmp_path: Path, expected: Any, point: str, actors: int
):
    probe = KillAt(point, tmp_path / "flag")
    layout = RotationLayout(executors=2, actors=actors)
    folder = run_on(tmp_path / "run", PPO, layout, probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder.path) == expected["ppo"]
    assert any(row.endswith(",1") for row in folder.processes_csv.read_text().splitlines())


@FAULTS
def test_random_sleeps_change_no_byte(tmp_path: Path, expected: Any):
    probe = SleepAt(("before-step", "request-received"), 0.003)
    layout = RotationLayout(executors=3, actors=1)
    assert lasting_bytes(run_on(tmp_path / "run", A2C, layout, probe).path) == expected["a2c"]


@pytest.mark.parametrize("name", cases(CONFIGS, quick=["ppo"]))
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, expected: Any, name: str):
    layout = RotationLayout(executors=2)
    folder = run_on(tmp_path / "run", CONFIGS[name], layout, last_update=5)
    # As a kill leaves it: the final evaluation of the shorter run is no part of the longer one.
    again = resume(folder, RotationLayout(pool="inline"), trust=TRUSTED)
    assert lasting_bytes(again.path) == expected[name]


@pytest.mark.parametrize("config", cases([PPO, A2C], quick=[PPO]), ids=["ppo", "a2c"])
def test_the_schedules_of_a_resumed_run_go_on_where_they_were(
    tmp_path: Path, expected: Any, config: HTS
):
    scheduled = replace(
        config, entropy_coefficient=0.01, final_entropy_coefficient=0.1, anneal_clip=True
    )
    whole = lasting_bytes(train(scheduled, workers="inline", out=tmp_path / "whole").path)
    layout = RotationLayout(pool="inline", executors=2)
    folder = run_on(tmp_path / "run", scheduled, layout, last_update=5)
    assert lasting_bytes(resume(folder, RotationLayout(pool="inline"), trust=TRUSTED).path) == whole
    assert whole != expected[config.learner]


STOPPED = HTS(
    env="CartPole-v1",
    total_steps=12_288,
    num_envs=4,
    alpha=32,
    minibatches=4,
    epochs=2,
    renew_intervals=4,
    evaluate_every=6,
    evaluate_episodes=2,
)


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("whole") / "run"
    return lasting_bytes(train(STOPPED, workers="inline", out=out).path)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=FAULTS),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_a_run_stopped_by_a_signal_goes_on_with_the_same_bits(
    tmp_path: Path, never_stopped: dict[str, bytes], number: int
):
    out = tmp_path / "stopped"
    flags = [
        f"--total-steps={STOPPED.total_steps}",
        "--num-envs=4",
        "--learning-rate=3e-4",
        "--minibatches=4",
        "--epochs=2",
        "--renew-intervals=4",
        "--evaluate-every=6",
        "--evaluate-episodes=2",
        "--checkpoint-minutes=0.001",
        "--quiet",
        f"--out={out}",
    ]
    command = [sys.executable, "-m", "drumline", "train", "hts", STOPPED.env, *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    metrics = out / "metrics.csv"
    doubles.wait_until(
        lambda: (
            process.poll() is not None
            or (metrics.exists() and metrics.read_text().count("\n") >= 10)
        )
    )
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (128 + number if number != signal.SIGKILL else -number), errors
    resume(RunFolder.open(out), RotationLayout(executors=1, actors=1), trust=TRUSTED)
    assert lasting_bytes(out) == never_stopped


def test_every_tensor_and_counter_of_a_checkpoint_is_needed(tmp_path: Path):
    from drumline.training.ledger import learned
    from drumline.types import State

    config = replace(RENEWED, total_steps=240, evaluate_every=1)
    folder = run_on(tmp_path / "run", config, RotationLayout(pool="inline"))
    saved = learned(read_checkpoint(folder, checkpoint_numbers(folder)[-1]))
    layout = RotationLayout(pool="inline")

    def take_over(state: State) -> None:
        config.build(layout).opened(RunRequest(folder, layout, silent()))._take_over(state)

    take_over(saved)
    for name in saved.tensors:
        rest = {key: value for key, value in saved.tensors.items() if key != name}
        with pytest.raises(ValueError, match=name):
            take_over(State(rest, saved.counters))
    for name in saved.counters:
        rest = {key: value for key, value in saved.counters.items() if key != name}
        with pytest.raises(ValueError, match=name):
            take_over(State(saved.tensors, rest))


def test_an_environment_with_hidden_state_is_caught(tmp_path: Path):
    config = replace(PPO, env="impure_environment:HiddenState")
    with pytest.raises(ImpureEnvironment, match="hidden state"):
        train(config, workers="inline", out=tmp_path / "run")


@FAULTS
def test_verify_repeats_the_first_updates_under_the_same_schedules(tmp_path: Path):
    run = train(PPO, workers="inline", out=tmp_path / "run")
    layout = RotationLayout(executors=2, actors=1, tensorboard=False)
    assert verify_again(run.folder, 4, layout, TRUSTED) == (4, None)


def test_a_saved_policy_acts_alone(tmp_path: Path):
    run = train(PPO, workers="inline", out=tmp_path / "run")
    assert run.policy.act(np.array([0.1, 0.0, -0.1, 0.0])) in (0, 1)
    assert len(run.evaluate(episodes=2).returns) == 2


@pytest.mark.parametrize(
    ("env", "what"),
    [("NaNReward", "reward of environment 0 at step 2"), ("NaNObservation", "observation of")],
)
def test_numbers_that_are_not_finite_are_named_and_leave_a_resumable_state(
    tmp_path: Path, env: str, what: str
):
    config = replace(PPO, env=f"impure_environment:{env}", engine="gymnasium")
    with pytest.raises(FloatingPointError, match=f"the {what}.* of interval 0 is"):
        train(config, workers="inline", out=tmp_path / "run")
    assert read_checkpoint(RunFolder.open(tmp_path / "run"), None).update == 0


def test_an_environment_that_raises_names_itself_and_its_step(tmp_path: Path):
    config = replace(PPO, env="impure_environment:Collapsing")
    for layout in (RotationLayout(pool="inline"), RotationLayout(executors=1)):
        with pytest.raises(WorkerError, match=r"environment \d of .*env step \d+") as caught:
            run_on(tmp_path / layout.pool, config, layout)
        assert "the cart fell off the table" in str(caught.value)
        assert read_checkpoint(RunFolder.open(tmp_path / layout.pool), None).update >= 0


@FAULTS
def test_nothing_is_left_behind(tmp_path: Path):
    before = set(os.listdir("/dev/shm"))
    folder = run_on(tmp_path / "run", PPO, RotationLayout(executors=2, actors=1))
    pids = [int(row.split(",")[2]) for row in folder.processes_csv.read_text().splitlines()[1:]]
    assert len(pids) == 6  # one evaluator for each executor
    assert not any(doubles.is_running(pid) for pid in pids if pid != os.getpid())
    assert set(os.listdir("/dev/shm")) <= before


def test_the_lag_is_one_policy_and_the_gradient_steps_of_one_update(tmp_path: Path):
    for config, steps in ((PPO, 6), (A2C, 1)):
        for lag in (0, 1):
            ran = replace(config, lag=lag, total_steps=5 * config.steps_per_update)
            metrics = train(ran, workers="inline", out=tmp_path / f"{steps}-{lag}").metrics
            assert [row["policy_lag"] for row in metrics] == [lag] * 5
            assert [row["policy_lag_max"] for row in metrics] == [lag] * 5
            found = [row["gradient_step_lag"] for row in metrics]
            # The intervals of versions 0 and 1 fill the moments: nothing is learned from them.
            assert found == [0, 0, 0, lag * steps, lag * steps]


@pytest.mark.parametrize("lag", [1, 0])
@pytest.mark.parametrize("barrier", ["sliding", "hard"])
@pytest.mark.parametrize("layout", ["inline", "one executor", "an actor"])
def test_no_environment_steps_beyond_the_last_interval(
    tmp_path: Path, lag: Any, barrier: Any, layout: str
):
    layouts = {
        "inline": RotationLayout(pool="inline"),
        "one executor": RotationLayout(executors=1),
        "an actor": RotationLayout(executors=2, actors=1),
    }
    config = replace(
        PPO,
        env="faulty_environments:Finite",
        env_kwargs='{"limit": 36}',
        total_steps=120,
        num_envs=2,
        lag=lag,
        promise=False,
        evaluate_every=0,
        evaluate_max_steps=5,
    )
    given = replace(layouts[layout], barrier=barrier)
    run = train(config, layout=given, out=tmp_path / "run", last_update=3)
    assert len(run.metrics) == 3


@pytest.mark.parametrize(
    ("config", "alike"),
    [
        (replace(OWN, network="actor_critic_networks:RandomFeatures"), None),
        (
            replace(OWN, network="actor_critic_networks:DoublesInPlace"),
            replace(OWN, network="actor_critic_networks:Doubles"),
        ),
        (
            replace(OWN, learner="a2c", network="actor_critic_networks:DoublesInPlace"),
            replace(OWN, learner="a2c", network="actor_critic_networks:Doubles"),
        ),
    ],
)
def test_what_a_network_draws_or_writes_beside_its_parameters_changes_no_bit(
    tmp_path: Path, config: HTS, alike: HTS | None
):
    ones = train(config, workers="inline", out=tmp_path / "one").path
    torch.rand(3)
    others = train(alike or config, layout=RotationLayout(executors=2), out=tmp_path / "other").path
    for name in ("fingerprints.csv", "episodes.csv", "evaluations.csv"):
        assert (ones / name).read_bytes() == (others / name).read_bytes(), name
