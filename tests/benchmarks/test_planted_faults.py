"""Planted faults: each has its place in the tree, and a fault that no test finds is called so."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import BENCHMARKS, load_script
from campaigns import FAULTS

planted_faults = load_script("", "planted_faults")
TREE = BENCHMARKS.parent


@pytest.mark.parametrize("fault", planted_faults.FAULTS, ids=lambda fault: fault.name)
def test_every_fault_can_be_planted_and_has_tests(fault: Any):
    for edit in fault.edits:
        assert (TREE / edit.file).read_text().count(edit.old) == 1, edit.old
        compile((TREE / edit.file).read_text().replace(edit.old, edit.new), edit.file, "exec")
    assert all((TREE / place).exists() for place in fault.tests)


def test_there_are_twenty_each_of_its_own():
    assert len({fault.name for fault in planted_faults.FAULTS}) == 20


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with one module and a test in each scope."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which take longer than the tests
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "sums.py").write_text("def added(a, b):\n    return a + b + 0\n")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["faults: campaigns", "slow: slow"]\n'
    )
    (tmp_path / "test_sums.py").write_text(
        "import pytest\nimport sums\n\n"
        "def test_small():\n    assert sums.added(1, 1) < 3\n\n"
        "@pytest.mark.faults\ndef test_large():\n    assert sums.added(2, 3) == 5\n"
    )
    return tmp_path


def fault_of(old: str, new: str) -> Any:
    edit = type(planted_faults.FAULTS[0].edits[0])("src/sums.py", old, new)
    return planted_faults.Fault("sums", (edit,), ("test_sums.py",))


@pytest.mark.parametrize(
    ("new", "found_by"),
    [
        ("a * b", {"make test-faults"}),
        pytest.param("a + b + 9", {"make test"}, marks=FAULTS),
        pytest.param("b + a", set(), marks=FAULTS),
    ],
)
def test_a_fault_is_found_by_the_scope_whose_test_fails(tree: Path, new: str, found_by: set[str]):
    fault = fault_of("a + b + 0", new)
    outcomes = planted_faults.judged(fault, tree, whole=False, both=False)
    assert {scope for scope, outcome in outcomes.items() if outcome.found} == found_by
    assert (tree / "src" / "sums.py").read_text().endswith("a + b + 0\n")


@pytest.mark.parametrize(("old", "new"), [("nowhere", "x"), ("a", "x"), ("a + b + 0", "a +")])
def test_a_fault_without_its_place_or_that_breaks_the_module_is_no_finding(
    tree: Path, old: str, new: str
):
    with pytest.raises(planted_faults.NotPlanted):
        planted_faults.judged(fault_of(old, new), tree, whole=False, both=False)


def test_tests_that_fail_without_a_fault_are_named(tree: Path):
    with (tree / "test_sums.py").open("a") as file:
        file.write("\ndef test_red():\n    assert False\n")
    with pytest.raises(SystemExit, match="test_red fails without a fault"):
        planted_faults.refuse_failing_tests(tree, ["make test"], ["test_sums.py"])
