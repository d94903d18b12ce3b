"""Text of a stranger's run folder is inert in a terminal, a page, a card and a picture."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from campaigns import cases
from damaged_folders import OLD
from typed_commands import Terminal

from drumline.display.plots import curves_figure
from drumline.display.run_data import read_run
from drumline.runs.card import RunCard, card_text
from drumline.runs.safe_text import markdown, markdown_paragraph, plot_label, visible

CONTROLS = "\x1b[2J\x1b]0;title\x07\r\x08\x9b31m\u202e\u2066\u200f\x7f\u2028"
MARKUP = "<script>alert(1)</script><img src=x onerror=y> $\\frac$ [a](http://x) `code` *b* | _c_"
HOSTILE = f"{CONTROLS}{MARKUP}"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Terminal:
    """A terminal beside copies of old folders, one under a hostile name."""
    for name in ("es", "es\x1b[31m\u202e"):
        shutil.copytree(OLD / "es", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return Terminal(capfd)


def change_config(change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(Path("es/config.json").read_text())
    change(document)
    Path("es/config.json").write_text(json.dumps(document))


PLANTED: dict[str, Callable[[dict[str, Any]], object]] = {
    "env": lambda document: document["config"].update(env=HOSTILE),
    "env that names code": lambda document: document["config"].update(env=f"os:{HOSTILE}"),
    "method": lambda document: document.update(method=HOSTILE),
    "promise": lambda document: document.update(promise=f"no promise: {HOSTILE}"),
    "versions": lambda document: document["versions"].update(numpy=HOSTILE, **{HOSTILE: HOSTILE}),
    "machine": lambda document: document["machine"].update(processor=HOSTILE),
    "format": lambda document: document.update(format=9, drumline=HOSTILE),
    "field": lambda document: document["config"].update({HOSTILE: HOSTILE}),
    "layout": lambda document: document["layout"].update({HOSTILE: HOSTILE}),
}
COMMANDS = (
    ("plot", "es"),
    ("compare", "es"),
    ("report", "es"),
    ("list", "."),
    ("verify", "es", "--pool=inline", "--updates=1"),
    ("verify", "es", "es"),
    ("resume", "es", "--pool=inline"),
    ("episode", "es"),
    ("evaluate", "es", "--episodes=1"),
)


@pytest.mark.parametrize("place", cases(PLANTED, quick=("env", "versions")))
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_prints_or_writes_an_escape_sequence_or_markup(
    terminal: Terminal, words: tuple[str, ...], place: str
):
    change_config(PLANTED[place])
    ended = terminal(*words)
    assert ended.code in (0, 2), ended.err
    assert "Traceback" not in ended.err
    assert not RAW.search(ended.out + ended.err)
    for page in Path().glob("*.html"):
        text = page.read_text()
        assert not RAW.search(text)
        assert "<script>alert" not in text
        others = set(re.findall("<script[^>]*>", text)) - {"<script>"}
        assert others <= {'<script type="application/json">'}  # a timeline's numbers
        assert text.count("<script>") == 1  # the page's own
        assert "<img src=x" not in text


@pytest.mark.parametrize("command", ["plot", "compare", "report", "resume", "verify", "enjoy"])
def test_a_hostile_name_of_a_folder_is_shown_harmlessly(terminal: Terminal, command: str):
    name = "es\x1b[31m\u202e"
    more = {"resume": ["--pool=inline"], "enjoy": ["--max-steps=1"]}.get(command, [])
    ended = terminal(command, name, *more)
    assert not RAW.search(ended.out + ended.err)
    ended = terminal(command, f"{name}\x1b", *more)
    assert ended.code == 2
    assert not RAW.search(ended.err)


@pytest.mark.parametrize("name", ["metrics.csv", "fingerprints.csv", "evaluations.csv"])
def test_a_hostile_column_or_cell_is_shown_harmlessly(terminal: Terminal, name: str):
    path = Path("es", name)
    for place in (0, 1):
        lines = [line.split(",") for line in (OLD / path).read_text().splitlines()]
        lines[place][1] = "\x1b[31m\u202e"
        path.write_text("".join(",".join(line) + "\n" for line in lines))
        for words in (("report", "es"), ("verify", "es", "es"), ("plot", "es")):
            ended = terminal(*words)
            assert not RAW.search(ended.out + ended.err)
            assert "Traceback" not in ended.err


def test_a_message_of_several_lines_cannot_look_like_two_messages(terminal: Terminal):
    change_config(lambda document: document.update(promise="no promise: a\ndrumline: all is well"))
    ended = terminal("verify", "es", "es")
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("label", ["$\\frac$", "$", "a$b$c", "_hidden", HOSTILE, "$\\alpha$ $x"])
def test_a_label_is_no_formula_and_stands_in_the_legend(terminal: Terminal, label: str):
    run = read_run(Path("es"), label=label)
    figure = curves_figure([run])
    figure.draw_without_rendering()
    drawn = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert any(text.startswith(plot_label(label)[:20]) for text in drawn)


def test_a_card_holds_no_markup_of_a_stranger():
    card = RunCard(
        promise=f"# {HOSTILE}",
        method=HOSTILE,
        env_id=HOSTILE,
        seed=0,
        config={HOSTILE: HOSTILE, "snake_case": [1, 2]},
        verify_command="drumline verify 'a\x1b\nb'",
        versions={"numpy": HOSTILE},
        machine={"processor": f"{HOSTILE}\nsecond line"},
        metrics={HOSTILE: 1.0},
    )
    text = card_text(card)
    assert not RAW.search(text)
    assert text.startswith("\\#")
    assert not re.search(r"(?<!\\)[<`$*]", text)
    assert "](" not in text.replace("\\](", "")
    assert "| snake_case | [1, 2] |" in text
    assert "    drumline verify 'a\\x1b\\nb'" in text


@pytest.mark.parametrize("text", ["# a", "> a", "- a", "+ a", "1. a", "12) a", "=== a"])
def test_a_paragraph_begins_no_block(text: str):
    assert "\\" in markdown_paragraph(text)


def test_plain_words_stay_as_they_are():
    words = "the same bits for any number of workers – through kills, on one CPU type (σ = 0.02)"
    assert visible(words) == markdown(words) == markdown_paragraph(words) == plot_label(words)
    assert visible("a\nb", lines=True) == "a\nb"
    assert visible("\ud800") == "\\ud800"
