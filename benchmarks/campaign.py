"""A queue of trainings that runs in the background at low priority, and what has come of it.

    python benchmarks/campaign.py benchmarks/campaign.toml go       begin, or go on
    python benchmarks/campaign.py benchmarks/campaign.toml pause    stop all runs; `go` resumes them
    python benchmarks/campaign.py benchmarks/campaign.toml status   what is done, and what is left
    python benchmarks/campaign.py benchmarks/campaign.toml tables   fill docs/, draw pictures

Runs are made from checkouts and environments in --home, outside the work tree, at the commit of
their begin (--commit, else HEAD). They survive kills and reboots: `go` resumes their folders, and
repeats no run that has a row, whose home may have been another. Rows of ended runs go into
benchmarks/results/campaign_*.csv and the tables of docs/, and are committed as runs end,
unless --no-commit. Runs that measure time run alone. Runs that need what cannot be installed here
are skipped with the reason, and tried again at the next `go`; runs whose flags a tuning decides
wait for it.

--total-steps gives a whole queue another budget, as that of the Atari table, which a --home of its
own goes with: runs of the same name are done once. Their rows take the place of those of the same
name and seed.
"""

import argparse
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "learning"))
from campaign_choice import of_these_commands, resolved
from campaign_curves import draw
from campaign_needs import try_again
from campaign_page import page
from campaign_queue import (
    BadQueue,
    Group,
    Home,
    Run,
    State,
    at_budget_of,
    in_order,
    read_queue,
)
from campaign_record import Row, Tables, read_rows, record
from campaign_tables import Rows, fill
from campaign_work import Checkout, Worker, in_background

from drumline.runs.atomic_files import replace_file

BENCHMARKS = Path(__file__).resolve().parent
TREE = BENCHMARKS.parent
RESULTS = TREE / "docs" / "results.md"
TUNING = TREE / "docs" / "measured" / "tuning.md"
README = TREE / "README.md"
"""Has the three sentences that the tables come to."""
TABLES = Tables.beside(BENCHMARKS / "results")
_TABLE = re.compile(r"<!-- begin (\S+) -->.*?<!-- end \1 -->", re.DOTALL)


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("queue", type=Path)
    parser.add_argument("do", choices=("go", "pause", "status", "tables", "work"))
    parser.add_argument(
        "--home", type=Path, default=TREE.parent / f"{TREE.name}-campaign", help="outside the tree"
    )
    parser.add_argument("--commit", default="HEAD", help="commit of runs that are begun now")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at the same time")
    parser.add_argument(
        "--total-steps", type=int, default=0, help="budget of every group that names one"
    )
    parser.add_argument("--no-commit", action="store_true", help="leave rows uncommitted")
    options = parser.parse_args()
    try:
        groups = read_queue(options.queue)
    except BadQueue as error:
        print(error, file=sys.stderr)
        return 2
    if options.total_steps:
        groups = at_budget_of(groups, options.total_steps)
    home = Home(options.home.resolve())
    if TREE in (home.path, *home.path.parents):
        print(
            f"--home {options.home} lies in the work tree: give a folder outside", file=sys.stderr
        )
        return 2
    home.path.mkdir(parents=True, exist_ok=True)
    given, groups = groups, decided(home, groups)
    adopt(home, groups, all_rows(groups))
    if options.do == "go":
        return _go(home, groups, options)
    if options.do == "pause":
        return _pause(home, groups)
    if options.do == "work":
        _work(home, given, options)
        groups = decided(home, given)
    if options.do == "tables":
        with _alone_with(TABLES.runs.parent):
            draw(rows_of(groups))
            _write(home, groups)
        names = f"{RESULTS.name}, {TUNING.name} and {README.name}"
        print(f"filled {names}; wrote {home.path / 'page.html'}")
        return 0
    print("\n".join(status(home, groups)))
    return 0


def decided(home: Home, groups: Sequence[Group]) -> list[Group]:
    """Return the groups with the flags of the choices that their runs have made."""
    rows, curves = read_rows(TABLES.runs), read_rows(TABLES.evaluations)
    return resolved(groups, rows, curves, lambda run: home.state(run) == "failed")


def all_rows(groups: Sequence[Group]) -> list[Row]:
    """Return the rows of all runs, those of scripts too."""
    tables = dict.fromkeys(group.table for group in groups if group.table)
    return [
        *read_rows(TABLES.runs),
        *(row for table in tables for row in read_rows(TABLES.of_script(table))),
    ]


