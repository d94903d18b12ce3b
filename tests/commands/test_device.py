"""`--device` as a user meets it where there is no GPU, or nothing to compute on one."""

from pathlib import Path

import pytest
from typed_commands import Terminal

from drumline.functional import torch_devices
from drumline.recipes.methods import METHODS


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    return Terminal(capfd)


def refused(here: Terminal, *words: str) -> str:
    """The one sentence of a refusal that wrote nothing."""
    ended = here("train", *words, "--quiet")
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert list(Path.cwd().iterdir()) == []
    return ended.err


WITH_DEVICE = [name for name, method in METHODS.items() if "device" in method.fields]


@pytest.mark.parametrize("method", WITH_DEVICE)
def test_a_build_without_cuda_is_said_with_what_to_do(
    here: Terminal, monkeypatch: pytest.MonkeyPatch, method: str
):
    monkeypatch.setattr(torch_devices.torch.backends.cuda, "is_built", lambda: False)
    said = refused(
        here, method, "Pendulum-v1" if method != "impala" else "CartPole-v1", "--device", "cuda"
    )
    assert "--device cuda: torch" in said
    assert "make TORCH=cuda" in said


def test_a_device_that_is_not_there_is_said_with_those_that_are(
    here: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch_devices.torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch_devices, "device_count", lambda: 1)
    said = refused(here, "hts", "CartPole-v1", "--device", "cuda:3")
    assert "--device cuda:3: torch finds cuda:0 here" in said


@pytest.mark.parametrize("method", ["es", "ars", "cem"])
def test_a_method_without_a_learner_has_no_device(here: Terminal, method: str):
    said = refused(here, method, "CartPole-v1", "--device", "cuda")
    assert "only trainings with a learner compute on a GPU" in said


@pytest.mark.parametrize(
    ("words", "because"),
    [
        (["--device", "gpu"], "--device must be cpu, cuda or cuda:N, as in cuda:0, got 'gpu'"),
        (["--device", "cuda", "--precision", "bf16"], "computes in fp32 alone"),
        (["--device", "cuda", "--learners", "2"], "has one learner: leave --learners 2 out"),
    ],
)
def test_what_a_device_does_not_serve_is_refused(here: Terminal, words: list[str], because: str):
    ended = here("train", "hts", "CartPole-v1", *words, "--quiet")
    assert ended.code == 2
    assert because in " ".join(ended.err.replace("│", " ").split())
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("method", ["hts", "ppo"])
def test_groups_have_no_device(here: Terminal, method: str):
    words = [method, "CartPole-v1", "--device", "cpu:0", "--nodes", "2"]
    assert "leave --nodes out, or --device" in refused(here, *words)


def test_gradient_steps_on_nodes_have_no_device_of_this_machine(here: Terminal):
    words = ["cem-rl", "Pendulum-v1", "--device", "cpu:0", "--pool", "ray"]
    assert "leave --pool ray out, or --device" in refused(here, *words)
