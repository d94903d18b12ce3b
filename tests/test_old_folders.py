"""Run folders of v0.1 stay useful: every command that reads one still does."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from campaigns import cases
from typed_commands import Terminal, said_command

from drumline.recipes.methods import METHODS, config_from
from drumline.runs.fingerprints import ChainRow, read_chain

OLD = Path(__file__).resolve().parent / "v0_1_folders"
QUICK = ("es", "hts", "aes")
every_method = pytest.mark.parametrize("method", cases(METHODS, quick=QUICK))
pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Terminal:
    """A terminal beside copies of the old folders."""
    shutil.copytree(OLD, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Terminal(capfd)


def metrics(method: str) -> list[dict[str, str]]:
    with Path(method, "metrics.csv").open(newline="") as rows:
        return list(csv.DictReader(rows))


def move_to_another_machine(method: str) -> bool:
    """Let the folder say that it was made on another processor; returns whether it promises."""
    config = Path(method, "config.json")
    document = json.loads(config.read_text())
    document["machine"]["processor"] = "Z80"
    config.write_text(json.dumps(document))
    return not document["promise"].startswith("no promise")


def test_they_are_plotted(terminal: Terminal):
    ended = terminal("plot", *METHODS, "--out", "curves.png")
    assert ended.code == 0, ended.err
    assert Path("curves.png").stat().st_size > 0


def test_they_are_compared(terminal: Terminal):
    ended = terminal("compare", *METHODS, "--json", "--out", "groups.png")
    assert ended.code == 0, ended.err
    assert len(json.loads(ended.out)["groups"]) == len(METHODS)


@every_method
def test_a_report_shows_one(terminal: Terminal, method: str):
    ended = terminal("report", method, "--out", "page.html")
    assert ended.code == 0, ended.err
    assert read_chain(Path(method, "fingerprints.csv")).last() is not None
    assert f"{method} on " in Path("page.html").read_text()


@every_method
def test_its_policies_are_evaluated(terminal: Terminal, method: str):
    for policy in ("best", "last"):
        ended = terminal("evaluate", method, "--episodes=1", f"--policy={policy}", "--json")
        assert ended.code == 0, ended.err
        assert len(json.loads(ended.out)["returns"]) == 1


def chain_of(method: str) -> list[ChainRow]:
    return list(read_chain(Path(method, "fingerprints.csv")).rows())


@every_method
def test_it_goes_on_where_nothing_is_promised_of_another_machine(terminal: Terminal, method: str):
    promised = move_to_another_machine(method)
    before, chain = metrics(method), chain_of(method)
    more = str(int(before[-1]["env_steps"]) + 1)
    words = ("resume", method, "--total-steps", more, "--pool=inline", "--no-tensorboard")

    if promised:
        refused = terminal(*words, "--quiet")
        assert refused.code == 2
        assert len(refused.err.splitlines()) == 1
        assert "processor Z80 there" in refused.err
        assert f"resume {method} --other-machine" in said_command(refused.err)
        assert metrics(method) == before
    ended = terminal(*words, "--quiet", "--other-machine")

    assert ended.code == 0, ended.err
    after, rows = metrics(method), chain_of(method)
    assert len(rows) == len(after) > len(before)
    assert after[: len(before)] == before
    assert rows[: len(chain)] == chain


def test_a_correction_that_was_called_otherwise_keeps_its_meaning():
    document = json.loads((OLD / "hts" / "config.json").read_text())
    assert document["config"]["correction"] == "decoupled"
    assert config_from(document).correction == "truncated-is"
    now = {**document, "drumline": "0.2.0"}
    assert config_from(now).correction == "decoupled"
