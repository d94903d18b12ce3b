"""Machine facts that are compared before bits are promised again."""

import platform
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from drumline.api.run_document import (
    NO_PROMISE,
    ON_DEVICE,
    PROMISE,
    differences_here,
    promise_of,
    run_document,
)
from drumline.functional import products, torch_answer
from drumline.functional.torch_devices import COMPARED
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.impala import Impala
from drumline.recipes.methods import METHODS
from drumline.recipes.td3 import TD3
from drumline.runs.machine import differences
from drumline.training.layout import Layout

CARTPOLE = ES(env="CartPole-v1")


@pytest.mark.parametrize("name", ["x86_64", "AMD64"])
def test_a_run_on_x86_64_has_the_promise(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "machine", lambda: name)
    assert promise_of(CARTPOLE) == PROMISE


@pytest.mark.parametrize("name", ["aarch64", "arm64", "ppc64le", "riscv64", ""])
@pytest.mark.parametrize("config", [CARTPOLE, HTS(env="CartPole-v1")])
def test_a_run_on_another_machine_has_no_promise(
    config: ES | HTS, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(platform, "machine", lambda: name)
    said = promise_of(config)
    assert said.startswith(f"{NO_PROMISE}: this machine is {name or 'of an unknown kind'}")
    assert "x86-64" in said


@pytest.mark.parametrize(
    ("config", "computed_by"),
    [
        (CARTPOLE, {"python", "numpy", "gymnasium"}),
        (replace(CARTPOLE, env="Hopper-v5"), {"python", "numpy", "gymnasium", "mujoco"}),
        (
            replace(CARTPOLE, policy="torch_policies:Linear"),
            {"python", "numpy", "gymnasium", "torch", "torch_policies"},
        ),
        (
            replace(CARTPOLE, engine="envpool"),
            {"python", "numpy", "gymnasium", "envpool"},
        ),
        (
            HTS(env="CartPole-v1", engine="gymnasium"),
            {"python", "numpy", "gymnasium", "torch"},
        ),
    ],
)
def test_exactly_what_computes_in_a_run_is_compared(config, computed_by: set[str]):
    document = run_document(config, Layout(), PROMISE)
    assert differences(document) == []
    document["versions"] = dict.fromkeys(document["versions"], "0.0")
    assert {difference.name for difference in differences(document)} == computed_by


def test_known_answers_of_what_computes_are_compared(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_answer, "onednn_answer", lambda: "")
    es = run_document(CARTPOLE, Layout(), PROMISE)
    config = HTS(env="CartPole-v1", engine="gymnasium", network="mlp")
    hts = run_document(config, Layout(), PROMISE)
    assert (list(es["known_answers"]), list(hts["known_answers"])) == (
        ["numpy"],
        ["numpy", "torch"],
    )
    assert differences_here(hts) == ""
    for name in ("numpy", "torch"):
        other = {**hts, "known_answers": {**hts["known_answers"], name: "another"}}
        assert differences_here(other).startswith(f"other kernels of {name}: ")
    older = {name: value for name, value in es.items() if name != "known_answers"}
    assert differences_here(older) == ""


WIDE = TD3(env="Pendulum-v1", engine="gymnasium", hidden=(256, 256), batch_size=256)


def test_products_by_onednn_have_an_answer_of_their_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_answer, "onednn_answer", lambda: "a product")
    document = run_document(WIDE, Layout(), PROMISE)
    assert document["known_answers"]["onednn"] == "a product"
    assert differences_here(document) == ""
    monkeypatch.setattr(torch_answer, "onednn_answer", lambda: "")
    assert differences_here(document).startswith("other kernels of onednn: ")


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        (WIDE, True),
        (replace(WIDE, precision="bf16"), False),
        (replace(WIDE, hidden=(8,), batch_size=16), False),
        (HTS(env="CartPole-v1", engine="gymnasium", network="mlp"), False),
        (HTS(env="pixel_environment:make", engine="gymnasium", network="nature-cnn"), True),
        (CARTPOLE, False),
    ],
)
@pytest.mark.parametrize("answered", [True, False])
def test_a_run_whose_large_products_were_mkls_is_refused_where_they_are_onednns(
    config: Any, refused: bool, answered: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(products, "takes_onednn", lambda: False)
    monkeypatch.setattr(torch_answer, "onednn_answer", lambda: "")
    document = run_document(config, Layout(), PROMISE)
    if not answered:  # as in a folder of 0.1.0
        del document["known_answers"]
    assert differences_here(document) == ""
    monkeypatch.setattr(products, "takes_onednn", lambda: True)
    found = differences_here(document)
    assert found.startswith("large products by MKL there, by oneDNN here") == refused
    assert bool(found) == refused


@pytest.mark.parametrize("name", ["system", "processor"])
def test_the_machine_is_compared(name: str):
    document = run_document(CARTPOLE, Layout(), PROMISE)
    document["machine"][name] = "other"
    (difference,) = differences(document)
    assert str(difference).startswith(f"{name} other there")


@pytest.mark.parametrize("build", COMPARED)
def test_a_gpu_on_which_bits_were_compared_has_the_promise(
    build: str, monkeypatch: pytest.MonkeyPatch
):
    model, cuda = build.split(", CUDA ")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: model)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    assert promise_of(HTS(env="CartPole-v1", device="cuda")) == ON_DEVICE
    unpromised = HTS(env="CartPole-v1", device="cuda", promise=False)
    assert promise_of(unpromised) == f"{NO_PROMISE}: trained with --no-promise"
    assert "free running" in promise_of(Impala(env="CartPole-v1", device="cuda"))
    other = METHODS["acem-rl"].made("Hopper-v5", device="cuda")
    assert promise_of(other) == (
        f"{NO_PROMISE}: computed on cuda: bits of acem-rl were not compared on a GPU"
    )


@pytest.mark.parametrize(
    ("model", "cuda"), [("NVIDIA A100-SXM4-40GB", "13.0"), ("NVIDIA H100 80GB HBM3", "12.8")]
)
def test_another_gpu_or_cuda_has_no_promise_and_says_how_to_compare_bits(
    model: str, cuda: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: model)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    said = promise_of(HTS(env="CartPole-v1", device="cuda:1"))
    assert said.startswith(f"{NO_PROMISE}: computed on {model}, CUDA {cuda}: ")
    assert COMPARED[0] in said
    assert "make test-gpu" in said


def test_the_device_is_compared_where_a_run_has_one():
    document = run_document(HTS(env="CartPole-v1", device="cpu:0"), Layout(), PROMISE)
    assert differences_here(document) == ""
    document["machine"]["device"] = "NVIDIA H100 80GB HBM3, CUDA 13.0, cuDNN 91900"
    assert differences_here(document).endswith("cuDNN 91900 there, cpu:0 here")
    for edited in ("gpu", 7):
        document["config"]["device"] = edited
        assert differences_here(document).endswith("cuDNN 91900 there, none here")
    document["config"]["device"] = "cuda"
    if not torch.cuda.is_available():
        assert differences_here(document).endswith("cuDNN 91900 there, none here")


def test_comparing_imports_neither_torch_nor_anything_else_that_computes():
    code = (
        "import sys; from drumline.runs.machine import differences\n"
        "made = {'versions': {'torch': '0', 'numpy': '0', 'mujoco': '0'}, 'machine': {}}\n"
        "assert [d.name for d in differences({**made, 'computed_by': ['torch', 'mujoco']})] \n"
        "print(*{'torch', 'numpy', 'mujoco', 'gymnasium'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
