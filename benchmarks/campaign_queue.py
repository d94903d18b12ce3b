"""The queue of a campaign: groups of runs from a TOML file, each run with its folder and state."""

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

State = Literal["done", "running", "begun", "failed", "skipped", "waiting", "not begun"]
"""A skipped run needs what this machine cannot have, a waiting one the outcome of a choice."""
NEEDS = ("cma", "football", "stable-baselines3")
"""Packages besides the project's own that a group may need; `campaign_needs.py` provides them."""


_BUDGET = "--total-steps="


class BadQueue(Exception):
    """A queue that cannot be read: one sentence with the group and the fault."""


@dataclass(frozen=True)
class Group:
    """Runs of one method on one environment that differ in their seeds."""

    name: str
    part: str
    """Table of docs/results.md, or of docs/measured/tuning.md, that the runs belong to."""
    method: str
    env: str
    seeds: tuple[int, ...]
    hours: float
    """Expected hours of one core for each seed; measured ones take their place."""
    flags: tuple[str, ...] = ()
    """Besides the preset."""
    priority: int = 5
    """Lower numbers go first; groups of one number take turns seed by seed."""
    mandatory: bool = False
    score: float | None = None
    """Score to reach: one that is first met at the end is confirmed by one more evaluation."""
    script: str = ""
    """Benchmark of the checkout that makes the run instead of `drumline train`."""
    table: str = ""
    """File of benchmarks/results for a script's rows; without it a run folder is recorded."""
    alone: bool = False
    """No other run of the campaign runs beside it, because it measures time."""
    needs: tuple[str, ...] = ()
    """Those of `NEEDS` without which the runs are skipped, with the reason in their state."""
    choice: str = ""
    """Choice that these tuning runs stand for selection in, by their flags."""
    chosen: str = ""
    """Choice whose outcome goes before `flags`; the runs wait for it."""
    place: int = 1
    """Candidate of `chosen` that is meant: 1 is the best, 2 the next."""


@dataclass(frozen=True)
class Run:
    """One training."""

    group: Group
    seed: int

    @property
    def name(self) -> str:
        """Return the name of its folder."""
        return f"{self.group.name}-s{self.seed}"

    def command(self) -> list[str]:
        """Return the words after `drumline train`, or after the script's name."""
        group = self.group
        return [group.method, group.env, f"--seed={self.seed}", *group.flags]

    @property
    def command_line(self) -> str:
        """Return the command as a row of results has it."""
        script = self.group.script
        return " ".join([f"python {script}" if script else "drumline train", *self.command()])


_REQUIRED = {"name": str, "part": str, "method": str, "env": str, "seeds": list, "hours": float}
_OPTIONAL = {
    "flags": list,
    "priority": int,
    "mandatory": bool,
    "score": float,
    "script": str,
    "table": str,
    "alone": bool,
    "needs": list,
    "choice": str,
    "chosen": str,
    "place": int,
}


def read_queue(path: Path) -> list[Group]:
    """Return the groups of a file; raises `BadQueue`."""
    try:
        document = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadQueue(f"{path} cannot be read: {error}") from error
    groups = [_group(number, given) for number, given in enumerate(document.get("group", []))]
    if not groups:
        raise BadQueue(f"{path} has no [[group]]")
    names = [group.name for group in groups]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise BadQueue(f"{path} has two groups named {doubled[0]}")
    choices = {group.choice for group in groups}
    for group in groups:
        if group.chosen and group.chosen not in choices:
            raise BadQueue(f"group {group.name}: no group has the choice {group.chosen!r}")
        if group.place < 1:
            raise BadQueue(f"group {group.name}: place must be at least 1, got {group.place}")
    return groups


def at_budget_of(groups: Sequence[Group], total_steps: int) -> list[Group]:
    """Return the groups with another `--total-steps`, and hours in proportion.

    Groups without the flag have their preset's budget, and stay as they are.
    """
    found: list[Group] = []
    for group in groups:
        own = [flag for flag in group.flags if flag.startswith(_BUDGET)]
        if own:
            flags = tuple(f"{_BUDGET}{total_steps}" if f in own else f for f in group.flags)
            hours = group.hours * total_steps / int(own[-1].removeprefix(_BUDGET))
            group = replace(group, flags=flags, hours=hours)
        found.append(group)
    return found


def _group(number: int, given: dict[str, object]) -> Group:
    where = f"group {given.get('name', number + 1)}"
    if unknown := sorted(set(given) - set(_REQUIRED) - set(_OPTIONAL)):
        raise BadQueue(f"{where} has an unknown key {unknown[0]!r}")
    if missing := sorted(set(_REQUIRED) - set(given)):
        raise BadQueue(f"{where} lacks {missing[0]!r}")
    for key, kind in {**_REQUIRED, **_OPTIONAL}.items():
        kinds = (int, float) if kind is float else (kind,)
        if key in given and not isinstance(given[key], kinds):
            raise BadQueue(f"{where}: {key} must be a {kind.__name__}, got {given[key]!r}")
    if unknown := sorted(set(map(str, _words(given.get("needs")))) - set(NEEDS)):
        raise BadQueue(f"{where}: needs are of {', '.join(NEEDS)}, got {unknown[0]!r}")
    if given.get("table") and not given.get("script"):
        raise BadQueue(f"{where} has a table without a script that makes its rows")
    values = {
        key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
    }
    return Group(**values)  # pyright: ignore[reportArgumentType] (the kinds are checked above)


