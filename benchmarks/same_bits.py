"""Do two commits compute the same bits? Short runs of every method at both, compared bit by bit.

    python benchmarks/same_bits.py --against COMMIT [--keep DIR] [--only SUBSTRING…] [--jobs N]
    python benchmarks/same_bits.py --against-folder DIR

The runs of same_bits_cases.py are made with the work tree and with COMMIT (checked out aside), and
each case's line says `equal`, or the first update and the column, tensor or counter that differs.
Compared are fingerprints.csv, metrics.csv without its columns of wall-clock time, evaluations.csv,
episodes.csv, every tensor and counter of the last checkpoint, the saved policies and the replay.
Exit code 1: a case that is not excused differs, or fails.

`--keep DIR` leaves COMMIT's runs in DIR/<commit>/ and uses those that are there already, where the
case and the machine are still the same; DIR/tree/ has the work tree's latest runs.
"""

import argparse
import csv
import fnmatch
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from provenance import one_blas_thread, processor
from safetensors.numpy import load_file
from same_bits_cases import EXCUSED, Case, cases
from warm_runs import TIMED_OUT

from drumline.runs.append_file import whole_lines
from drumline.runs.checkpoint import COUNTERS_FILE, STATE_FILE
from drumline.runs.fingerprints import first_difference, read_chain
from drumline.runs.folder import RunError

BENCHMARKS = Path(__file__).resolve().parent
TREE = BENCHMARKS.parent
SECONDS = 120.0
"""A command that takes longer has failed."""
TABLES = ("metrics.csv", "evaluations.csv", "episodes.csv")
POLICIES = ("policy-best.safetensors", "policy-last.safetensors")
"""Older commits keep the best policy of the last checkpoint beside them, newer ones in it."""


class BitDifference(NamedTuple):
    """A place where two run folders differ."""

    update: int
    place: str


class Ending(NamedTuple):
    """Ends of the commands of a case."""

    folder: Path
    code: int
    message: str
    """The last line that the failed command printed; empty without a failure."""


class Verdict(NamedTuple):
    """Verdict of the comparison of a case."""

    kind: str
    """equal, differs, or fails."""
    text: str


def main() -> int:
    flags = _flags()
    table = [case for case in cases() if _asked(case, flags.only)]
    if flags.list:
        print("\n".join(case.name for case in table))
        return 0
    if not table:
        print("no case has such a name; --list shows all", file=sys.stderr)
        return 2
    excused = {**EXCUSED, **dict.fromkeys(flags.excuse, "--excuse")}
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        old = _old_runs(stack, flags, table)
        new = Runs(TREE, _place(stack, flags.keep, "tree"), fresh=True)
        for case, verdict in _verdicts(stack, table, old, new, flags.jobs):
            counts[_report(case, verdict, excused)] += 1
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return 1 if counts["differs"] or counts["fails"] else 0


class Runs:
    """The runs of one tree, each in a folder of its case."""

    def __init__(self, tree: Path | None, place: Path, *, fresh: bool = False):
        self.tree = tree
        """The checkout; None if the runs are there and none can be made."""
        self.place = place
        self.fresh = fresh
        """Whether each run is made again even where one is there."""

    def has(self, case: Case) -> bool:
        """Whether the case has been run here, with these words, on such a machine."""
        try:
            known = json.loads((self.place / case.name / "case.json").read_text())
        except (OSError, ValueError):
            return False
        return known["identity"] == _identity(case) and known["code"] != TIMED_OUT

    def ending(self, case: Case, runner: "Runner | None") -> Ending:
        """Return how the case ended, after running it where that is needed."""
        folder = self.place / case.name
        if self.fresh or not self.has(case):
            if runner is None:
                return Ending(folder, 1, "there is no such run in the folder")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            ended = runner.run(case, folder)
            known = {"identity": _identity(case), **ended}
            (folder / "case.json").write_text(json.dumps(known, indent=1))
        known = json.loads((folder / "case.json").read_text())
        return Ending(folder, known["code"], known["message"])


