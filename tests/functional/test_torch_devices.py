"""A device is there or refused in one sentence, and its arithmetic is set in this process alone."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from drumline.api.process_as_found import process_as_found
from drumline.functional import torch_devices
from drumline.functional.torch_devices import (
    REPEATABLE,
    Arithmetic,
    described,
    device_of,
    host_array,
)


def test_the_host_is_no_device_and_its_second_name_is_one():
    assert device_of("cpu") is None
    assert device_of("cpu:0") == torch.device("cpu", 0)
    assert described("cpu:0") == "cpu:0"


def with_devices(monkeypatch: pytest.MonkeyPatch, *, built: bool, count: int) -> None:
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: built)
    monkeypatch.setattr(torch_devices, "device_count", lambda: count)


@pytest.mark.parametrize(
    ("name", "built", "count", "words"),
    [
        ("cuda", False, 0, "is a build without CUDA: install the other build (make TORCH=cuda"),
        ("cuda", True, 0, "torch finds no CUDA device here: look at nvidia-smi"),
        ("cuda:3", True, 1, "--device cuda:3: torch finds cuda:0 here: give one of these"),
        ("cuda:2", True, 2, "--device cuda:2: torch finds cuda:0 to cuda:1 here"),
    ],
)
def test_a_device_that_is_not_there_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, name: str, built: bool, count: int, words: str
):
    with_devices(monkeypatch, built=built, count=count)
    before = Arithmetic.now()
    with pytest.raises(ValueError, match=f"^--device {name}") as refused:
        device_of(name)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert Arithmetic.now() == before


@pytest.mark.parametrize("workspace", [":0:0", ":16:8"])
def test_a_device_sets_deterministic_kernels_which_the_caller_does_not_keep(
    monkeypatch: pytest.MonkeyPatch, workspace: str
):
    with_devices(monkeypatch, built=True, count=2)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", workspace)
    before = Arithmetic.now()
    with process_as_found():
        assert device_of("cuda:1") == torch.device("cuda", 1)
        assert Arithmetic.now() == REPEATABLE
        assert torch.are_deterministic_algorithms_enabled()
        assert torch_devices.os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert Arithmetic.now() == before


def test_the_defaults_are_those_of_a_fresh_torch():
    code = (
        "from drumline.functional.torch_devices import Arithmetic\n"
        "assert Arithmetic.now() == Arithmetic(), Arithmetic.now()"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.parametrize(
    "setting",
    [
        'torch.backends.cudnn.conv.fp32_precision = "ieee"',
        'torch.backends.cuda.matmul.fp32_precision = "tf32"',
        'torch.backends.fp32_precision = "tf32"',
        'torch.set_float32_matmul_precision("medium")',
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "torch.backends.cudnn.allow_tf32 = False",
        'torch.backends.mkldnn.matmul.fp32_precision = "bf16"',
        'torch.backends.mkldnn.fp32_precision = "bf16"',
    ],
)
def test_a_call_leaves_the_callers_precision_as_it_is_whichever_switch_set_it(setting: str):
    code = (
        "import torch\n"
        "from drumline.api.process_as_found import process_as_found\n"
        f"{setting}\n"
        "def told():\n"
        "    switches = (torch.get_float32_matmul_precision,\n"
        "        lambda: torch.backends.cuda.matmul.fp32_precision,\n"
        "        lambda: torch.backends.cudnn.conv.fp32_precision,\n"
        "        lambda: torch.backends.mkldnn.matmul.fp32_precision,\n"
        "        lambda: torch.backends.mkldnn.conv.fp32_precision,\n"
        "        lambda: torch.backends.cudnn.allow_tf32)\n"
        "    answers = []\n"
        "    for ask in switches:\n"
        "        try: answers.append(ask())\n"
        "        except RuntimeError: answers.append('refused')\n"
        "    return answers\n"
        "before = told()\n"
        "with process_as_found():\n"
        "    host = torch.backends.mkldnn\n"
        "    for place in (host.matmul, host.conv, host.rnn):\n"
        "        assert place.fp32_precision in ('none', 'ieee'), place.fp32_precision\n"
        "assert told() == before, (before, told())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_host_gives_its_arrays_in_place():
    tensor = torch.arange(3.0)
    host_array(tensor)[1] = 7.0
    assert tensor.tolist() == [0.0, 7.0, 2.0]


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("warns_only", [False, True])
def test_the_caller_keeps_deterministic_algorithms_of_their_own(
    deterministic: bool, warns_only: bool
):
    try:
        torch.use_deterministic_algorithms(deterministic, warn_only=warns_only)
        before = Arithmetic.now()
        REPEATABLE.set()
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        before.set()
        assert torch.are_deterministic_algorithms_enabled() == deterministic
        if deterministic:
            assert torch.is_deterministic_algorithms_warn_only_enabled() == warns_only
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_training_does_not_load_the_compiler_of_torch(tmp_path: Path):
    """It takes two seconds of every command; what chooses kernels is not to import it."""
    words = ["train", "a2c", "CartPole-v1", "--engine=gymnasium", "--num-envs=4", "--alpha=8"]
    words += ["--total-steps=64", "--evaluate-episodes=1", "--pool=inline", "--quiet"]
    code = "import sys; from drumline.cli import run; assert run(sys.argv[1:]) == 0; "
    code += "assert 'torch' in sys.modules; assert 'torch._dynamo' not in sys.modules"
    command = [sys.executable, "-c", code, *words, f"--out={tmp_path}/run"]
    subprocess.run(command, check=True, timeout=120)