def adopt(home: Home, groups: Sequence[Group], rows: Sequence[Row]) -> None:
    """Note runs that have rows, made by the same command, as done: a new home repeats nothing."""
    recorded = {(row["group"], row["seed"], row["command"]): row for row in rows}
    for run in in_order(groups):
        row = recorded.get((run.group.name, str(run.seed), run.command_line))
        if row is not None and home.state(run) in ("not begun", "skipped"):
            seconds = float(row.get("seconds_beside_other_runs") or row["run_seconds"])
            home.write_note(run, recorded=True, commit=row["commit"], seconds=seconds)


def status(home: Home, groups: Sequence[Group]) -> list[str]:
    """Return a line for each group, then the time that is left: of mandatory runs, and of all."""
    lines: list[str] = []
    left = {True: 0.0, False: 0.0}
    for group in groups:
        states = Counter(home.state(Run(group, seed)) for seed in group.seeds)
        hours = hours_left(home, group)
        left[group.mandatory] += hours
        words = ", ".join(f"{count} {state}" for state, count in states.items())
        if reason := home.reason(group):
            words += f" ({reason})"
        lines.append(f"{group.name}: {words}" + (f"; {hours:.1f} core hours left" if hours else ""))
    running = worker_process(home)
    doing = "working" if running else "paused" if home.paused.exists() else "not working"
    return [
        *lines,
        f"{doing}; mandatory runs: {left[True]:.1f} core hours left; "
        f"all runs: {left[True] + left[False]:.1f} core hours left",
    ]


def hours_left(home: Home, group: Group) -> float:
    """Return the core hours that a group needs, by its ended runs where it has some."""
    runs = [Run(group, seed) for seed in group.seeds]
    notes = [home.read_note(run) for run in runs if home.state(run) == "done"]
    ended = [float(str(note["seconds"])) for note in notes if "seconds" in note]
    cores = (os.cpu_count() or 1) if group.alone else 1
    each = cores * sum(ended) / len(ended) / 3600 if ended else group.hours
    left = 0.0
    for run in runs:
        if home.state(run) not in ("done", "failed", "skipped"):
            made, total = home.env_steps(run)
            left += each * (1 - made / total if total else 1.0)
    return left


def worker_process(home: Home) -> int:
    """Return the process id of the campaign's worker, 0 if there is none."""
    try:
        number = int(home.process_id.read_text())
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return 0
    return number if b"work" in words else 0


def worker_queue(number: int) -> str:
    """Return the queue that a worker's process works off."""
    words = Path(f"/proc/{number}/cmdline").read_bytes().decode().split("\0")
    return words[words.index("work") - 1]


def _go(home: Home, groups: Sequence[Group], options: argparse.Namespace) -> int:
    if number := worker_process(home):
        queue = worker_queue(number)
        if queue != str(options.queue.resolve()):
            print(
                f"process {number} works off {queue} there: pause it first, or give a --home of "
                "its own",
                file=sys.stderr,
            )
            return 2
        if not home.paused.exists():
            print(f"process {number} is at work already")
            return 0
        print(f"process {number} is stopping its runs; another one goes on then")
        while worker_process(home) == number:
            time.sleep(0.2)
    home.paused.unlink(missing_ok=True)
    try_again(home)
    home.forget_failures(in_order(groups))
    # A name for HEAD: the tree may move on before the last run begins.
    commit = _git("rev-parse", options.commit)
    words = [sys.executable, __file__, str(options.queue.resolve()), "work"]
    words += [f"--home={home.path}", f"--commit={commit}", f"--jobs={options.jobs}"]
    words += ["--no-commit"] if options.no_commit else []
    words += [f"--total-steps={options.total_steps}"] if options.total_steps else []
    process = in_background(words, home.path / "worker.log")
    home.process_id.write_text(str(process.pid))
    print(f"process {process.pid} works off {options.queue}")
    return 0


def _pause(home: Home, groups: Sequence[Group]) -> int:
    home.paused.touch()
    number = worker_process(home)
    if number:
        os.kill(number, signal.SIGTERM)
        while worker_process(home) == number:
            time.sleep(0.2)
    for run in in_order(groups):  # of a worker that was killed
        if number := home.process(run):
            os.kill(number, signal.SIGINT)
            while home.process(run):
                time.sleep(0.2)
    print("paused; `go` resumes all runs")
    return 0


