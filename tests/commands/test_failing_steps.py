"""Environments that fail or change the directory in a command's own process."""

import json
from pathlib import Path

import pytest
from typed_commands import TINY, drumline

QUIET = ["--quiet", "--engine=gymnasium"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run."""
    place = tmp_path_factory.mktemp("failing")
    made = drumline(
        "train", "es", "commands.failing_steps:Failing", *TINY, *QUIET, "--out=run", cwd=place
    )
    assert made.returncode == 0, made.stderr
    return place


@pytest.mark.parametrize("command", ["evaluate", "episode"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pipe", "BrokenPipeError: the simulator is gone"),
        ("exit", "SystemExit: 0"),
        ("value", "ValueError: could not broadcast"),
    ],
)
def test_what_an_environment_raises_fails_the_command_and_says_where(
    place: Path, command: str, name: str, said: str
):
    words = ["--member=0"] if command == "episode" else ["--episodes=2"]
    ended = drumline(
        command, "run", "--trust-code", *words, cwd=place, changes={"FAILING_STEPS": name}
    )
    assert ended.returncode == 3, ended
    assert said in ended.stderr
    assert "failing_steps.py" in ended.stderr
    if command == "evaluate" and name != "exit":
        assert "in commands.failing_steps:Failing, episode 0, seed " in ended.stderr
        assert ended.stderr.rstrip().endswith(", step 2")


def test_a_timing_that_an_environment_ends_fails(tmp_path: Path):
    words = ["doctor", "commands.failing_steps:Failing", "--method=es"]
    ended = drumline(*words, cwd=tmp_path, changes={"FAILING_STEPS": "exit"})
    assert ended.returncode == 3, ended
    assert "SystemExit: 0" in ended.stderr


def test_an_environment_that_ends_the_program_in_its_close_ends_no_command(tmp_path: Path):
    changes = {"FAILING_STEPS": "close"}
    train = ["train", "es", "commands.failing_steps:Leaving", *TINY, *QUIET, "--out=run"]
    assert drumline(*train, cwd=tmp_path).returncode == 0
    words = ["evaluate", "run", "--trust-code", "--episodes=2", "--json"]
    ended = drumline(*words, cwd=tmp_path, changes=changes)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["returns"] == [5.0, 5.0]


def test_a_directory_changed_at_import_or_in_a_step_moves_no_run(tmp_path: Path):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    train = ["train", "es", "commands.failing_steps:Moving", *TINY, "--engine=gymnasium"]
    for changes in ({"MOVED_AT_IMPORT": str(elsewhere)}, {}):
        both = {"MOVED_TO": str(elsewhere), **changes}
        name = f"runs-{len(both)}"
        ended = drumline(*train, f"--out={name}", "--seeds=0-1", cwd=here, changes=both)
        assert ended.returncode == 0, ended.stderr
        assert {path.name for path in (here / name).iterdir()} == {"s0", "s1"}
        assert f"drumline plot {name}/s1" in ended.stdout + ended.stderr
    ended = drumline(*train, "--keep-scalars", cwd=here, changes=both)
    assert ended.returncode == 0, ended.stderr
    assert len(list((here / "runs").iterdir())) == 1
    moved = {"MOVED_AT_IMPORT": str(elsewhere)}
    made = drumline(
        *("rebuild", "last", "--out=policy-again.safetensors", "--trust-code"),
        cwd=here,
        changes=moved,
    )
    assert made.returncode == 0, made.stderr
    assert (here / "policy-again.safetensors").is_file()
    assert not list(elsewhere.iterdir())
    listed = drumline("list", "--json", cwd=here)
    assert json.loads(listed.stdout.splitlines()[0])["run"].startswith("runs/es-")
