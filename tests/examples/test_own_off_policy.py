"""SAC from outside the package: the promises of a method of our own, its formulas, and learning."""

import inspect
import math
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import own_off_policy
import pytest
import torch
from campaigns import FAULTS
from doubles import KillAt
from own_off_policy import SAC, Learner
from typed_commands import Terminal
from whole_runs import lasting_bytes, run_on

from drumline.api.foreign_code import TRUSTED
from drumline.api.run import Run, load, resume, train
from drumline.buffers.replay import Replay, ReplayWriter, one_episode
from drumline.commands.verify import verify_again
from drumline.policies.build import build_policy
from drumline.runs.checkpoint import checkpoint_numbers
from drumline.runs.folder import RunFolder
from drumline.runs.metrics import read_evaluations
from drumline.training.layout import StreamLayout
from drumline.training.stopped import Stopped
from drumline.types import State
from drumline.workers.transition_stream import Step, TransitionStream

INLINE = StreamLayout(pool="inline", tensorboard=False)
SMALL = SAC(
    env="Pendulum-v1",
    total_steps=240,
    steps_per_update=60,
    random_steps=150,
    replay_size=180,
    batch_size=16,
    hidden=(8,),
    evaluate_every=2,
    evaluate_episodes=2,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(SMALL, layout=INLINE, out=tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def expected(whole: Run) -> dict[str, bytes]:
    return lasting_bytes(whole.folder)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        *((name, 0, "must be above 0") for name in ("frame_skip", "evaluate_episodes")),
        *((name, 0, "must be above 0") for name in ("replay_size", "batch_size")),
        *((name, -1, "must be 0 or more") for name in ("random_steps", "evaluate_every")),
    ],
)
def test_what_cannot_work_is_refused_by_its_flag(field: str, value: int, words: str):
    changed: dict[str, Any] = {field: value}
    with pytest.raises(ValueError, match=f"^--{field.replace('_', '-')} {words}, got {value}$"):
        replace(SMALL, **changed)


def learner(seed: int = 0) -> Learner:
    """Return a learner over 100 transitions of made-up numbers."""
    recipe = replace(SMALL, seed=seed).build(INLINE)
    arrays = {name: np.zeros(*entry) for name, entry in recipe.shape.layout().items()}
    writer = ReplayWriter(Replay(recipe.shape, arrays))
    rng = np.random.default_rng(3)
    observations = rng.standard_normal((101, 3)).astype(np.float32)
    actions = rng.uniform(-2.0, 2.0, (100, 1)).astype(np.float32)
    writer.append(one_episode(observations, actions, rng.standard_normal(100), 1))
    return Learner(replace(SMALL, seed=seed), recipe.policy, writer.replay)


def taught(seed: int, steps: int) -> Learner:
    made = learner(seed)
    made.begin(0)
    for _ in range(steps):
        made.learn(100)
    return made


def test_the_method_is_one_file_of_at_most_200_lines():
    assert len(inspect.getsource(own_off_policy).splitlines()) <= 200


@FAULTS
def test_worker_processes_change_no_byte(tmp_path: Path, expected: dict[str, bytes]):
    run = train(SMALL, workers=2, out=tmp_path / "run")
    assert lasting_bytes(run.folder) == expected


@pytest.mark.faults
def test_a_killed_evaluator_changes_no_byte(tmp_path: Path, expected: dict[str, bytes]):
    probe = KillAt("episode-begun", tmp_path / "flag")
    folder = run_on(tmp_path / "run", SMALL, StreamLayout(workers=1, tensorboard=False), probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder) == expected


@pytest.mark.parametrize("update", [pytest.param(1, marks=FAULTS), 3])
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, expected: dict[str, bytes], update: int
):
    first = train(SMALL, layout=INLINE, out=tmp_path / "run", last_update=update)
    assert lasting_bytes(resume(first.folder, INLINE, trust=TRUSTED).folder) == expected


def test_a_run_stopped_within_a_block_goes_on_with_the_same_bits(
    tmp_path: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
):
    config, original, left = replace(SMALL, promise=False), TransitionStream.step, [190]

    def stopping(self: TransitionStream, random: bool) -> Step:
        left[0] -= 1
        if left[0] == 0:
            raise Stopped(signal.SIGINT)
        return original(self, random)

    with monkeypatch.context() as patch:
        patch.setattr(TransitionStream, "step", stopping)
        with pytest.raises(Stopped):
            train(config, layout=INLINE, out=tmp_path / "run")
    folder = load(tmp_path / "run").folder
    assert checkpoint_numbers(folder)[-1] == 3
    assert lasting_bytes(resume(folder, INLINE, trust=TRUSTED).folder) == expected


@FAULTS
def test_verify_repeats_a_run_on_another_layout(whole: Run):
    layout = StreamLayout(workers=1, tensorboard=False)
    assert verify_again(whole.folder, None, layout, TRUSTED) == (4, None)