class Runner:
    """A process of warm_runs.py with the sources of one tree."""

    def __init__(self, tree: Path):
        self._tree = tree
        paths = os.pathsep.join([str(tree / "src"), str(BENCHMARKS)])
        self._process = subprocess.Popen(
            [sys.executable, str(BENCHMARKS / "warm_runs.py")],
            env={**one_blas_thread(), "PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        imported = Path(self._answer()["drumline"])
        if not imported.is_relative_to(tree):
            raise RuntimeError(f"runs of {tree} would import {imported}")

    def run(self, case: Case, folder: Path) -> dict[str, Any]:
        """Run the case's commands in the folder; returns code, message and core seconds."""
        seconds = 0.0
        for words in case.commands():
            order = {"words": words, "place": str(folder), "seconds": SECONDS}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            answer = self._answer()
            seconds += answer["core_seconds"]
            if code := answer["code"]:
                said = self._last_line(folder) or f"exit code {code}"
                said = f"took longer than {SECONDS:g} s" if code == TIMED_OUT else said
                return {"code": code, "message": said, "core_seconds": seconds}
        return {"code": 0, "message": "", "core_seconds": seconds}

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the runs of {self._tree} ended with {self._process.wait()}")
        return json.loads(line)

    def _last_line(self, folder: Path) -> str:
        text = (folder / "output.txt").read_text(errors="replace")
        lines = [line.strip(" │╭╮╰╯─") for line in text.splitlines()]
        told = [line for line in lines if line and not line.startswith("For full helptext")]
        last = told[-1] if told else ""
        return last.replace(str(folder), "FOLDER").replace(str(self._tree), "TREE")


def compare(case: Case, old: Ending, new: Ending) -> Verdict:
    """Compare the two runs of a case."""
    if old.code and new.code and old.message == new.message:
        return Verdict("fails", f"at both, so nothing was compared: {old.message}")
    if old.code or new.code:
        ends = [end.message if end.code else "runs" for end in (old, new)]
        return Verdict("fails", f"there: {ends[0]}; here: {ends[1]}")
    try:
        found = differences(old.folder / "run", new.folder / "run", case.timed)
    except (OSError, ValueError, KeyError) as error:
        return Verdict("fails", f"cannot be compared: {type(error).__name__}: {error}")
    if not found:
        return Verdict("equal", f"{_updates(new.folder / 'run')} updates")
    also = f" (also: {'; '.join(place for _, place in found[1:4])})" if len(found) > 1 else ""
    return Verdict("differs", f"first at update {found[0].update}: {found[0].place}{also}")


def differences(old: Path, new: Path, timed: Sequence[str] = ()) -> list[BitDifference]:
    """Return the first difference of every file, ordered by update; none: all bits are equal.

    `timed` are metrics that are not compared, besides those that a clock measures.
    """
    found = [*_chain_difference(old, new)]
    for name in TABLES:
        found += _table_difference(old / name, new / name, timed)
    last = _updates(new)
    found += _checkpoint_differences(old / "checkpoints", new / "checkpoints")
    for policy in POLICIES:
        found += _tensor_differences(policy, last, *(_tensors(run / policy) for run in (old, new)))
    found += _replay_differences(old, new, last)
    return sorted(found, key=lambda difference: difference.update)


def _chain_difference(old: Path, new: Path) -> Iterator[BitDifference]:
    try:
        chains = [read_chain(run / "fingerprints.csv") for run in (old, new)]
    except RunError as error:
        yield BitDifference(0, str(error))
        return
    difference = first_difference(*chains, whole=True)
    if difference is not None:
        yield BitDifference(difference.update, f"{difference.column} of fingerprints.csv")


def _table_difference(old: Path, new: Path, timed: Sequence[str]) -> Iterator[BitDifference]:
    """Find the first row that differs; a column that only one has differs at the first update."""
    rows, others = _table(old, timed), _table(new, timed)
    if (rows is None) != (others is None):
        yield BitDifference(0, f"{new.name} is {'missing here' if others is None else 'new'}")
    for row, other in zip(rows or [], others or [], strict=False):
        if row == other:
            continue
        update = int(row["update"])
        for column in dict.fromkeys((*row, *other)):
            values = (row.get(column, "no column"), other.get(column, "no column"))
            if values[0] != values[1]:
                where = f"{column} of {new.name} ({values[0]} there, {values[1]} here)"
                yield BitDifference(update, where)
                return
    if rows is not None and others is not None and len(rows) != len(others):
        longer = max(rows, others, key=len)
        where = f"{new.name} has {len(rows)} rows there, {len(others)} here"
        yield BitDifference(int(longer[min(len(rows), len(others))]["update"]), where)


def _table(path: Path, timed: Sequence[str] = ()) -> list[dict[str, str]] | None:
    """Read the columns of a table that do not depend on time; None without a table."""
    if not path.is_file():
        return None
    rows = csv.DictReader(line.decode() for line in whole_lines(path))
    return [
        {name: row[name] for name in row if not by_the_clock(name) and name not in timed}
        for row in rows
    ]


def by_the_clock(column: str) -> bool:
    """Whether a metric is measured by a wall clock.

    >>> by_the_clock("update_core_seconds"), by_the_clock("idle_virtual_seconds")
    (True, False)
    """
    return column.endswith(("_seconds", "_per_second")) and "virtual" not in column


def _checkpoint_differences(old: Path, new: Path) -> Iterator[BitDifference]:
    numbers = [
        sorted(int(path.name) for path in checkpoints.glob("*") if path.name.isdecimal())
        for checkpoints in (old, new)
    ]
    if numbers[0] != numbers[1]:
        yield BitDifference(0, f"checkpoints are {numbers[0]} there, {numbers[1]} here")
        return
    if not numbers[0]:
        return
    last = numbers[0][-1]
    places = [checkpoints / str(last) for checkpoints in (old, new)]
    yield from _tensor_differences(
        "the checkpoint", last, *(_tensors(place / STATE_FILE) for place in places)
    )
    counters = [json.loads((place / COUNTERS_FILE).read_text()) for place in places]
    for name in sorted({*counters[0], *counters[1]}):
        values = [held.get(name, "missing") for held in counters]
        if values[0] != values[1]:
            where = f"counter {name} of the checkpoint ({values[0]} there, {values[1]} here)"
            yield BitDifference(last, where)


def _tensors(path: Path) -> Mapping[str, np.ndarray]:
    return load_file(path) if path.is_file() else {}


def _tensor_differences(
    file: str, update: int, old: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray]
) -> Iterator[BitDifference]:
    for name in sorted({*old, *new}):
        if said := _how_tensors_differ(old.get(name), new.get(name)):
            yield BitDifference(update, f"tensor {name} of {file} ({said})")


def _how_tensors_differ(old: np.ndarray | None, new: np.ndarray | None) -> str:
    """Say how two tensors differ; empty: in no bit."""
    if old is None or new is None:
        return "missing there" if old is None else "missing here"
    if old.dtype != new.dtype or old.shape != new.shape:
        return f"{old.dtype} {old.shape} there, {new.dtype} {new.shape} here"
    if old.tobytes() == new.tobytes():
        return ""
    bits = [np.frombuffer(array.tobytes(), np.uint8).reshape(old.size, -1) for array in (old, new)]
    changed = np.flatnonzero((bits[0] != bits[1]).any(axis=1))
    first = int(changed[0])
    values = f"{old.reshape(-1)[first]!r} there, {new.reshape(-1)[first]!r} here"
    return f"{changed.size} of {old.size} numbers, first number {first}: {values}"


def _replay_differences(old: Path, new: Path, update: int) -> Iterator[BitDifference]:
    names = {f"replay/{path.name}" for run in (old, new) for path in run.glob("replay/*")}
    for name in sorted(names):
        held = [(run / name).read_bytes() if (run / name).is_file() else None for run in (old, new)]
        if held[0] != held[1]:
            yield BitDifference(update, name)


def _updates(run: Path) -> int:
    """Return the number of the last update."""
    rows = _table(run / "metrics.csv")
    return int(rows[-1]["update"]) if rows else 0


def _verdicts(
    stack: ExitStack, table: Sequence[Case], old: Runs, new: Runs, jobs: int
) -> Iterator[tuple[Case, Verdict]]:
    """Run the cases, `jobs` at a time, and compare each as soon as it has ended at both."""
    old_runners = _runners(stack, old, jobs) if any(not old.has(case) for case in table) else None
    new_runners = _runners(stack, new, jobs)

    def verdict(case: Case) -> Verdict:
        endings = []
        for runs, runners in ((old, old_runners), (new, new_runners)):
            with _borrowed(runners) as runner:
                endings.append(runs.ending(case, runner))
        return compare(case, *endings)

    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(verdict, case): case for case in table}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _runners(stack: ExitStack, runs: Runs, jobs: int) -> "SimpleQueue[Runner] | None":
    if runs.tree is None:
        return None
    idle: SimpleQueue[Runner] = SimpleQueue()
    for _ in range(jobs):
        runner = Runner(runs.tree)
        stack.callback(runner.close)
        idle.put(runner)
    return idle


