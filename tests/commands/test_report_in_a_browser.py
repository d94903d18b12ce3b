"""The report in a browser: no error, the timeline is drawn, and zoom works."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from commands.test_report import recorded
from typed_commands import Terminal

from drumline.runs.timeline import write_timeline
from drumline.types import Span

BROWSER = next((found for n in ("chromium", "chromium-browser", "google-chrome", "chrome")
                if (found := shutil.which(n))), None)  # fmt: skip
PRESS = """<script>
for (const value of ["in", "in", "right", "out", "all", "in"]) {
  document.querySelector(`.timeline button[value=${value}]`).click();
  document.title += "|" + value + " " + document.querySelector(".timeline").dataset.shown;
}
const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect();
canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "0" }));
canvas.dispatchEvent(new PointerEvent("pointermove",
  { clientX: box.left + box.width * 0.9, clientY: box.top + 30 }));
document.title += "|says " + document.querySelector(".timeline output").textContent;
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
document.title += "|drawn " + pixels.some((value, i) => i % 4 === 3 && value > 0);
</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


def shown(page: Path, profile: Path, *flags: str) -> tuple[str, str]:
    """Return the page's DOM after its scripts have run, and the browser's log."""
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={profile}", "--window-size=1000,1200", *flags, "--dump-dom",
         page.resolve().as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@pytest.fixture
def page(terminal: Terminal, tmp_path: Path) -> Path:
    folder = recorded("a</script><b>")
    spans = [Span("worker", i, t + 0.1 * i, t + 0.8, 2) for i in (0, 1) for t in range(10)]
    write_timeline(folder.timeline_json, spans)
    assert terminal("report", str(folder.path)).code == 0
    return tmp_path / "report.html"


def test_the_timeline_is_drawn_without_an_error_and_zooms(page: Path, tmp_path: Path):
    dom, log = shown(page, tmp_path / "profile")
    assert not log
    assert 'data-shown="9.800 s"' in dom
    driven = tmp_path / "driven.html"
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    driven.write_text(text.replace("</body>", f"{PRESS}</body>"))
    dom, log = shown(driven, tmp_path / "profile", "--force-dark-mode")
    assert not log
    title = re.search(r"<title>(.*?)</title>", dom)
    assert title is not None
    assert title[1].split("|")[1:] == [
        "in 4.900 s",
        "in 2.450 s",
        "right 2.450 s",
        "out 4.900 s",
        "all 9.800 s",
        "in 4.900 s",
        "says worker 0: 2 tasks, 800 ms from 8.000 s",
        "drawn true",
    ]


def test_no_other_script_is_run(page: Path, tmp_path: Path):
    strange = tmp_path / "strange.html"
    text = page.read_text()
    strange.write_text(text.replace("</body>", "<script>document.title = 'run'</script></body>"))
    dom, log = shown(strange, tmp_path / "profile")
    assert "<title>run</title>" not in dom
    assert "Content Security Policy" in log
