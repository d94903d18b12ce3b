"""TD3's promise: layouts, stops and resumes change no byte; and what it refuses."""

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import FAULTS, cases
from threadpoolctl import threadpool_limits

from drumline.api.foreign_code import TRUSTED
from drumline.api.opened_runs import silent
from drumline.api.run import Run, load, resume, train
from drumline.commands.verify import verify_again
from drumline.display.dashboard import choose_display
from drumline.errors import ImpureEnvironment
from drumline.recipes.td3 import TD3
from drumline.runs.checkpoint import Checkpoint, checkpoint_numbers, read_checkpoint
from drumline.runs.folder import RunError
from drumline.runs.segments import segments_there
from drumline.training.layout import Layout
from drumline.training.run_request import RunRequest
from drumline.training.stopped import Stopped
from drumline.training.stream_run import StreamRun
from drumline.types import State
from drumline.workers.transition_stream import Step, TransitionStream

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

INLINE = Layout(pool="inline", tensorboard=False)
CONTINUOUS = TD3(
    env="Pendulum-v1",
    total_steps=240,
    steps_per_update=40,
    random_steps=60,
    replay_size=150,
    batch_size=16,
    hidden=(8,),
    evaluate_every=2,
    evaluate_episodes=2,
)
DISCRETE = replace(CONTINUOUS, env="CartPole-v1", hidden=(8, 4))
DDPG = replace(CONTINUOUS, critics=1, target_noise=0.0, policy_delay=1, activation="tanh")
CONFIGS = {"continuous": CONTINUOUS, "discrete": DISCRETE, "ddpg": DDPG}
LASTING = ("fingerprints.csv", "episodes.csv", "evaluations.csv", "policy-last.safetensors")


def lasting_bytes(run: Run) -> dict[str, bytes]:
    """Everything in a run folder that wall-clock time has no part in, the replay included."""
    names = [name for name in LASTING if (run.path / name).exists()]
    return {n: (run.path / n).read_bytes() for n in (*names, *segments_there(run.folder))}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    out = tmp_path_factory.mktemp("expected")
    return {
        name: lasting_bytes(train(config, layout=INLINE, out=out / name))
        for name, config in CONFIGS.items()
    }


def test_two_runs_are_equal_and_another_seed_is_not(tmp_path: Path, expected):
    again = train(CONTINUOUS, layout=INLINE, out=tmp_path / "again")
    assert lasting_bytes(again) == expected["continuous"]
    other = train(replace(CONTINUOUS, seed=1), layout=INLINE, out=tmp_path / "other")
    assert lasting_bytes(other)["fingerprints.csv"] != expected["continuous"]["fingerprints.csv"]


@pytest.mark.parametrize("workers", cases([1, 2], quick=[1]))
def test_the_number_of_workers_changes_no_byte(tmp_path: Path, expected, workers: int):
    run = train(CONTINUOUS, workers=workers, out=tmp_path / "run")
    assert lasting_bytes(run) == expected["continuous"]
    rows = [row.split(",") for row in run.folder.processes_csv.read_text().splitlines()[1:]]
    evaluated = [int(row[3]) for row in rows if row[0] == "evaluator"]
    assert len(evaluated) == workers
    # The first worker to start may take every episode of so few.
    assert sum(evaluated) == 3 * CONTINUOUS.evaluate_episodes


@pytest.mark.parametrize(
    ("name", "update"),
    cases(
        product(CONFIGS, [0, 1, 2, 5]),
        quick=[("continuous", 1), ("continuous", 5), ("discrete", 2), ("ddpg", 5)],
    ),
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, expected, name: str, update: int
):
    first = train(CONFIGS[name], layout=INLINE, out=tmp_path / "run", last_update=update)
    assert lasting_bytes(resume(first.folder, INLINE, trust=TRUSTED)) == expected[name]


@FAULTS
def test_a_resume_steps_the_running_episode_again_with_the_threads_of_the_run(tmp_path: Path):
    env, steps = "thread_counts:CountsThreads", {"total_steps": 64, "steps_per_update": 32}
    config = replace(CONTINUOUS, env=env, **steps)
    with threadpool_limits(2, "blas"):
        whole = train(config, layout=INLINE, out=tmp_path / "whole")
        first = train(config, layout=INLINE, out=tmp_path / "run", last_update=1)
        assert lasting_bytes(resume(first.folder, INLINE, trust=TRUSTED)) == lasting_bytes(whole)


