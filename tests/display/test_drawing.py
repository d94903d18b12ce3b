"""Pictures do not depend on the directory in which a command is typed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from damaged_folders import OLD
from typed_commands import environ

COMMANDS = {
    "plot": ("plot", "es", "--out=a.png"),
    "compare": ("compare", "es", "--out=b.png"),
    "report": ("report", "es", "--out=c.html"),
}
ALL = f"""
from drumline import cli
for words in {[*COMMANDS.values()]}:
    assert cli.run(words) == 0
"""


def typed(place: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=place,
        env=environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def place_with(settings: bytes, place: Path) -> Path:
    shutil.copytree(OLD / "es", place / "es")
    if settings:
        (place / "matplotlibrc").write_bytes(settings)
    return place


def test_a_matplotlibrc_in_the_current_directory_changes_no_picture(tmp_path: Path):
    other = place_with(b"axes.facecolor: red\nfont.size: 30\n", tmp_path / "with")
    plain = place_with(b"", tmp_path / "without")
    for place in (other, plain):
        typed(place, "-c", ALL)
    for name in ("a.png", "b.png", "c.html"):
        assert (other / name).read_bytes() == (plain / name).read_bytes(), name


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_reads_a_matplotlibrc_in_the_current_directory(tmp_path: Path, command: str):
    place = place_with(b"\xff\xfe\n", tmp_path / "with")  # to read it is an error
    typed(place, "-m", "drumline", *COMMANDS[command])


def test_matplotlib_is_imported_where_the_current_directory_is_gone(tmp_path: Path):
    script = (
        "import os, sys\n"
        "from drumline.display.drawing import import_matplotlib\n"
        "os.rmdir(os.getcwd())\n"
        "import_matplotlib()\n"
        "assert 'matplotlib' in sys.modules\n"
    )
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run([sys.executable, "-c", script], cwd=gone, env=environ(), check=False)
    assert done.returncode == 0
