"""A training in bf16 warns on processors without instructions for it."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from typed_commands import Terminal

from drumline.api import slow_bf16
from drumline.api.run import train
from drumline.commands import bf16_warning as bf16_warning_module
from drumline.commands.bf16_warning import bf16_warning
from drumline.recipes.methods import find_method

IN_BF16: Any = dataclasses.replace(find_method("ppo").made("CartPole-v1"), precision="bf16")


@pytest.fixture
def without_instructions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slow_bf16, "has_bf16", lambda: False)


@pytest.mark.slow
@pytest.mark.usefixtures("without_instructions")
def test_the_warning_predicts_both_speeds_in_a_process_of_its_own():
    _, said = bf16_warning("ppo", IN_BF16)
    found = re.search(r"predicted are ([\d,]+) env steps/s, ([\d,]+) with --precision fp32", said)
    assert found is not None, said
    assert all(int(number.replace(",", "")) > 0 for number in found.groups())


@pytest.mark.usefixtures("without_instructions")
def test_the_warning_says_the_speed_of_the_config_with_each_precision(
    monkeypatch: pytest.MonkeyPatch,
):
    asked: list[Any] = []

    def speed(method: str, config: Any) -> float:
        asked.append((method, config))
        return 98.4 if config.precision == "bf16" else 1700.2

    monkeypatch.setattr(bf16_warning_module, "_speed", speed)
    said = bf16_warning("ppo", IN_BF16)
    assert "precision bf16 may be slow here" in next(said)
    assert asked == []  # timing takes some seconds, which are not to pass in silence
    assert list(said) == ["predicted are 98 env steps/s, 1,700 with --precision fp32"]
    assert asked == [("ppo", IN_BF16), ("ppo", dataclasses.replace(IN_BF16, precision="fp32"))]


@pytest.mark.usefixtures("without_instructions")
def test_what_cannot_be_predicted_is_left_out():
    unknown = dataclasses.replace(IN_BF16, env="no_such_module:environment")
    assert len(list(bf16_warning("ppo", unknown))) == 1


@pytest.mark.usefixtures("without_instructions")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_training_from_python_logs_the_warning(
    precision: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    small: dict[str, Any] = {"num_envs": 2, "alpha": 8, "total_steps": 16, "hidden": (4,)}
    small |= {"engine": "gymnasium", "evaluate_episodes": 1, "evaluate_max_steps": 9}
    out = tmp_path / "run"
    train("ppo", "CartPole-v1", workers="inline", out=out, precision=precision, **small)
    said = [record.getMessage() for record in caplog.records if record.name == "drumline"]
    assert [line.partition(", so ")[0] for line in said] == (
        ["this processor has no bf16 instructions"] if precision == "bf16" else []
    )


@pytest.mark.usefixtures("without_instructions")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_command_says_both_before_the_run_begins(
    precision: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bf16_warning_module, "_speed", lambda method, config: 98.4)
    words = ["--engine=gymnasium", "--num-envs=2", "--alpha=8", "--total-steps=16", "--hidden=4"]
    words += [
        "--evaluate-episodes=1",
        "--evaluate-max-steps=9",
        "--pool=inline",
        "--no-tensorboard",
    ]
    ended = Terminal(capfd)("train", "ppo", "CartPole-v1", *words, f"--precision={precision}")
    assert ended.code == 0, ended.err
    before, _, _ = ended.err.partition("run folder:")
    for said in ("precision bf16 may be slow here", "predicted are 98 env steps/s"):
        assert (said in before) == (precision == "bf16")


@pytest.mark.usefixtures("without_instructions")
@pytest.mark.parametrize("method", ["ppo", "es"])
def test_without_bf16_nothing_is_said(method: str):
    assert list(bf16_warning(method, find_method(method).made("CartPole-v1"))) == []


def test_with_instructions_nothing_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slow_bf16, "has_bf16", lambda: True)
    assert list(bf16_warning("ppo", IN_BF16)) == []
