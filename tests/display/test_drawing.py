"""Pictures do not depend on the directory in which a command is typed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from damaged_folders import OLD
from typed_commands import environ


def pictures(place: Path, settings: bytes) -> list[bytes]:
    place.mkdir()
    shutil.copytree(OLD / "es", place / "es")
    if settings:
        (place / "matplotlibrc").write_bytes(settings)
    found = []
    for command, out in (("plot", "a.png"), ("compare", "b.png"), ("report", "c.html")):
        done = subprocess.run(
            [sys.executable, "-m", "drumline", command, "es", "--out", out],
            cwd=place,
            env=environ(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        found.append((place / out).read_bytes())
    return found


@pytest.mark.parametrize("settings", [b"axes.facecolor: red\nfont.size: 30\n", b"\xff\xfe\n"])
def test_a_matplotlibrc_in_the_current_directory_changes_no_picture(
    tmp_path: Path, settings: bytes
):
    assert pictures(tmp_path / "with", settings) == pictures(tmp_path / "without", b"")


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
