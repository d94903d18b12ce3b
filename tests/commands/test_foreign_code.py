"""The gate: code that a run folder names is imported only with trust, whatever names it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from campaigns import cases
from typed_commands import Terminal

import drumline
from drumline.api.foreign_code import UntrustedCode
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.machine import machine, versions
from drumline.runs.policy_files import read_policy, write_policy

OLD = Path(__file__).resolve().parents[1] / "v0_1_folders"
SOURCE = Path(drumline.__file__).parents[1]
NUMBERS = count()
MODULE = """
import pathlib
import gymnasium
import torch

pathlib.Path("imported").touch()


def environment(**options):
    return gymnasium.make(ENV)


class Net(torch.nn.Linear):
    pass


def factory(start, seed):
    raise ValueError("no optimiser")
"""
pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Terminal:
    """A terminal beside copies of old folders that seem to be made on this machine."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for method in ("es", "hts", "aes"):
        shutil.copytree(OLD / method, tmp_path / method)
        change_config(tmp_path / method, here)
    monkeypatch.chdir(tmp_path)
    return Terminal(capfd)


def here(document: dict[str, Any]) -> None:
    document["machine"] = machine()
    document["versions"] = versions(document["versions"])


def change_config(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads((folder / "config.json").read_text())
    change(document)
    (folder / "config.json").write_text(json.dumps(document))


def change_policies(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the descriptions in both policy files, with digests that fit."""
    opened = RunFolder.open(folder)
    for name in ("best", "last"):
        stored = read_policy(opened, name)
        change(stored.document)
        write_policy(opened, name, stored.tensors, stored.document)


def stranger() -> str:
    """Write a module that leaves the file `imported` behind; return its name."""
    name = f"stranger_{next(NUMBERS)}"
    Path(f"{name}.py").write_text(MODULE.replace("ENV", repr("CartPole-v1")))
    return name


def in_config(field: str, name: str) -> Callable[[Path, str], str]:
    def plant(folder: Path, module: str) -> str:
        change_config(folder, lambda document: document["config"].update({field: module + name}))
        return module + name

    return plant


def as_method(folder: Path, module: str) -> str:
    change_config(folder, lambda document: document.update(method=f"{module}:Method"))
    return f"{module}:Method"


def in_policy(*place: str, name: str) -> Callable[[Path, str], str]:
    def plant(folder: Path, module: str) -> str:
        def change(document: dict[str, Any]) -> None:
            inner = document
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = module + name

        change_policies(folder, change)
        return module + name

    return plant


CONFIG_CASES = {
    "env": ("es", in_config("env", ":environment")),
    "env with a prefix of a strategy": ("es", lambda folder, module: nevergrad(folder)),
    "policy": ("es", in_config("policy", ":Net")),
    "network": ("hts", in_config("network", ":Net")),
    "strategy": ("aes", in_config("strategy", ":factory")),
    "method": ("es", as_method),
}
POLICY_CASES = {
    "environment": ("es", in_policy("environment", "id", name=":environment")),
    "module": ("es", in_policy("policy", "module", name=":Net")),
    "module without a colon": ("es", in_policy("policy", "module", name="")),
    "network": ("hts", in_policy("policy", "network", "network", name=":Net")),
}
TRAINING = {
    "resume": ("resume", "--quiet", "--pool=inline", "--total-steps=100000000"),
    "verify": ("verify", "--updates=1", "--pool=inline"),
    "report": ("report", "--verify=1"),
    "episode": ("episode",),
    "rebuild": ("rebuild",),
}
ACTING = {"evaluate": ("evaluate", "--episodes=1"), "enjoy": ("enjoy", "--max-steps=1")}


def nevergrad(folder: Path) -> str:
    """Name a module of the current directory that is called as a package of strategies is."""
    Path("nevergrad.py").write_text(MODULE.replace("ENV", repr("CartPole-v1")))
    change_config(folder, lambda document: document["config"].update(env="nevergrad:environment"))
    return "nevergrad:environment"


def ends(terminal: Terminal, words: tuple[str, ...], folder: str, *more: str) -> Any:
    command, *flags = words
    return terminal(command, folder, *flags, *more)


@pytest.mark.parametrize("command", cases(TRAINING, quick=("resume", "verify")))
@pytest.mark.parametrize("case", CONFIG_CASES)
def test_code_of_the_config_is_imported_with_trust_alone(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, command: str, case: str
):
    for name in [name for name in sys.modules if name.partition(".")[0] == "nevergrad"]:
        monkeypatch.delitem(sys.modules, name)
    folder, plant = CONFIG_CASES[case]
    named = plant(Path(folder), stranger())
    words = TRAINING[command]
    refused = ends(terminal, words, folder)
    assert refused.code == 2
    assert len(refused.err.splitlines()) == 1
    assert f"names code to import ({named})" in refused.err
    assert refused.err.rstrip().endswith("--trust-code")
    assert not Path("imported").exists()
    assert os.getcwd() not in sys.path

    monkeypatch.setattr("drumline.api.opened_runs._carry_out", started)
    trusted = ends(terminal, words, folder, "--trust-code")
    assert "names code to import" not in trusted.err
    # Neither an episode nor an update of hts stands alone.
    needless = folder == "hts" and command in ("episode", "rebuild")
    assert Path("imported").exists() is not needless, trusted.err
    package = named.partition(":")[0].partition(".")[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]  # all of it: a package without its root imports its parts no more


def started(recipe: Any, request: Any, trust: Any) -> Any:
    """Stand for a training that goes on: all code that it needs is imported before."""
    raise ValueError("begun")


@pytest.mark.parametrize("command", ACTING)
@pytest.mark.parametrize("case", cases(CONFIG_CASES, quick=("env", "method")))
def test_episodes_ask_for_no_trust_in_code_that_only_training_imports(
    terminal: Terminal, command: str, case: str
):
    folder, plant = CONFIG_CASES[case]
    plant(Path(folder), stranger())
    ended = ends(terminal, ACTING[command], folder)
    assert ended.code == 0, ended.err
    assert not Path("imported").exists()


@pytest.mark.parametrize("command", ACTING)
@pytest.mark.parametrize("case", POLICY_CASES)
def test_code_of_a_policy_file_is_imported_with_trust_alone(
    terminal: Terminal, command: str, case: str
):
    folder, plant = POLICY_CASES[case]
    named = plant(Path(folder), stranger())
    refused = ends(terminal, ACTING[command], folder)
    assert refused.code == 2
    assert f"names code to import ({named})" in refused.err
    assert refused.err.rstrip().endswith("--trust-code")
    assert not Path("imported").exists()
    ended = ends(terminal, ACTING[command], folder, "--trust-code")
    assert Path("imported").exists(), ended.err


@pytest.mark.parametrize("command", ["plot", "compare", "report", "verify"])
@pytest.mark.parametrize("case", cases(CONFIG_CASES, quick=("method",)))
def test_commands_that_compare_files_import_nothing(terminal: Terminal, command: str, case: str):
    folder, plant = CONFIG_CASES[case]
    plant(Path(folder), stranger())
    ended = terminal(command, folder, *([folder] if command == "verify" else []))
    assert ended.code == 0, ended.err
    assert not Path("imported").exists()


CALLS: dict[str, Callable[[Any], Any]] = {
    "evaluate": lambda run: run.evaluate(1),
    "policy": lambda run: run.policy,
    "resume": lambda run: run.resume(workers="inline"),
    "episode": lambda run: run.episode(0),
    "config": lambda run: run.config,
}


@pytest.mark.parametrize("call", CALLS)
def test_in_python_a_loaded_run_imports_code_with_trust_alone(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, call: str
):
    module = stranger()
    if call in ("evaluate", "policy"):
        in_policy("environment", "id", name=":environment")(Path("es"), module)
        in_policy("policy", "module", name=":Net")(Path("es"), module)
    else:
        as_method(Path("es"), module)
    with pytest.raises(UntrustedCode, match=r"drumline\.load\('es', trust_code=True\)"):
        CALLS[call](drumline.load("es"))
    assert not Path("imported").exists()
    with pytest.raises((ValueError, RunError), match=r"stranger|30 parameters for 10"):
        CALLS[call](drumline.load("es", trust_code=True))
    assert Path("imported").exists()


SHADOWED = ("gymnasium", "numpy", "torch", "mujoco", "matplotlib", "scipy", "json", "envpool")


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "es", "--updates=1", "--workers=2"),
        ("report", "es", "--verify=1"),
        ("evaluate", "es", "--episodes=1"),
        ("resume", "es", "--quiet", "--workers=2"),
        ("enjoy", "es", "--max-steps=1"),
    ],
)
@pytest.mark.parametrize("start", cases(("-m drumline", "script"), quick=("-m drumline",)))
def test_nothing_of_the_current_directory_is_imported_in_the_place_of_a_package(
    terminal: Terminal, words: tuple[str, ...], start: str
):
    for name in SHADOWED:
        Path(f"{name}.py").write_text("open('/dev/stderr', 'w').write('STOLEN')\nraise SystemExit")
    script = "import sys; from drumline.cli import main; main()"
    own = ["-m", "drumline"] if start != "script" else ["-P", "-c", script]
    ended = subprocess.run(
        [sys.executable, *own, *words],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode in (0, 1), ended.stderr
    assert "STOLEN" not in ended.stderr


def test_a_strategy_of_nevergrads_needs_no_trust(terminal: Terminal):
    change_config(Path("aes"), lambda document: document["config"].update(strategy="nevergrad:PSO"))
    assert RunFolder.open("aes").named_code() == []
    change_config(Path("aes"), lambda document: document["config"].update(env="nevergrad:PSO"))
    assert RunFolder.open("aes").named_code() == ["nevergrad:PSO"]


def test_code_in_a_field_that_only_a_method_from_outside_has_is_named(terminal: Terminal):
    change_config(Path("es"), lambda document: document["config"].update(teacher="pack.age:One"))
    assert RunFolder.open("es").named_code() == ["pack.age:One"]


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ('{"a": ["x", {"b": "pack.age:One"}], "c": 1}', ["pack.age:One"]),
        (r'{"a": "pack.age\u003aOne"}', ["pack.age:One"]),
        ("{damaged: by hand", ["{damaged: by hand"]),
        ('{"xml_file": "hopper.xml"}', []),
    ],
)
def test_code_in_the_arguments_of_an_environment_is_named(
    terminal: Terminal, typed: str, named: list[str]
):
    change_config(Path("es"), lambda document: document["config"].update(env_kwargs=typed))
    assert RunFolder.open("es").named_code() == named
    ended = terminal("verify", "es", "--updates=1", "--pool=inline")
    assert ("names code to import" in ended.err) == bool(named)


def test_a_policy_files_option_that_names_code_is_named(terminal: Terminal):
    def change(document: dict[str, Any]) -> None:
        document["environment"]["options"] = {"env_id": "stranger:Env", "nested": [{"a": "b:c"}]}

    change_policies(Path("es"), change)
    assert read_policy(RunFolder.open("es"), "last").named_code() == ["stranger:Env", "b:c"]