def test_a_run_resumed_after_every_update_equals_an_uninterrupted_one(tmp_path: Path, expected):
    config = CONTINUOUS
    run = train(replace(config, total_steps=40), layout=INLINE, out=tmp_path / "run")
    for update in range(2, config.updates + 1):
        run = resume(run.folder, INLINE, total_steps=40 * update, trust=TRUSTED)
    # A run that ends evaluates: those evaluations are no part of the longer one.
    assert lasting_bytes(run) == expected["continuous"]


class StopsAt:
    """Raises in the n-th step of the process, or in the n-th call of anything."""

    def __init__(self, original: Callable[..., Any], count: int):
        self._original, self._left = original, count

    def __call__(self, *arguments: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            raise Stopped(signal.SIGINT)
        return self._original(*arguments)


@pytest.mark.parametrize("step", cases([1, 39, 41, 100, 239], quick=[39, 100]))
def test_a_run_stopped_at_any_step_goes_on_with_the_same_bits(
    tmp_path: Path, expected, step: int, monkeypatch: pytest.MonkeyPatch
):
    config = replace(CONTINUOUS, promise=False)
    stops = StopsAt(TransitionStream.step, step)

    def stopping(self: TransitionStream, random: bool) -> Step:
        return stops(self, random)

    with monkeypatch.context() as patch:
        patch.setattr(TransitionStream, "step", stopping)
        with pytest.raises(Stopped):
            train(config, layout=INLINE, out=tmp_path / "run")
    assert checkpoint_numbers(load(tmp_path / "run").folder)[-1] == (step - 1) // 40
    assert (
        lasting_bytes(resume(load(tmp_path / "run").folder, INLINE, trust=TRUSTED))
        == expected["continuous"]
    )


@pytest.mark.parametrize("evaluation", cases([1, 2, 3], quick=[2]))
def test_a_run_stopped_in_an_evaluation_makes_it_again(
    tmp_path: Path, expected, evaluation: int, monkeypatch: pytest.MonkeyPatch
):
    stops = StopsAt(StreamRun._evaluate, evaluation)  # pyright: ignore[reportPrivateUsage]
    with monkeypatch.context() as patch:
        patch.setattr(StreamRun, "_evaluate", lambda self, pool: stops(self, pool))
        with pytest.raises(Stopped):
            train(CONTINUOUS, layout=INLINE, out=tmp_path / "run")
    assert (
        lasting_bytes(resume(load(tmp_path / "run").folder, INLINE, trust=TRUSTED))
        == expected["continuous"]
    )


def test_the_replay_content_is_part_of_the_chain(tmp_path: Path):
    run = train(CONTINUOUS, layout=INLINE, out=tmp_path / "run", last_update=2)
    header = run.folder.fingerprints_csv.read_text().splitlines()[0]
    assert {"parameters", "critics", "replay"} <= set(header.split(","))


def test_a_checkpoint_with_any_part_missing_is_refused(tmp_path: Path):
    config = CONTINUOUS
    run = train(config, layout=INLINE, out=tmp_path / "run", last_update=2)
    saved = read_checkpoint(run.folder)
    for name in (*saved.state.tensors, *saved.state.counters):
        with pytest.raises(ValueError, match=name):
            resumed(config, run, replace(saved, state=without(saved.state, name)))


def without(state: State, name: str) -> State:
    return State(
        {k: v for k, v in state.tensors.items() if k != name},
        {k: v for k, v in state.counters.items() if k != name},
    )


def resumed(config: TD3, run: Run, checkpoint: Checkpoint) -> StreamRun:
    recipe = config.build(INLINE)
    return StreamRun(recipe, RunRequest(run.folder, INLINE, silent(), resumed_from=checkpoint))


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_damaged_replay_is_named_before_anything_is_changed(tmp_path: Path, damage: str):
    run = train(CONTINUOUS, layout=INLINE, out=tmp_path / "run", last_update=2)
    path = run.path / "replay" / "000000"
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(bytes(data) if damage == "flip" else bytes(data[:-1]))
    with pytest.raises(RunError, match="replay/000000"):
        resume(run.folder, INLINE, trust=TRUSTED)


def test_episodes_of_a_single_stream_do_not_stand_alone(tmp_path: Path):
    run = train(CONTINUOUS, layout=INLINE, out=tmp_path / "run", last_update=1)
    with pytest.raises(RunError, match=r"is a run of td3, .* try drumline evaluate"):
        run.episode(0)


def test_a_shown_run_has_the_same_bits(tmp_path: Path, expected, capsys):
    display = choose_display(sys.stderr, quiet=False, json=True, environ={})
    display.due = lambda: True  # pyright: ignore[reportAttributeAccessIssue]
    run = train(CONTINUOUS, layout=INLINE, out=tmp_path / "run", display=display)
    assert lasting_bytes(run) == expected["continuous"]
    assert '"method": "td3"' in capsys.readouterr().err


def test_verify_repeats_a_run_on_another_layout(tmp_path: Path):
    run = train(CONTINUOUS, layout=INLINE, out=tmp_path / "run")
    assert verify_again(run.folder, 4, Layout(workers=2, tensorboard=False), TRUSTED) == (4, None)


def test_a_saved_policy_is_evaluated_as_it_was_in_training(tmp_path: Path):
    run = train(DISCRETE, layout=INLINE, out=tmp_path / "run")
    assert run.evaluate(3).returns == run.evaluate(3).returns
    observation = np.array([0.01, 0.02, -0.01, 0.03], np.float32)
    assert run.policy.act(observation) in (0, 1)


def test_an_environment_with_hidden_state_is_caught(tmp_path: Path):
    config = replace(CONTINUOUS, env="impure_environment:HiddenState")
    with pytest.raises(ImpureEnvironment, match="hidden state"):
        train(config, layout=INLINE, out=tmp_path / "run")


def test_a_failing_environment_leaves_a_checkpoint_to_go_on_from(tmp_path: Path):
    config = replace(CONTINUOUS, env="impure_environment:NaNReward")
    with pytest.raises(FloatingPointError, match="not finite"):
        train(config, layout=INLINE, out=tmp_path / "run")
    assert checkpoint_numbers(load(tmp_path / "run").folder) == [0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"replay_size": 10}, "--replay-size 10 is smaller than --batch-size 16"),
        ({"discount": 1.5}, r"--discount must be in \[0, 1\], got 1.5"),
        ({"polyak": -0.1}, r"--polyak must be in \[0, 1\]"),
        ({"target_noise": -1.0}, "--target-noise must be 0 or more"),
        ({"batch_size": 0}, "--batch-size must be above 0"),
        ({"hidden": ()}, "--hidden needs layers"),
    ],
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        replace(CONTINUOUS, **fields)