@contextmanager
def _borrowed(idle: "SimpleQueue[Runner] | None") -> Iterator[Runner | None]:
    if idle is None:
        yield None
        return
    runner = idle.get()
    try:
        yield runner
    finally:
        idle.put(runner)


def _report(case: Case, verdict: Verdict, excused: Mapping[str, str]) -> str:
    """Print a case's line; returns what it counts as."""
    print(f"{case.name}: {verdict.kind}, {verdict.text}".rstrip(", "), flush=True)
    reasons = [why for pattern, why in excused.items() if fnmatch.fnmatch(case.name, pattern)]
    if verdict.kind == "equal" or not reasons:
        return verdict.kind
    print(f"  excused: {reasons[0]}", flush=True)
    return "excused"


def _old_runs(stack: ExitStack, flags: argparse.Namespace, table: Sequence[Case]) -> Runs:
    if flags.against_folder:
        return Runs(None, flags.against_folder.resolve())
    commit = _git("rev-parse", "--short=12", f"{flags.against}^{{commit}}")
    runs = Runs(None, _place(stack, flags.keep, commit))
    if any(not runs.has(case) for case in table):
        aside = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="same-bits-")))
        runs.tree = aside.resolve() / "tree"
        _git("worktree", "add", "--detach", str(runs.tree), commit)
        stack.callback(_git, "worktree", "remove", "--force", str(runs.tree))
    return runs


