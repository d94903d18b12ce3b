"""Methods from outside the package: what is taken, what is refused, and what is never imported."""

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from runtime.cluster.thread_nodes import ThreadLink, ThreadNodes
from typed_commands import Ended, Terminal
from whole_runs import folder_for

import drumline
from drumline.api.opened_runs import silent
from drumline.recipes import outside_methods
from drumline.recipes.cem import CEM
from drumline.recipes.methods import find_method
from drumline.runs.folder import RunFolder
from drumline.runtime.cluster.node_messages import HostSpec, Node
from drumline.training.layout import SearchLayout
from drumline.training.run_request import RunRequest

TYPED = ["--total-steps=60", "--hidden", "4", "--evaluate-episodes=2", "--pool=inline"]
TYPED += ["--no-tensorboard", "--quiet"]
HEAD = """
from dataclasses import dataclass, field
from typing import ClassVar
import numpy
from drumline.recipes.cem import CEM
"""
MINE = f"""{HEAD}
@dataclass(frozen=True)
class Mine(CEM):
    extra: float = 0.5
"""
BARE = """
    env: str
    seed: int = 0
    total_steps: int = 60
    evaluate_every: int = 0
    evaluate_episodes: int = 2
    promise: bool = True
"""


class Remembering(ThreadNodes):
    """Nodes that keep what their hosts were started with."""

    def __init__(self, *cores: int):
        super().__init__(*cores)
        self.specs: list[HostSpec] = []

    def start(self, node: Node, spec: HostSpec, cores: int) -> ThreadLink:
        self.specs.append(spec)
        return super().start(node, spec, cores)


