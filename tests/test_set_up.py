"""`make setup`: which installer gets which versions. Python, pip and uv are stand-ins here."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = """#!/bin/sh
if [ "$1" = -m ] && [ "$2" = venv ]; then mkdir -p .venv/bin && cp "$0" .venv/bin/python; fi
if [ "$1 $2" = "-m pip" ] && [ "$3" != --version ]; then
    echo pip "$@" >> log
    exit ${PIP_ENDS:-0}
fi
[ "$1 $2 $3" != "-m pip --version" ] || [ -e .venv/bin/python ]
"""
UV = """#!/bin/sh
echo uv "$@" >> log
exit ${UV_ENDS:-0}
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("python", PYTHON), ("uv", UV)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    return tmp_path


def make(clone: Path, *words: str, **variables: str) -> tuple[int, str, list[str]]:
    """Return the exit code, the output, and the installers' calls."""
    path = os.pathsep.join([str(clone / "tools"), os.environ["PATH"]])
    environ = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    done = subprocess.run(
        ["make", "setup", f"PYTHON={clone / 'tools' / 'python'}", *words],
        cwd=clone,
        env={**environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    log = clone / "log"
    calls = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return done.returncode, done.stdout + done.stderr, calls


def torch(clone: Path) -> str:
    lines = (clone / ".venv" / "constraints.txt").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("torch="))
    return line


def test_without_a_build_it_is_pip_with_the_constraints_as_they_are(clone: Path):
    code, said, calls = make(clone)
    assert code == 0, said
    assert [call.split()[0] for call in calls] == ["pip"]
    assert "-c .venv/constraints.txt" in calls[0]
    constraints = (clone / ".venv" / "constraints.txt").read_text()
    assert constraints == (clone / "constraints.txt").read_text()
    assert make(clone)[2] == []


def test_another_python_makes_the_environment_anew(clone: Path):
    for minor in (11, 12):
        python = clone / "tools" / f"python3.{minor}"
        says = f'#!/bin/sh\nif [ "$1" = -V ]; then echo Python 3.{minor}.1; exit; fi\n'
        python.write_text(PYTHON.replace("#!/bin/sh\n", says))
        python.chmod(0o755)
    for minor, again in ((11, True), (11, False), (12, True), (12, False)):
        code, said, calls = make(clone, f"PYTHON={clone / 'tools' / f'python3.{minor}'}")
        assert code == 0, said
        assert bool(calls) == again
        assert ("making .venv" in said) == again
        made = (clone / ".venv" / "bin" / "python").read_text()
        assert f"Python 3.{minor}.1" in made
    code, said, _ = make(clone, f"PYTHON={clone / 'tools' / 'python3.13'}")
    assert code != 0
    assert "Drumline needs Python 3.11 to 3.13" in said
    assert "Python 3.12.1" in (clone / ".venv" / "bin" / "python").read_text()


@pytest.mark.parametrize(("build", "label"), [("cpu", "+cpu"), ("cuda", "")])
def test_uv_is_taken_where_its_dry_run_finds_the_named_build(clone: Path, build: str, label: str):
    code, said, calls = make(clone, f"TORCH={build}")
    assert code == 0, said
    assert [call.split()[0] for call in calls] == ["uv", "uv"]
    assert "--dry-run" in calls[0]
    assert "--dry-run" not in calls[1]
    version = torch(clone)
    assert version.startswith("torch===")
    assert version.endswith(label)
    assert ("+" in version) == bool(label)


def test_pip_is_taken_where_uv_does_not_find_the_build(clone: Path):
    code, _, calls = make(clone, "TORCH=cpu", UV_ENDS="1")
    assert code == 0
    assert [call.split()[0] for call in calls] == ["uv", "pip"]


def test_a_missing_build_names_the_page_with_its_index_and_is_tried_again(clone: Path):
    code, said, _ = make(clone, "TORCH=cpu", UV_ENDS="1", PIP_ENDS="1")
    assert code != 0
    assert "pytorch.org/get-started/locally" in said
    assert make(clone, "TORCH=cpu", UV_ENDS="1")[2]


def test_another_build_is_installed_over_the_first_one(clone: Path):
    make(clone, "TORCH=cpu")
    assert make(clone, "TORCH=cpu")[2] == []
    assert make(clone)[2] == []
    assert make(clone, "TORCH=cuda")[2]
    assert "+cpu" not in torch(clone)


def test_a_build_that_there_is_not_is_refused(clone: Path):
    code, said, calls = make(clone, "TORCH=tpu")
    assert (code, calls) == (2, [])
    assert "TORCH is cpu or cuda, got tpu" in said