def _work(home: Home, given: Sequence[Group], options: argparse.Namespace) -> None:
    checkout = cache(lambda commit: Checkout(home, TREE, commit))
    groups = decided(home, given)

    def ended(run: Run, made_by: Checkout) -> None:
        nonlocal groups
        seconds = float(str(home.read_note(run).get("seconds", 0.0)))
        with _alone_with(TABLES.runs.parent):
            record(TABLES, run, home.folder(run), made_by, seconds)
            groups = decided(home, given)
            _write(home, groups)
            if not options.no_commit:
                what = f"Add {run.group.name}, seed {run.seed}, to the campaign's results"
                _commit(what, tuple({group.table for group in groups if group.table}))

    with _alone_with(home.path):
        Worker(home, lambda: in_order(groups), options.jobs, checkout, options.commit, ended).work()


@contextmanager
def _alone_with(folder: Path) -> Iterator[None]:
    """Wait until this process has a folder to itself.

    A home has one worker; workers of several homes read one folder's tables, then write them.
    """
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _write(home: Home, groups: Sequence[Group]) -> None:
    """Fill the pages of docs/ and the one of the campaign from the rows that there are."""
    runs = read_rows(TABLES.runs)
    rows = rows_of(groups)
    every = queues(groups)
    for path, more in ((RESULTS, (every, home)), (TUNING, (every, home)), (README, ())):
        if path.exists():
            _refill(path, lambda text, more=more: fill(text, rows, *more))
    states: dict[str, State] = {run.name: home.state(run) for run in in_order(groups)}
    left = {group.name: hours_left(home, group) for group in groups}
    (home.path / "page.html").write_text(page(groups, states, left, runs))


def _refill(path: Path, filled: Callable[[str], str]) -> None:
    """Fill a page's tables; a text that is saved meanwhile is filled anew, not written over."""
    while True:
        text = path.read_text()
        made = filled(text)
        if path.read_text() == text:
            replace_file(path, made.encode())
            return


def rows_of(groups: Sequence[Group]) -> Rows:
    """Return all rows that tables are made from.

    Where some runs of a group were made by other commands than the queue has now, they are left
    out: a table's row has one setting.
    """
    every = queues(groups)
    runs = of_one_command(every, read_rows(TABLES.runs))
    kept = {(row["group"], row["seed"]) for row in runs}
    curves, individuals = (
        [row for row in read_rows(path) if (row["group"], row["seed"]) in kept]
        for path in (TABLES.evaluations, TABLES.individuals)
    )
    names = dict.fromkeys(group.table for group in every if group.table)
    scripts = {name: of_one_command(every, read_rows(TABLES.of_script(name))) for name in names}
    return Rows(runs, curves, individuals, scripts)


def of_one_command(groups: Sequence[Group], rows: Sequence[Row]) -> list[Row]:
    """Return the rows; of groups with some of the queue's command and others, those of it alone."""
    current = of_these_commands(groups, rows)
    there = {row["group"] for row in current}
    kept = {id(row) for row in current}
    return [row for row in rows if id(row) in kept or row["group"] not in there]


def queues(groups: Sequence[Group]) -> list[Group]:
    """Return the groups with those of the repository's other queues, which the page shows too."""
    names = {group.name for group in groups}
    every = [group for path in sorted(BENCHMARKS.glob("*.toml")) for group in read_queue(path)]
    return [*groups, *(group for group in every if group.name not in names)]


def _commit(message: str, tables: Sequence[str]) -> None:
    """Commit the result files alone; what else is changed or staged in the tree stays as it is.

    A page whose own words are being edited is left out: a later row takes its tables along.
    """
    folder = Path(_git("rev-parse", "--absolute-git-dir"))
    if any((folder / name).exists() for name in ("rebase-merge", "rebase-apply", "MERGE_HEAD")):
        return  # the next row takes this one along
    pages = (page for page in (RESULTS, TUNING, README) if page.exists() and not _edited(page))
    every = (*TABLES, *map(TABLES.of_script, tables), *pages)
    files = [str(path) for path in every if path.exists()]
    add = subprocess.run(["git", "-C", str(TREE), "add", *files], check=False)
    if add.returncode == 0:
        words = ["commit", "--quiet", "--only", "-m", message, "--", *files]
        subprocess.run(["git", "-C", str(TREE), *words], check=False)


def _edited(page: Path) -> bool:
    """Return whether a page differs from HEAD's outside of its tables."""
    kept = _git("show", f"HEAD:{page.relative_to(TREE)}")
    before, now = (_TABLE.sub("", text.strip()) for text in (kept, page.read_text()))
    return before != now


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(TREE), *words], check=True, stdout=subprocess.PIPE)
    return done.stdout.decode().strip()


if __name__ == "__main__":
    sys.exit(main())
