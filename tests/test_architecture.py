"""The import table of docs/architecture.md, checked against every import in src/drumline."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "drumline"
FORBIDDEN_NAMES = {"utils", "common", "helpers", "misc", "base", "manager", "agent"}
HEAVY = {"numpy", "torch", "gymnasium", "envpool", "scipy", "rich", "matplotlib", "tyro"}


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True)
class Room:
    """Imports that files of one room may have: our rooms, and top-level packages from outside."""

    ours: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()
    for_types_only: frozenset[str] = frozenset()
    only_in: dict[str, frozenset[str]] = field(default_factory=dict)
    never_in: dict[str, frozenset[str]] = field(default_factory=dict)


FOUNDATION = Room(
    names("types tasks protocols crew_protocols errors seeding"),
    names("numpy"),
    for_types_only=names("torch"),
)
TABLE = {
    **dict.fromkeys(
        ("types", "tasks", "protocols", "crew_protocols", "errors", "seeding"), FOUNDATION
    ),
    "functional": Room(
        names("types seeding"),
        names("numpy torch scipy jaxtyping"),
        only_in=dict.fromkeys(("low_rank", "numpy_threads"), names("threadpoolctl")),
    ),
    "policies": Room(
        names("functional types tasks errors protocols seeding"),
        names("numpy torch jaxtyping"),
        only_in={
            "actor_critic": names("threadpoolctl"),
            "initial_layers": names("threadpoolctl"),
        },
    ),
    "buffers": Room(names("functional types"), names("numpy torch jaxtyping")),
    "envs": Room(
        names("functional types tasks errors protocols seeding"),
        names("gymnasium envpool numpy"),
        only_in={"atari": names("ale_py cv2"), "lean_mujoco": names("mujoco")},
    ),
    "algorithms": Room(
        names("functional policies types tasks errors seeding"),
        names("numpy torch jaxtyping"),
        only_in={"optimizer_packages": names("cma nevergrad")},
    ),
    "workers": Room(
        names(
            "envs policies buffers functional types tasks errors protocols crew_protocols seeding"
        ),
        names("numpy torch"),
        never_in={"executor": names("torch")},
    ),
    "runtime": Room(
        names("types errors protocols crew_protocols"),
        names("numpy"),
        only_in={
            **dict.fromkeys(names("ray_cluster ray_link ray_places ray_pool"), names("ray")),
            "machine_use": names("psutil"),
        },
    ),
    "schedules": Room(names("types tasks errors protocols crew_protocols")),
    "runs": Room(names("types tasks"), names("numpy safetensors msgspec tensorboard google")),
    "stores": Room(names("runs"), names("msgspec"), only_in={"object_store": names("fsspec")}),
    "display": Room(
        names("functional runs types tasks"), names("numpy rich matplotlib plotly imageio")
    ),
}
_ROOMS = frozenset(TABLE)
_OUTSIDE = frozenset().union(*(room.outside for room in TABLE.values()))
TABLE |= {
    "populations": Room(
        names("algorithms buffers functional types tasks errors protocols seeding"), names("numpy")
    ),
    # Runs any method, so knows none: strategies, learners and populations are handed in.
    "training": Room(_ROOMS - {"algorithms"}, names("numpy threadpoolctl")),
    "recipes": Room(_ROOMS | {"populations", "training"}, _OUTSIDE),
    "api": Room(_ROOMS | {"training", "recipes"}, _OUTSIDE),
    "commands": Room(
        _ROOMS | {"training", "recipes", "api"},
        _OUTSIDE,
        only_in={"exported_files": names("onnxruntime onnxscript")},
    ),
    "cli": Room(names("commands recipes"), names("tyro")),
    "__main__": Room(names("cli")),
    "__init__": Room(_ROOMS | {"training", "recipes", "api"}),  # the public names, lazily
}


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    for_types: bool


def imports(tree: ast.AST, for_types: bool = False) -> Iterator[Import]:
    """Every import of a file, also inside functions and by `importlib.import_module("…")`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, for_types)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                yield Import(f"{module}.{alias.name}", node.lineno, for_types)
        elif isinstance(node, ast.Call) and _imports_by_name(node):
            argument = node.args[0]
            assert isinstance(argument, ast.Constant)
            yield Import(str(argument.value), node.lineno, for_types)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from imports(ast.Module(node.body, []), True)
            yield from imports(ast.Module(node.orelse, []), for_types)
        else:
            yield from imports(node, for_types)


def _imports_by_name(call: ast.Call) -> bool:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    literal = bool(call.args) and isinstance(call.args[0], ast.Constant)
    return called in {"import_module", "__import__"} and literal