def _words(given: object) -> Sequence[object]:
    return given if isinstance(given, list) else ()


def in_order(groups: Sequence[Group]) -> list[Run]:
    """Return all runs by priority; groups of equal priority take turns seed by seed."""
    turns = [
        (group.priority, place, number, Run(group, seed))
        for number, group in enumerate(groups)
        for place, seed in enumerate(group.seeds)
    ]
    return [run for *_, run in sorted(turns, key=lambda turn: turn[:3])]


@dataclass(frozen=True)
class Home:
    """Folder of a campaign outside the work tree: checkouts, environments, run folders, logs."""

    path: Path

    def folder(self, run: Run) -> Path:
        """Return a run's folder."""
        return self.path / "runs" / run.name

    def log(self, run: Run) -> Path:
        """Return the file with what a run printed."""
        return self.path / "logs" / f"{run.name}.log"

    def note(self, run: Run) -> Path:
        """Return the file with the commit of a run, and how often it failed."""
        return self.path / "notes" / f"{run.name}.json"

    @property
    def process_id(self) -> Path:
        """File with the number of the process that works off the queue."""
        return self.path / "worker.pid"

    def missing(self, need: str) -> Path:
        """Return the file with the reason why a need cannot be had, there only if it cannot."""
        return self.path / "missing" / f"{need}.txt"

    def reason(self, group: Group) -> str:
        """Return why a group's runs are skipped or wait; nothing where they can begin."""
        for need in group.needs:
            if self.missing(need).exists():
                return f"{need}: {self.missing(need).read_text().strip()}"
        return f"for the choice of {group.chosen}" if group.chosen else ""

    @property
    def paused(self) -> Path:
        """File that is there while the campaign is paused."""
        return self.path / "paused"

    def read_note(self, run: Run) -> dict[str, object]:
        """Return a run's note, empty before its begin and where its command was another one."""
        note = self._any_note(run)
        return note if note.get("command", run.command_line) == run.command_line else {}

    def _any_note(self, run: Run) -> dict[str, object]:
        path = self.note(run)
        return json.loads(path.read_text()) if path.exists() else {}

    def process(self, run: Run) -> int:
        """Return the process of a run by this name, with any flags; 0 if none is there."""
        note = self._any_note(run)
        number = int(str(note.get("process") or 0))
        return number if number and started_at(number) == note.get("started") else 0

    def write_note(self, run: Run, **values: object) -> None:
        """Set values of a run's note."""
        path = self.note(run)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".partial")
        note = {**self.read_note(run), **values, "command": run.command_line}
        aside.write_text(json.dumps(note))
        aside.replace(path)

    def forget_failures(self, runs: Iterable[Run]) -> None:
        """Have failed runs tried again: what was wrong may be mended."""
        for run in runs:
            if self.read_note(run).get("failures"):
                self.write_note(run, failures=0)

    def state(self, run: Run) -> State:
        """Return how far a run is, from what lies on the disk."""
        note = self.read_note(run)
        if note.get("recorded"):
            return "done"
        if note.get("failures", 0) == FAILURES:
            return "failed"
        if self.process(run):
            return "running"
        if any(self.missing(need).exists() for need in run.group.needs):
            return "skipped"
        if run.group.chosen:
            return "waiting"
        folder = self.folder(run)
        there = (folder / "config.json").exists()
        if run.group.script and folder.is_dir():  # a script may keep its rows alone
            there = any(folder.iterdir())
        return "begun" if note and there else "not begun"

    def env_steps(self, run: Run) -> tuple[int, int]:
        """Return the env steps that a run has made, and those that it is to make."""
        folder = self.folder(run)
        try:
            total = json.loads((folder / "config.json").read_text())["config"]["total_steps"]
            with open(folder / "metrics.csv", "rb") as rows:
                first = rows.readline()
                rows.seek(max(len(first), rows.seek(0, 2) - 4096))
                last = rows.read().splitlines()[-1].split(b",")
            return int(last[first.split(b",").index(b"env_steps")]), int(total)
        except (OSError, ValueError, IndexError, KeyError):
            return 0, 0


def started_at(process_id: int) -> int | None:
    """Return when a process began, in clock ticks since the machine's start; None if it is gone.

    The number alone may be that of another process since, after a reboot above all.
    """
    try:
        words = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] == "Z" else int(words[19])


FAILURES = 3
"""Failures after which a run is left, so that the others go on."""
