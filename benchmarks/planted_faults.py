"""Do the tests find what they are there for? Faults are planted one by one, and tests are run.

    python benchmarks/planted_faults.py [--only SUBSTRING…] [--whole] [--both]

Each fault of planted_faults_table.py breaks one mechanism. It is put into a copy of the work tree,
and the tests of that mechanism are run there: first those of `make test`, and where they find
nothing those of `make test-faults`. A line says which found it, and by which test.

`--whole` runs all tests instead of a mechanism's own, `--both` runs the fault campaigns even where
`make test` has found the fault. The same tests are run without any fault first: they must pass.
Exit code 1: a fault that neither finds, or fewer than 16 that `make test` finds, or a fault that
cannot be planted because its text is not there exactly once.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from planted_faults_table import FAULTS, Fault

TREE = Path(__file__).resolve().parents[1]
SCOPES = {"make test": "not slow and not faults", "make test-faults": "faults and not slow"}
LEAST_BY_TEST = 16
PASSED, FAILED, NOTHING_TO_RUN = 0, 1, 5  # pytest's exit codes
TEST_SECONDS = 90


class NotPlanted(Exception):
    """A fault whose text is not in its file exactly once, or that leaves no tests to run."""


class Outcome(NamedTuple):
    """Whether tests found a fault, and the first one that did."""

    found: bool
    by: str = ""


def copied(tree: Path, place: Path) -> None:
    """Copy the files of a work tree, without those that git ignores."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=tree, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (tree / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / name, place / name)


@contextmanager
def planted(fault: Fault, tree: Path) -> Iterator[None]:
    """Break a tree for a while."""
    before: dict[Path, str] = {}
    try:
        for edit in fault.edits:
            path = tree / edit.file
            text = path.read_text()
            before.setdefault(path, text)
            count = text.count(edit.old)
            if count != 1:
                raise NotPlanted(f"{fault.name}: {edit.file} has {count} times {edit.old!r}")
            path.write_text(text.replace(edit.old, edit.new))
        yield
    finally:
        for path, text in before.items():
            path.write_text(text)


def run(tree: Path, scope: str, tests: Sequence[str], *, first: bool = True) -> Outcome:
    """Run tests in a tree, to the `first` that fails; raises where pytest itself does."""
    words = [sys.executable, "-m", "pytest", "-q", "-m", SCOPES[scope], "-p", "no:cacheprovider"]
    words += ["-o", f"timeout={TEST_SECONDS}", "--no-header", "--tb=no", *tests]
    if first:
        words.append("-x")
    if not tests:
        words += ["-n", "logical", "--maxprocesses", "4", "--dist", "loadfile"]
    environ = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        words, cwd=tree, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode in (PASSED, NOTHING_TO_RUN):
        return Outcome(False)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode != FAILED or failed is None:
        raise NotPlanted(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return Outcome(True, failed[1])


def refuse_failing_tests(tree: Path, scopes: Sequence[str], tests: Sequence[str]) -> None:
    """Exit where tests fail without a fault: they would seem to find every one."""
    for scope in scopes:
        if (outcome := run(tree, scope, tests, first=False)).found:
            sys.exit(f"{outcome.by} fails without a fault: mend that first")


def judged(fault: Fault, tree: Path, *, whole: bool, both: bool) -> dict[str, Outcome]:
    """Plant a fault and say which scope found it."""
    outcomes: dict[str, Outcome] = {}
    with planted(fault, tree):
        for scope in SCOPES:
            if both or not any(outcome.found for outcome in outcomes.values()):
                outcomes[scope] = run(tree, scope, () if whole else fault.tests)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[""], help="faults with this in their name")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--both", action="store_true")
    options = parser.parse_args()
    chosen = [fault for fault in FAULTS if any(part in fault.name for part in options.only)]
    by: dict[str, int] = dict.fromkeys([*SCOPES, "neither"], 0)
    with tempfile.TemporaryDirectory(prefix="drumline-planted-") as place:
        tree = Path(place)
        copied(TREE, tree)
        try:
            for fault in chosen:
                with planted(fault, tree):
                    pass
            tests = sorted({name for fault in chosen for name in fault.tests})
            refuse_failing_tests(tree, [*SCOPES], () if options.whole else tests)
            for fault in chosen:
                outcomes = judged(fault, tree, whole=options.whole, both=options.both)
                found = [scope for scope, outcome in outcomes.items() if outcome.found]
                by[found[0] if found else "neither"] += 1
                said = "; ".join(f"{scope}: {outcomes[scope].by}" for scope in found)
                print(f"{fault.name}: {said or 'NOT FOUND'}", flush=True)
        except NotPlanted as error:
            sys.exit(str(error))
    print(", ".join(f"{count} by {scope}" for scope, count in by.items()))
    least = min(LEAST_BY_TEST, len(chosen))
    sys.exit(by["neither"] > 0 or by["make test"] < least)


if __name__ == "__main__":
    main()