def violations(path: Path, source: str, table: dict[str, Room] = TABLE) -> list[str]:
    """Return the imports of one file that break the table; `path` is relative to src/drumline."""
    place = path.parts[0] if len(path.parts) > 1 else path.stem
    if place not in table:
        return [f"{path}: the room `{place}` is not in the import table"]
    room = table[place]
    outside = room.outside | room.only_in.get(path.stem, frozenset())
    outside -= room.never_in.get(path.stem, frozenset())
    found = []
    for entry in imports(ast.parse(source)):
        parts = entry.module.split(".")
        if parts[0] == "drumline":
            allowed = len(parts) > 1 and (parts[1] == place or parts[1] in room.ours)
        else:
            allowed = parts[0] in sys.stdlib_module_names or parts[0] in outside
            allowed = allowed or (entry.for_types and parts[0] in room.for_types_only)
        if entry.module.endswith(".*"):
            found.append(f"{path}:{entry.line}: import *")
        if not allowed:
            found.append(f"{path}:{entry.line}: `{place}` may not import `{entry.module}`")
    return found


def test_every_import_is_in_the_table():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        found += violations(path.relative_to(SOURCE), path.read_text(encoding="utf-8"))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("schedules/generational.py", "import numpy as np"),
        ("schedules/generational.py", "from drumline.algorithms.openai_es import OpenAIES"),
        ("workers/evaluator.py", "def run():\n    from drumline import algorithms"),
        ("workers/executor.py", "import torch"),
        ("functional/ranking.py", "from drumline.runtime.child import main"),
        ("functional/ranking.py", "from numpy import *"),
        ("functional/ranking.py", "from . import moments"),
        ("runtime/process_pool.py", "def start():\n    import ray"),
        ("stores/mirror.py", "import fsspec"),
        ("runtime/child.py", "importlib.import_module('torch')"),
        ("types.py", "import torch"),
        ("envs/make.py", "try:\n    import torch\nexcept ImportError:\n    pass"),
        ("algorithms/openai_es.py", "import cma"),
        ("recipes/es.py", "import drumline.commands"),
        ("api/run.py", "from drumline.commands.list import command"),
        ("training/stream_run.py", "from drumline.algorithms.td3 import TD3"),
        ("training/steady_run.py", "from drumline.recipes.aes import AES"),
        ("populations/aes.py", "from drumline.training.ledger import Ledger"),
        ("cli.py", "import drumline"),
        ("tools/anything.py", ""),
    ],
)
def test_a_forbidden_import_is_found(path: str, source: str):
    assert len(violations(Path(path), source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("types.py", "import typing\nif typing.TYPE_CHECKING:\n    import torch"),
        ("runtime/cluster/ray_pool.py", "import ray.util"),
        ("algorithms/optimizer_packages.py", "import cma"),
        ("workers/evaluator.py", "from drumline import seeding\nimport torch.nn"),
        ("schedules/steady_state.py", "import heapq\nfrom drumline.protocols import WorkerPool"),
    ],
)
def test_an_allowed_import_is_not_complained_about(path: str, source: str):
    assert violations(Path(path), source) == []


def test_processes_of_one_machine_know_no_crew_and_no_cluster():
    parts = {"drumline.runtime.crews", "drumline.runtime.cluster"}
    for part in ("", "crews", "cluster"):
        others = parts - {f"drumline.runtime.{part}"}
        for path in sorted((SOURCE / "runtime" / part).glob("*.py")):
            for entry in imports(ast.parse(path.read_text(encoding="utf-8"))):
                assert not any(entry.module.startswith(other) for other in others), path


def test_no_file_has_a_name_that_says_nothing():
    parts = {p.stem for p in SOURCE.rglob("*")} - {"__init__"}
    assert not parts & FORBIDDEN_NAMES


def test_importing_drumline_imports_nothing_heavy():
    code = "import sys, drumline; print(*(name for name in sys.modules if '.' not in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())


def imported_by(path: Path, modules: dict[str, Path]) -> set[str]:
    """Our modules that a file imports at run time, inside functions too."""
    found: set[str] = set()
    for entry in imports(ast.parse(path.read_text(encoding="utf-8"))):
        name = entry.module if entry.module in modules else entry.module.rpartition(".")[0]
        if name in modules and modules[name] != path and not entry.for_types:
            found.add(name)
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules left after removing, repeatedly, those that import none of the rest."""
    left = {name: set(others) for name, others in graph.items()}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


def test_no_files_import_each_other_in_a_circle():
    modules = {
        ".".join(("drumline", *path.relative_to(SOURCE).with_suffix("").parts)): path
        for path in SOURCE.rglob("*.py")
        if path.stem != "__init__"
    }
    graph = {name: imported_by(path, modules) for name, path in modules.items()}
    assert circle(graph) == []


def test_a_circle_is_found_with_all_that_leads_to_it():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]