def test_a_state_with_any_part_missing_is_refused():
    state = taught(0, 2).state()
    names = {"parameters", "target_critics", "adam_first", "adam_second", "gradient_steps"}
    assert {*state.tensors, *state.counters} == names
    for name in names:
        tensors = {k: v for k, v in state.tensors.items() if k != name}
        counters = {k: v for k, v in state.counters.items() if k != name}
        with pytest.raises(ValueError, match=name):
            learner().load(State(tensors, counters))


def test_a_loaded_learner_goes_on_with_the_same_bits():
    first, restored = taught(0, 5), taught(0, 2)
    restored.load(first.state())
    for each in (first, restored):
        each.begin(1)
        each.learn(100)
    assert restored.state().counters == first.state().counters
    for name, tensor in first.state().tensors.items():
        assert np.array_equal(tensor, restored.state().tensors[name])


def test_the_evaluated_policy_is_the_learners_at_its_mode():
    made = taught(0, 20)
    policy = build_policy(SMALL.build(INLINE).policy)
    policy.load_vector(made.actor)
    observations = np.random.default_rng(1).standard_normal((7, 3)).astype(np.float32)
    actions, _ = made._sample(torch.from_numpy(observations)[None], torch.zeros(1, 7, 1))
    taken = np.array([policy.act(observation) for observation in observations])
    np.testing.assert_allclose(taken, 2.0 * actions[0].detach().numpy(), rtol=1e-5, atol=1e-6)


def test_log_densities_are_those_of_a_squashed_normal_distribution():
    made = taught(0, 20)
    draws = torch.from_numpy(np.random.default_rng(2).standard_normal((1, 9, 4), np.float32))
    observations, noise = draws.split([3, 1], -1)
    actions, log_density = made._sample(observations, noise)
    output, action = made._actor(observations)[0].double(), actions[0, :, 0].double()
    mean, std = output[:, 0], output[:, 1].exp()
    normal = -0.5 * ((action.atanh() - mean) / std) ** 2 - (std * math.sqrt(2 * math.pi)).log()
    expected = normal - (1 - action**2).log()
    np.testing.assert_allclose(log_density.detach(), expected.detach(), rtol=1e-3, atol=1e-3)


def test_the_actors_loss_changes_no_critic():
    made, still = taught(0, 1), learner(0)
    still.begin(0)
    batch = still._draws.draw(100)
    taken = batch.actions / 2.0
    targets = still._target(batch, batch.noise[..., :1], torch.ones(())).expand(2, -1)
    values = own_off_policy._values(still._critics, batch.observations, taken)
    (values - targets).square().mean().backward()
    gradients = torch.cat([p.grad.reshape(-1) for p in still._critics.parameters()])
    # Adam's first step is the sign of the gradient, of the critics' own loss alone.
    moved = (made._critic_values - still._critic_values) / SMALL.learning_rate
    clear = gradients.abs() > 1e-5
    np.testing.assert_allclose(moved[clear], -gradients[clear].sign(), atol=1e-2)


def test_temperature_falls_while_the_entropy_is_above_its_target():
    made = taught(0, 30)
    metrics = made.metrics()
    assert set(metrics) == {"critic_loss", "policy_entropy_nats", "temperature"}
    assert metrics["policy_entropy_nats"] > -1.0
    assert made.state().tensor("parameters")[-1] == pytest.approx(-30e-3, rel=0.05)
    assert all(math.isnan(value) for value in learner().metrics().values())


def test_the_command_line_trains_evaluates_and_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(capfd)
    flags = ["--total-steps=40", "--steps-per-update=20", "--random-steps=20", "--batch-size=8"]
    flags += ["--hidden", "4", "--evaluate-episodes=1", "--pool=inline", "--no-tensorboard"]
    ended = terminal("train", "own_off_policy:SAC", "Pendulum-v1", "--out=run", "--quiet", *flags)
    assert ended.code == 0, ended.err
    document = RunFolder.open("run").document
    assert document["method"] == "own_off_policy:SAC"
    for more in ([], ["--sample"]):
        ended = terminal("evaluate", "run", "--episodes=1", "--trust-code", *more)
        assert ended.code == 0, ended.err
    ended = terminal("train", "own_off_policy:SAC", "CartPole-v1", "--quiet")
    assert ended.code == 2
    assert "discrete actions" in ended.err
    ended = terminal("train", "own_off_policy:SAC", "Pendulum-v1", "--batch-size=0")
    assert ended.code == 2
    assert "--batch-size must be above 0" in ended.err


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pendulum_is_learned_within_20_000_steps(tmp_path: Path, seed: int):
    run = train(SAC(env="Pendulum-v1", seed=seed), layout=INLINE, out=tmp_path / "run")
    assert read_evaluations(run.folder.evaluations_csv)[-1].mean >= -200.0