def test_a_replay_that_the_machine_cannot_hold_says_how_much_is_needed(tmp_path: Path):
    config = replace(CONTINUOUS, replay_size=10**12, total_steps=10**12)
    with pytest.raises(ValueError, match=r"need .*, but only .* available.*--replay-size"):
        train(config, layout=INLINE, out=tmp_path / "run")


@pytest.mark.filterwarnings("ignore:builtin type .* has no __module__:DeprecationWarning")  # Box2D
@pytest.mark.parametrize("env", cases(sorted(TD3.PRESETS), quick=["HalfCheetah-v5"]))
def test_every_preset_learns_for_some_steps(env: str, tmp_path: Path):
    fields = {
        **TD3.PRESETS[env],
        "total_steps": 30,
        "steps_per_update": 10,
        "random_steps": 15,
        "evaluate_every": 0,
        "evaluate_episodes": 1,
        "promise": False,
    }
    run = train(TD3(env=env, **fields), layout=INLINE, out=tmp_path / "run")
    assert [row["gradient_steps"] for row in run.metrics] == [0.0, 5.0, 15.0]


@pytest.mark.parametrize(
    "fields",
    cases(
        [
            {"precision": "bf16"},
            {"critic_activation": "leaky-relu"},
            {"scale_target_noise": False},
            {"frame_skip": 2},
            {"replay_size": 16},
        ],
        quick=[{"precision": "bf16"}, {"replay_size": 16}],
    ),
)
def test_options_keep_their_bits_through_a_resume(tmp_path: Path, fields: dict[str, Any]):
    base = replace(CONTINUOUS, total_steps=160)
    plain = train(base, layout=INLINE, out=tmp_path / "plain")
    config = replace(base, **fields)
    whole = train(config, layout=INLINE, out=tmp_path / "whole")
    first = train(config, layout=INLINE, out=tmp_path / "run", last_update=2)
    assert lasting_bytes(resume(first.folder, INLINE, trust=TRUSTED)) == lasting_bytes(whole)
    assert lasting_bytes(whole) != lasting_bytes(plain)


def test_going_on_with_a_finished_run_keeps_what_its_last_policy_was_worth(tmp_path: Path):
    run = train(CONTINUOUS, layout=INLINE, out=tmp_path / "run")
    before = (run.path / "policy-last.json").read_bytes()
    assert json.loads(before)["evaluation_mean"] is not None
    resume(run.folder, INLINE, trust=TRUSTED)
    assert (run.path / "policy-last.json").read_bytes() == before
