"""Make docs/first-minutes.md and its pictures from a real session.

    python docs/_site/first_minutes.py

Every command is typed into a terminal of its own, and its output is put on the page as it came.
"""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

DOCS = Path(__file__).parents[1]
IMAGES = DOCS / "images"
COLUMNS, ROWS = 100, 40
FRAME = re.compile(r"(?:\x1b\[1A\x1b\[2K|\r\x1b\[2K)+")
"""Cursor movements with which the dashboard takes its last drawing back."""


def typed(words: str, cwd: Path, *, stop_after: float = 0.0) -> tuple[str, int]:
    """Run a command in a terminal, with Ctrl-C after some seconds; return its drawing and code."""
    master, slave = pty.openpty()
    environ = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": str(ROWS), "TERM": "xterm-256color"}
    began = time.perf_counter()
    with subprocess.Popen(
        ["bash", "-c", f"exec {words}"],
        cwd=cwd,
        env=environ,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    ) as process:
        os.close(slave)
        drawn = b""
        while True:
            if stop_after and time.perf_counter() - began > stop_after:
                process.send_signal(signal.SIGINT)
                stop_after = 0.0
            if not select.select([master], [], [], 0.1)[0]:
                continue
            try:
                part = os.read(master, 1 << 16)
            except OSError:  # the terminal closes with its last process
                break
            if not part:
                break
            drawn += part
    os.close(master)
    return drawn.decode(errors="replace").replace("\r\n", "\n"), process.returncode


def plain(drawn: str) -> str:
    """Return the words that stay on the screen, without colours."""
    kept = FRAME.split(drawn)
    words = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", kept[-1]).replace("\r", "")
    return "\n".join(line.rstrip() for line in words.splitlines()).strip()


def dashboard(drawn: str, name: str) -> None:
    """Save the dashboard's last whole drawing as a picture."""
    frames = [frame for frame in FRAME.split(drawn) if "env steps" in frame]
    frame = frames[-1] if len(frames) == 1 else frames[-2]
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text.from_ansi(re.sub(r"\x1b\[\?\d+[hl]", "", frame).strip("\n")))
    picture = console.export_svg(title="drumline", theme=MONOKAI)
    # The picture must not load a font from the network.
    picture = re.sub(r"@font-face\s*\{.*?\}", "", picture, flags=re.DOTALL)
    (IMAGES / name).write_text(picture)


def main() -> None:
    """Type the session and write the page."""
    place = Path(tempfile.mkdtemp(prefix="first-minutes-"))
    page = [INTRODUCTION]

    def step(
        title: str, words: str, text: str = "", *, code: int = 0, stop_after: float = 0.0
    ) -> str:
        drawn, ended = typed(words, place, stop_after=stop_after)
        if ended != code:
            raise SystemExit(f"{words} ended with {ended}:\n{drawn}")
        said = plain(drawn).replace(str(place), "~")
        page.append(f"## {title}\n\n    {words}\n\n```text\n{said}\n```\n\n{text}".rstrip() + "\n")
        return drawn

    try:
        step("What is here", "drumline doctor CartPole-v1 --method hts")
        drawn = step("Train, and stop", f"drumline train hts CartPole-v1 --total-steps {STEPS}",
                     STOPPED, code=130, stop_after=12.0)  # fmt: skip
        dashboard(drawn, "first-minutes-dashboard.svg")
        step("Go on", "drumline resume last", RESUMED)
        step("How good is it?", "drumline evaluate last --episodes 100")
        step("A curve", "drumline plot last", CURVE)
        shutil.copy(place / "curve.png", IMAGES / "first-minutes-curve.png")
        step("The same bits", "drumline verify last --workers 3", VERIFIED)
        page.append(REST)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    (DOCS / "first-minutes.md").write_text("\n".join(page))


STEPS = 300_000
INTRODUCTION = """# The first five minutes

After this page you have trained, stopped, resumed, evaluated and verified a run. The session below
is real: a script typed it (`python docs/_site/first_minutes.py`), and the outputs are those of a
machine with two cores.

Set up first, on a fresh clone:

    make setup
    source .venv/bin/activate
"""
STOPPED = """While it runs, the terminal shows a dashboard; here Ctrl-C ended it after some seconds.

![The dashboard of a run](images/first-minutes-dashboard.svg)"""
RESUMED = "The resumed run has the bits of one that was never stopped, its environments included."
CURVE = "![Return against env steps](images/first-minutes-curve.png)"
VERIFIED = "Three processes instead of the number that trained: equal hashes of every update."
REST = """## From here

[Choosing a method](choosing.md), [your own
environment](quickstart.md#your-own-environment-and-policy), and [what is promised](determinism.md).
"""

if __name__ == "__main__":
    main()
