"""Prints of children and of environments are kept, and a run never waits for more of them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from descriptors import many_descriptors, open_descriptors

from drumline.runtime.child_process import ChildProcess
from drumline.runtime.printed import PRINTED


@pytest.fixture
def kept() -> list[bytes]:
    return []


def test_what_this_process_prints_is_kept_and_the_output_given_back(
    kept: list[bytes], capfd: pytest.CaptureFixture[str]
):
    before = sys.stdout
    with PRINTED.captured(kept.append):
        print("from an environment")
        print("to the screen", file=before)
    print("afterwards")
    assert b"".join(kept) == b"from an environment\n"
    assert capfd.readouterr().out == "to the screen\nafterwards\n"
    assert sys.stdout is before
    assert PRINTED.fd == 2


def test_what_a_child_prints_is_kept_in_whole_lines(kept: list[bytes], tmp_path: Path):
    (tmp_path / "prints_much.py").write_text(
        "import os\nfrom drumline.runtime.child_start import begin, leave\n"
        "def main():\n"
        "    begin(os.getppid())\n"
        "    for n in range(5000):\n"
        "        print('line', n)\n"
        "    leave(0)\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        patch.setenv("PYTHONUNBUFFERED", "1")
        with PRINTED.captured(kept.append):
            children = [ChildProcess("prints_much", [], ()) for _ in range(2)]
            for child in children:
                while not child.exited():
                    time.sleep(0.01)
                child.end()
    lines = b"".join(kept).decode().splitlines()
    assert sorted(lines) == sorted(2 * [f"line {number}" for number in range(5_000)])


def test_a_program_that_goes_on_printing_is_not_waited_for(kept: list[bytes]):
    with PRINTED.captured(kept.append):
        program = subprocess.Popen(
            [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"],
            stdout=PRINTED.fd,
        )
        while not b"".join(kept).endswith(b"\n"):
            time.sleep(0.01)
    program.kill()
    program.wait()
    assert b"".join(kept) == b"here\n"


def test_a_breakpoint_has_the_screen(kept: list[bytes], monkeypatch: pytest.MonkeyPatch):
    seen: list[object] = []
    before = sys.stdout
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(sys.stdout))
    with PRINTED.captured(kept.append):
        assert sys.stdout is not before
        breakpoint()  # noqa: T100 - the hook is what is tested
    assert seen == [before]


def test_descriptors_are_given_back(kept: list[bytes]):
    before = open_descriptors()
    for _ in range(3):
        with PRINTED.captured(kept.append):
            print("line")
    assert open_descriptors() <= before


def test_prints_are_kept_in_a_process_with_many_open_descriptors(kept: list[bytes]):
    with many_descriptors(), PRINTED.captured(kept.append):
        print("line")
    assert kept == [b"line\n"]


def test_c_code_that_keeps_the_interpreter_locked_does_not_wait_for_the_thread(tmp_path: Path):
    program = (
        "import ctypes, sys\n"
        "from drumline.runtime.printed import PRINTED\n"
        "PRINTED.leave_first()\n"
        "kept = []\n"
        "with PRINTED.captured(kept.append):\n"
        "    ctypes.PyDLL(None).puts(b'x' * 500_000)\n"
        "print(sum(map(len, kept)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert ended.stdout == "500001\n", ended.stderr


def test_a_sign_that_the_output_cannot_encode_is_spelled_out():
    program = (
        "from drumline.runtime.printed import PRINTED\nPRINTED.leave_first()\nprint('\\u4e2d x')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert ended.stdout == "\\u4e2d x\n", ended.stderr