def with_line(line: str, decorator: str = "@dataclass(frozen=True)") -> str:
    """Return a module whose class Mine has one more line than CEM."""
    return f"{HEAD}\n{decorator}\nclass Mine(CEM):\n    {line}\n"


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Terminal]:
    """A terminal in a directory whose modules no later test finds imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    importlib.invalidate_caches()
    yield Terminal(capfd)
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    importlib.invalidate_caches()


def written(source: str) -> None:
    Path("own.py").write_text(source)


def installed(package: str, entries: str) -> None:
    """Pretend that a package is installed here, with entry points."""
    folder = Path(f"{package.replace('-', '_')}-1.0.dist-info")
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[drumline.methods]\n{entries}\n")
    sys.path.insert(0, str(Path.cwd()))
    importlib.invalidate_caches()


def assert_refused(ended: Ended, *said: str) -> None:
    """One line on stderr, exit code 2, and no run folder."""
    assert ended.code == 2, ended
    assert ended.out == ""
    assert ended.err.count("\n") == 1, ended.err
    assert ended.err.startswith("drumline: ")
    for words in said:
        assert words in ended.err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("Mine = 3", "own:Mine is no method: it must be a frozen dataclass with build(layout), "),
        ("def Mine(env): ...", "is no method: it must be a frozen dataclass"),
        ("class Mine:\n    env: str", "is no method: it must be a frozen dataclass"),
        (f"{HEAD}@dataclass\nclass Mine:{BARE}", "own:Mine must be @dataclass(frozen=True)"),
        (f"{HEAD}@dataclass(frozen=True)\nclass Mine:{BARE}", "it has no build(layout)"),
        (with_line("rate = 0.5"), "rate has no type, so it would be no flag: write rate: float"),
        (
            with_line("rate: float", "@dataclass(frozen=True, kw_only=True)"),
            "own:Mine: field rate has no default; only env has none",
        ),
        (with_line("promise = False"), "promise has no type, so it would be no flag"),
        (with_line("workers: int = 3"), "field workers has the name of a flag of drumline train"),
        (
            with_line("out: str = ''"),
            "own:Mine: field out has the name of a flag of drumline train",
        ),
        (with_line("no_promise: str = ''"), "give it another, or make it a ClassVar"),
        (with_line("no_tensorboard: int = 3"), "field no_tensorboard has the name of a flag"),
        (with_line("rate: float"), "importing own raised TypeError: non-default argument 'rate'"),
        (
            f"{HEAD}@dataclass(frozen=True)\nclass Mine:\n    env: str\n    seed: int = 0\n"
            "    def build(self, layout): ...",
            "lacks the fields total_steps, evaluate_every, evaluate_episodes, promise",
        ),
        (
            f"{HEAD}@dataclass(frozen=True)\nclass Mine:{BARE.replace('    seed: int = 0', '')}"
            "    def build(self, layout): ...",
            "own:Mine lacks the field seed",
        ),
        (with_line("rule: object = len"), "config.json can hold text, numbers"),
        (with_line("rates: tuple = ((1, 2), 3)"), "field rates has the default ((1, 2), 3)"),
        (with_line("rates: list = field(default_factory=list)"), "rates has the default []"),
        (
            with_line("rate: float = field(default=0.5, init=False)"),
            "field rate is no argument (init=False)",
        ),
        (
            with_line("rate: float = field(default_factory=lambda: 1 / 0)"),
            "making the default of rate raised ZeroDivisionError",
        ),
        (with_line("rate: 'Unknown' = 0"), "reading the types of its fields raised NameError"),
        (
            with_line('PRESETS: ClassVar = {"CartPole-v1": {"elite": 2}}'),
            "own:Mine: the preset of CartPole-v1 has no field elite",
        ),
        (with_line("PRESETS: ClassVar = [1]"), "PRESETS must map environment ids to fields"),
        (with_line("GOES_WITH: ClassVar = [1]"), "GOES_WITH must map fields to pairs"),
        (
            with_line('GOES_WITH: ClassVar = {"elites": ("seed", "12")}'),
            "GOES_WITH must map fields to pairs of another field and a tuple of its values as text",
        ),
        (with_line('GOES_WITH: ClassVar = {"elite": ("seed", ("1",))}'), "names no field elite"),
        (with_line('GOES_WITH: ClassVar = {"elites": ("sed", ("1",))}'), "names no field sed"),
        (with_line('GOES_WITH: ClassVar = {"elites": ("seed", (1,))}'), "pairs of another field"),
        (with_line("PRESETS_WITH: ClassVar = {'seed': dict}"), "PRESETS_WITH must map pairs"),
        (with_line("PRESETS_WITH: ClassVar = {('seed', '1'): {}}"), "PRESETS_WITH must map pairs"),
        (with_line("PRESETS_WITH: ClassVar = {('sed', '1'): dict}"), "names no field sed"),
        (
            with_line('PRESETS: ClassVar = {"CartPole-v1": {"elites": 99}}'),
            "drumline: --elites",
        ),
        (
            with_line('PRESETS: ClassVar = {"CartPole-v1": {"env": "CartPole-v1"}}'),
            "own:Mine: the preset of CartPole-v1 sets env, which is its key",
        ),
        (with_line("LAYOUT: ClassVar = 3"), "own:Mine: LAYOUT must be Layout or a class of its"),
        (with_line('ENGINE: ClassVar = "brax"'), "ENGINE must be gymnasium or envpool, got 'brax'"),
        ("1 / 0", "own:Mine: importing own raised ZeroDivisionError: division by zero ("),
        ("import absent_module", "importing own raised ModuleNotFoundError"),
        ("class Mine(", "importing own raised SyntaxError"),
        ("raise SystemExit('no licence')", "importing own raised SystemExit: no licence"),
        ("Other = 3", "own:Mine: module own has no 'Mine'"),
        (with_line("def build(self, layout): raise KeyError('x')"), "build raised KeyError: 'x' ("),
        (with_line("def build(self, layout): numpy.ones(2) @ numpy.ones(3)"), "own.py, line 9)"),
        (with_line("def build(self, layout): raise SystemExit('stop')"), "raised SystemExit: stop"),
        (with_line("def build(self): ..."), "own:Mine: build raised TypeError"),
        (with_line("def build(self, layout): ..."), "build returned NoneType, not one of the"),
        (with_line("def resolved(self): 1 / 0"), "own:Mine: resolved raised ZeroDivisionError"),
        (with_line("def packages(self): 1 / 0"), "own:Mine: packages raised ZeroDivisionError"),
        (with_line("def __post_init__(self): 1 / 0"), "making its config raised ZeroDivisionError"),
        (
            with_line("def __post_init__(self): raise ValueError('--seed must be 7')"),
            "drumline: own:Mine: --seed must be 7\n",
        ),
    ],
)
def test_what_is_no_method_is_refused_in_one_sentence(terminal: Terminal, source: str, said: str):
    written(source)
    assert_refused(terminal("train", "own:Mine", "CartPole-v1", *TYPED), said)


@pytest.mark.parametrize("line", ["no_promise = 'a robot'", "no_promise: ClassVar = 'a robot'"])
def test_a_reason_without_a_promise_needs_no_type(terminal: Terminal, line: str):
    written(with_line(line))
    assert terminal("train", "own:Mine", "CartPole-v1", *TYPED, "--out=run").code == 0
    assert RunFolder.open("run").document["promise"] == "no promise: a robot"


def test_a_field_named_device_means_one_only_with_the_name_of_one(terminal: Terminal):
    # A GPU that is not here is the affair of the method, which may look for one by itself.
    for device, promised in (("left", True), ("cpu:0", False), ("cuda", False)):
        written(with_line(f"device: str = {device!r}"))
        sys.modules.pop("own", None)
        name = f"run-{device[:3]}"
        assert terminal("train", "own:Mine", "CartPole-v1", *TYPED, f"--out={name}").code == 0
        document = RunFolder.open(name).document
        assert document["promise"].startswith("the same bits") == promised
        assert ("device" in document["machine"]) != promised


def write_fixed_promise() -> None:
    fields = BARE.replace("promise: bool = True", "promise = False")
    build = "CEM(env=self.env, total_steps=60, hidden=(4,), evaluate_episodes=2).build(layout)"
    source = f"{HEAD}@dataclass(frozen=True)\nclass Mine:{fields}"
    written(f"{source}    def build(self, layout):\n        return {build}\n")


def test_a_promise_that_stands_fixed_in_the_class_needs_no_type(terminal: Terminal):
    write_fixed_promise()
    words = ["--pool=inline", "--no-tensorboard", "--quiet", "--out=run"]
    assert terminal("train", "own:Mine", "CartPole-v1", *words).code == 0
    assert RunFolder.open("run").document["promise"].startswith("no promise: ")


def test_a_method_with_a_fixed_promise_trains_on_nodes_without_their_proof(terminal: Terminal):
    write_fixed_promise()
    sys.path.insert(0, str(Path.cwd()))
    layout, nodes = SearchLayout(pool="ray", tensorboard=False), Remembering(1, 1)
    config = find_method("own:Mine").made("CartPole-v1", None)
    folder = folder_for(Path("run"), config, layout)
    config.build(layout).opened(RunRequest(folder, layout, silent(), nodes=nodes)).run()
    assert (folder.path / "policy-last.json").is_file()
    assert nodes.specs
    assert not any(spec.proof for spec in nodes.specs)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent:Mine", "absent:Mine: importing absent raised ModuleNotFoundError"),
        ("own.deeper:Mine", "importing own.deeper raised ModuleNotFoundError"),
        ("own:", "is no place of a class: write package.module:Class"),
        (":Mine", "is no place of a class: write package.module:Class"),
        ("own:Mine.Inner", "module own has no 'Mine.Inner'"),
        ("own", "unknown method 'own': there are es, "),
    ],
)
def test_a_place_without_a_class_is_named(terminal: Terminal, name: str, said: str):
    written(MINE)
    assert_refused(terminal("train", name, "CartPole-v1", *TYPED), said)


def test_a_typed_value_that_its_class_cannot_take_is_one_sentence(terminal: Terminal):
    written(f"{MINE}    def __post_init__(self): 1 / (self.extra - 3)\n")
    ended = terminal("train", "own:Mine", "CartPole-v1", "--extra=3", *TYPED)
    assert_refused(ended, "own:Mine: making its config raised ZeroDivisionError")


def test_doctor_refuses_the_same(terminal: Terminal):
    written("Mine = 3")
    ended = terminal("doctor", "CartPole-v1", "--method=own:Mine")
    assert_refused(ended, "own:Mine is no method")


def test_an_entry_point_names_a_method_that_needs_no_trust(terminal: Terminal):
    written(MINE)
    installed("mine-package", "mine = own:Mine")
    (line,) = (x for x in terminal("train", "--help").out.splitlines() if x.startswith("  mine "))
    assert line.split(maxsplit=1) == ["mine", "of an installed package: own:Mine"]
    assert terminal("train", "mine", "CartPole-v1", *TYPED, "--out=run").code == 0
    document = RunFolder.open("run").document
    assert document["method"] == "mine"
    assert document["versions"]["mine-package"] == "1.0"
    assert "mine-package" in document["computed_by"]
    ended = terminal("resume", "run", "--total-steps=90", "--pool=inline", "--quiet")
    assert ended.code == 0, ended.err
    config = drumline.load("run").config
    assert (type(config).__name__, config.extra, config.total_steps) == ("Mine", 0.5, 90)
    metadata = Path("mine_package-1.0.dist-info/METADATA")
    metadata.write_text(metadata.read_text().replace("1.0", "1.1"))
    refused = terminal("resume", "run", "--total-steps=120", "--pool=inline", "--quiet")
    assert refused.code == 2
    assert "mine-package 1.0 there, 1.1 here" in refused.err


def test_a_class_of_an_entry_point_trained_from_python_is_found_by_its_name(terminal: Terminal):
    written(MINE)
    installed("mine-package", "mine = own:Mine")
    config = find_method("own:Mine").config(env="CartPole-v1", total_steps=40, evaluate_episodes=1)
    run = drumline.train(config, workers="inline", out="run")
    assert run.folder.document["method"] == "mine"


def test_two_packages_with_the_same_name_are_refused_where_the_name_is_used(terminal: Terminal):
    written(f"{MINE}\nclass Other(Mine): ...\n")
    installed("one", "mine = own:Mine")
    installed("two", "mine = own:Other")
    both = "two installed packages call a method 'mine': own:"
    assert_refused(terminal("train", "mine", "CartPole-v1", *TYPED), both, "name the class")
    assert find_method("es").name == "es"
    assert terminal("train", "own:Mine", "CartPole-v1", *TYPED, "--out=run").code == 0
    assert RunFolder.open("run").document["method"] == "own:Mine"  # `mine` could be another's


def test_a_package_cannot_take_the_name_of_drumlines_own_method(terminal: Terminal):
    written(MINE)
    installed("greedy", "es = own:Mine")
    ended = terminal("train", "es", "CartPole-v1", *TYPED)
    assert_refused(ended, "'es' is Drumline's own method", "drumline train own:Mine ENV")
    assert terminal("train", "own:Mine", "CartPole-v1", *TYPED, "--out=run").code == 0
    assert RunFolder.open("run").document["method"] == "own:Mine"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("mine = own:Absent", "mine: loading own:Absent raised AttributeError"),
        ("mine = absent:Mine", "mine: loading absent:Mine raised ModuleNotFoundError"),
        ("mine = own:HEAD", "mine is no method: it must be a frozen dataclass"),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_named(terminal: Terminal, entry: str, said: str):
    written(f"{MINE}\nHEAD = 3\n")
    installed("mine-package", entry)
    assert_refused(terminal("train", "mine", "CartPole-v1", *TYPED), said)


def test_a_misspelt_entry_point_is_guessed(terminal: Terminal):
    written(MINE)
    installed("mine-package", "particular = own:Mine")
    assert_refused(
        terminal("train", "particulr", "CartPole-v1", *TYPED), "did you mean particular?"
    )


def test_a_folders_method_is_imported_only_where_it_is_needed_and_trusted(terminal: Terminal):
    written(MINE)
    assert terminal("train", "own:Mine", "CartPole-v1", *TYPED, "--out=run").code == 0
    written(f"{MINE}\nimport pathlib\npathlib.Path('imported').touch()\n")
    Path("imported").unlink(missing_ok=True)
    del sys.modules["own"]
    for command in ("report", "plot", "compare"):
        ended = terminal(command, "run")
        assert ended.code == 0, ended.err
    for command in ("evaluate", "enjoy"):  # its policy and environment are drumline's own
        ended = terminal(command, "run")
        assert ended.code == 0, ended.err
    for command in ("resume", "verify", "episode"):
        ended = terminal(command, "run", *(["--member=0"] if command == "episode" else []))
        assert ended.code == 2
        assert "names code to import (own:Mine)" in ended.err
        assert ended.err.rstrip().endswith("--trust-code")
    assert not Path("imported").exists()
    words = ("--updates=1", "--pool=inline", "--trust-code")
    assert terminal("verify", "run", *words).code == 0
    assert Path("imported").exists()


def test_a_folder_whose_class_has_changed_says_which_field(terminal: Terminal):
    written(MINE)
    assert terminal("train", "own:Mine", "CartPole-v1", *TYPED, "--out=run").code == 0
    path = Path("run/config.json")
    document = json.loads(path.read_text())
    for change, said in (
        ({"newer": 1}, "config.json has fields that own:Mine does not know: newer"),
        ({"extra": None}, "config.json lacks fields of own:Mine: extra"),
    ):
        fields = {**document["config"], **change}
        fields = {name: value for name, value in fields.items() if value is not None}
        path.write_text(json.dumps({**document, "config": fields}))
        ended = terminal("resume", "run", "--trust-code", "--pool=inline")
        assert ended.code == 2
        assert said in ended.err


def test_a_method_of_the_script_itself_is_refused():
    @dataclass(frozen=True)
    class Mine(CEM):
        """A class whose module no later process could import."""

    Mine.__module__ = "__main__"
    with pytest.raises(ValueError, match="script or notebook itself"):
        drumline.train(Mine(env="CartPole-v1"), workers="inline")


def test_a_method_inside_a_function_is_refused():
    @dataclass(frozen=True)
    class Mine(CEM):
        """A class that its module does not name."""

    with pytest.raises(ValueError, match=r"<locals>\.Mine"):
        drumline.train(Mine(env="CartPole-v1"), workers="inline")


def test_installed_packages_are_looked_through_again_once_one_has_come(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    looked: list[Any] = []

    def looking(**group: Any) -> Any:
        looked.append(group)
        return entry_points(**group)

    monkeypatch.setattr(outside_methods, "entry_points", looking)
    outside_methods.registered()
    before = len(looked)
    assert "come-later" not in outside_methods.registered()
    assert len(looked) == before
    installed("come-later", "come-later = own:Mine")
    assert [point.value for point in outside_methods.registered()["come-later"]] == ["own:Mine"]
    assert len(looked) == before + 1
