"""Every command that the README and the docs show works as it is typed."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from typed_commands import Terminal

from drumline.api.run import train
from drumline.recipes.es import ES
from drumline.training.layout import SearchLayout

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "measured").glob("*.md"))
INLINE = re.compile(r"`(drumline [^`\n]+)`")
BLOCK = re.compile(r"^(?: {4})?(?:cd \S+ && )?(drumline [^\n]+)$", re.MULTILINE)
STANDS_FOR = {
    "RUN…": "last",
    "RUN": "last",
    "ENV": "CartPole-v1",
    "METHOD": "es",
    "A": "runs/a",
    "B": "runs/b",
}
NOT_HERE = {
    "drumline train es package.module:factory": "stands for a factory of the reader's own",
    "drumline check-env package.module:factory": "stands for a factory of the reader's own",
    "drumline train pepg CartPole-v1": "needs a package that registers pepg",
}
OWN_FOLDERS = re.compile(r"RUNS/|runs/\S")
"""Commands over run folders that the page's own figures were made from."""


def commands() -> dict[str, str]:
    """Return the shown commands, each with the page that shows it."""
    found: dict[str, str] = {}
    for page in PAGES:
        text = page.read_text()
        for shown in [*BLOCK.findall(text), *INLINE.findall(text)]:
            words = re.split(r"\s{2,}|\s#|\s\\$", shown)[0].strip()
            if len(words.split()) > 2 or words.split()[1:] == ["doctor"]:
                found.setdefault(words, page.name)
    return found


SHOWN = commands()
TRAININGS = [words for words in SHOWN if words.startswith("drumline train")]
OTHERS = [
    words
    for words in SHOWN
    if not words.startswith("drumline train") and not OWN_FOLDERS.search(words)
]


def test_the_pages_show_commands():
    assert len(TRAININGS) > 25
    assert len(OTHERS) > 15
    assert set(NOT_HERE) <= set(SHOWN), "a command of the list is not shown any more"


@pytest.mark.parametrize("words", TRAININGS)
def test_a_shown_training_has_a_config(
    words: str,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    if NOT_HERE.get(words):
        pytest.skip(NOT_HERE[words])
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    words, _, written = words.partition(" > ")
    words = words.replace("--device cuda", "--device cpu:0")  # the same checks, without a GPU
    if "--config settings.json" in words:  # the file that the line before it has written
        made = terminal("train", "es", "Hopper-v5", "--print-config")
        Path("settings.json").write_text(made.out)
    _, *rest = shlex.split(words)
    rest = [STANDS_FOR.get(word, word) for word in rest]
    if "--start-from" in rest:  # a run that a line before it has trained
        _, method, env, *_ = rest
        train(method, env, out=tmp_path / "runs" / "first", workers="inline", last_update=0)
    if len([word for word in rest if not word.startswith("-")]) == 2:
        rest.insert(2, "Hopper-v5")  # `drumline train acem-rl`: the page is about a method
    asked = {"--help", "--print-config"} & set(rest)
    ended = terminal(*rest, *([] if asked else ["--print-config"]))
    assert ended.code == 0, ended.err
    assert not written or json.loads(ended.out), "a file of settings is written"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with two equal runs of 22 generations or more."""
    place = tmp_path_factory.mktemp("shown")
    config = ES(
        env="CartPole-v1",
        total_steps=5000,
        population_size=6,
        noise_table_size=4096,
        hidden=(4,),
        evaluate_every=0,
        evaluate_episodes=2,
    )
    for name in ("a", "b"):
        train(config, layout=SearchLayout(pool="inline", keep_scalars=True), out=place / name)
    return place


@pytest.fixture
def folders(terminal: Terminal, trained: Path, tmp_path: Path) -> Path:
    """Copy the runs to where the commands of a test run."""
    shutil.copytree(trained, tmp_path / "runs")
    return tmp_path


@pytest.mark.parametrize("words", OTHERS)
def test_any_other_shown_command_works(words: str, terminal: Terminal, folders: Path):
    if "--contributions" in words:
        pytest.skip("of an aes run: tests/display/test_contributions.py")
    if words.startswith("drumline doctor") and "es" not in words.split():
        pytest.skip("times a method: tests/commands/test_doctor.py")
    if words.startswith("drumline verify") and "--nodes" in words:
        pytest.skip("of a run with shards: tests/training/test_groups_promise.py")
    if words.startswith("drumline bench"):
        pytest.skip("trains: tests/commands/test_bench.py")
    if NOT_HERE.get(words):
        pytest.skip(NOT_HERE[words])
    for name in ("own_search.py", "my_envs.py"):
        shutil.copy(ROOT / "examples" / name, folders)
    if "policy-20" in words:
        assert terminal("rebuild", "last", "--generation", "20").code == 0
    _, *rest = shlex.split(words)
    ended = terminal(*(STANDS_FOR.get(word, word) for word in rest))
    assert ended.code == 0, ended.err
