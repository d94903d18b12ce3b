"""A loss of one's own, from outside the package: its derivatives, its promise, its commands."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from doubles import KillAt
from own_loss import KLPenaltyPPO, kl_penalty_loss, loss_of
from typed_commands import Terminal, environ
from whole_runs import lasting_bytes, run_on

from drumline.api.foreign_code import TRUSTED
from drumline.api.run import resume, train
from drumline.functional.losses import LossRows
from drumline.recipes.hts import HTS
from drumline.runs.folder import RunFolder
from drumline.runs.metrics import read_evaluations
from drumline.training.layout import RotationLayout

INLINE = RotationLayout(pool="inline", tensorboard=False)
SMALL = KLPenaltyPPO(
    env="CartPole-v1",
    engine="gymnasium",
    total_steps=480,
    num_envs=4,
    alpha=12,
    epochs=2,
    minibatches=3,
    hidden=(8,),
    entropy_coefficient=0.01,
    evaluate_every=4,
    evaluate_episodes=2,
)
COEFFICIENTS = {"value_coefficient": 0.7, "entropy_coefficient": 0.03}


def drawn(count: int = 9) -> LossRows:
    columns = np.random.default_rng(3).standard_normal((7, count)).astype(np.float32)
    columns[1] = columns[0] + 0.3 * columns[1]
    return LossRows(*columns)


def slow_loss(rows: LossRows, divisor: int, kl_penalty: float) -> float:
    total = 0.0
    for log_prob, old_log_prob, entropy, value, _, advantage, target in np.transpose(rows):
        ratio = np.exp(log_prob - old_log_prob)
        penalty = (ratio - 1) - np.log(ratio)
        total += -ratio * advantage + kl_penalty * penalty
        total += 0.7 * 0.5 * (value - target) ** 2 - 0.03 * entropy
    return total / divisor


@pytest.mark.parametrize("kl_penalty", [0.0, 3.0])
def test_derivatives_are_finite_differences_of_a_slow_loop(kl_penalty: float):
    terms = kl_penalty_loss(drawn(), 12, kl_penalty=kl_penalty, **COEFFICIENTS)
    rows = LossRows(*(column.astype(np.float64) for column in drawn()))
    found = {
        "log_probs": terms.d_log_probs,
        "values": terms.d_values,
        "entropies": np.full(9, terms.d_entropies),
    }
    for name, derivatives in found.items():
        assert derivatives.dtype == np.float32
        for row in range(9):
            step = 1e-5 * (np.arange(9) == row)
            ahead, behind = (
                slow_loss(
                    rows._replace(**{name: getattr(rows, name) + sign * step}), 12, kl_penalty
                )
                for sign in (1, -1)
            )
            expected = (ahead - behind) / 2e-5
            assert derivatives[row] == pytest.approx(expected, rel=1e-3, abs=1e-6), (name, row)


def test_metrics_are_the_parts_of_the_loss():
    rows = drawn()
    metrics = kl_penalty_loss(rows, 12, kl_penalty=3.0, **COEFFICIENTS).metrics
    entropy = float(rows.entropies.sum()) / 12
    total = metrics["policy_loss"] + 0.7 * metrics["value_loss"] - 0.03 * entropy
    assert total == pytest.approx(slow_loss(rows, 12, 3.0), rel=1e-5)


def test_rows_that_have_not_moved_pay_no_penalty():
    rows = drawn()
    rows = rows._replace(old_log_probs=rows.log_probs)
    free, paying = (
        kl_penalty_loss(rows, 9, kl_penalty=kl_penalty, **COEFFICIENTS) for kl_penalty in (0.0, 3.0)
    )
    assert free.metrics == paying.metrics
    assert np.array_equal(free.d_log_probs, paying.d_log_probs)


def test_the_entropy_bonus_follows_its_schedule():
    config = replace(SMALL, final_entropy_coefficient=0.0)
    first, later = (loss_of(config)(interval)(drawn(), 9) for interval in (0, 5))
    assert later.d_entropies == pytest.approx(float(first.d_entropies) / 2)


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"kl_penalty": -1.0}, "--kl-penalty must be 0 or more, got -1.0"),
        ({"kl_penalty": float("nan")}, "--kl-penalty must be a finite number"),
        ({"learner": "a2c"}, "--learner must be ppo"),
        ({"minibatches": 7}, "--minibatches 7 must divide"),
    ],
)
def test_unusable_values_are_refused(wrong: dict[str, object], refusal: str):
    with pytest.raises(ValueError, match=refusal):
        replace(SMALL, **wrong)


def test_importing_the_example_does_not_import_torch():
    script = "import sys, own_loss; sys.exit('torch' in sys.modules)"
    examples = str(Path(__file__).resolve().parents[2] / "examples")
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, cwd=examples, env=environ(), timeout=60).returncode == 0


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("expected") / "run"
    return lasting_bytes(train(SMALL, layout=INLINE, out=out).folder)


@pytest.mark.faults
def test_a_killed_executor_of_two_changes_no_byte(tmp_path: Path, expected: dict[str, bytes]):
    probe = KillAt("half-row", tmp_path / "flag")
    folder = run_on(tmp_path / "run", SMALL, RotationLayout(executors=2), probe)
    assert (tmp_path / "flag").exists()
    assert any(row.endswith(",1") for row in folder.processes_csv.read_text().splitlines())
    assert lasting_bytes(folder) == expected


def test_a_run_resumed_on_another_layout_equals_an_uninterrupted_one(
    tmp_path: Path, expected: dict[str, bytes]
):
    layout = RotationLayout(pool="inline", executors=3, actors=2, barrier="hard")
    folder = run_on(tmp_path / "run", SMALL, layout, last_update=5)
    assert lasting_bytes(resume(folder, INLINE, trust=TRUSTED).folder) == expected


def test_the_penalty_and_the_loss_reach_the_learner(tmp_path: Path, expected: dict[str, bytes]):
    fields = {name: value for name, value in vars(SMALL).items() if name != "kl_penalty"}
    for number, config in enumerate([replace(SMALL, kl_penalty=0.0), HTS(**fields)]):
        run = train(config, layout=INLINE, out=tmp_path / str(number))
        assert lasting_bytes(run.folder)["fingerprints.csv"] != expected["fingerprints.csv"]
    unmoved = train(replace(SMALL, clip=0.01), layout=INLINE, out=tmp_path / "clip")
    assert lasting_bytes(unmoved.folder) == expected


def test_the_commands_take_it_as_one_of_drumlines_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(capfd)
    typed = ["--engine=gymnasium", "--total-steps=240", "--num-envs=4", "--alpha=12"]
    typed += ["--epochs=2", "--hidden", "4", "--renew-intervals=0", "--evaluate-episodes=1"]
    typed += ["--pool=inline", "--no-tensorboard", "--quiet", "--out=run"]
    ended = terminal("train", "own_loss:KLPenaltyPPO", "CartPole-v1", *typed)
    assert ended.code == 0, ended.err
    document = RunFolder.open("run").document
    assert document["method"] == "own_loss:KLPenaltyPPO"
    assert document["config"]["kl_penalty"] == 3.0
    assert document["config"]["minibatches"] == 4  # of HTS-RL's preset

    assert terminal("verify", "run").code == 2
    verified = terminal("verify", "run", "--trust-code", "--updates=2", "--pool=inline")
    assert (verified.code, verified.out[:5]) == (0, "equal"), verified.err
    shown = terminal("train", "own_loss:KLPenaltyPPO", "CartPole-v1", "--help")
    assert "--kl-penalty" in shown.out
    refused = terminal("train", "own_loss:KLPenaltyPPO", "CartPole-v1", "--learner=a2c")
    assert refused.code == 2
    assert "--learner must be ppo" in refused.err


def test_on_a_device_it_has_the_facts_of_one_and_no_promise(tmp_path: Path):
    run = train(replace(SMALL, device="cpu:0"), layout=INLINE, out=tmp_path / "run")
    document = run.folder.document
    assert document["promise"] == (
        "no promise: computed on cpu:0: bits of own_loss:KLPenaltyPPO were not compared on a GPU"
    )
    assert document["machine"]["device"] == "cpu:0"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_cartpole_is_solved_within_its_presets_steps(tmp_path: Path, seed: int):
    config = KLPenaltyPPO(env="CartPole-v1", seed=seed, **KLPenaltyPPO.PRESETS["CartPole-v1"])
    run = train(config, out=tmp_path / "run")
    assert read_evaluations(run.folder.evaluations_csv)[-1].mean >= 475.0