def _place(stack: ExitStack, keep: Path | None, name: str) -> Path:
    if keep is not None:
        return keep.resolve() / name
    temporary = tempfile.TemporaryDirectory(prefix="same-bits-runs-")
    return Path(stack.enter_context(temporary)).resolve()


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(TREE), *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def _identity(case: Case) -> dict[str, Any]:
    """Return what a kept run must agree in to be compared with one of now."""
    return {"commands": case.commands(), **_surroundings()}


@cache
def _surroundings() -> dict[str, Any]:
    """Return what every run depends on besides its commands and drumline."""
    parts = (BENCHMARKS / "same_bits_parts.py").read_bytes()
    return {
        "parts": hashlib.sha256(parts).hexdigest(),
        "processor": processor(),
        "versions": {"python": platform.python_version(), **dict(_versions())},
    }


def _versions() -> Iterator[tuple[str, str]]:
    for name in ("numpy", "gymnasium", "mujoco", "torch", "envpool", "cma", "nevergrad"):
        with suppress(PackageNotFoundError):
            yield name, version(name)


def _asked(case: Case, only: Sequence[str]) -> bool:
    return not only or any(part in case.name for part in only)


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    against = parser.add_mutually_exclusive_group(required=True)
    against.add_argument("--against", metavar="COMMIT", help="the commit to compare with")
    against.add_argument("--against-folder", type=Path, help="its runs, as --keep left them")
    against.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--keep", type=Path, help="where the commit's runs stay for the next time")
    parser.add_argument("--only", nargs="+", default=[], help="only cases with this in their name")
    parser.add_argument("--excuse", nargs="+", default=[], help="patterns of cases that may differ")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
