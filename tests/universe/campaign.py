"""Many universes in batches, each batch in a process of its own, and a table of what they found.

    python -m tests.universe 17                         repeat a universe, with its faults
    python -m tests.universe 17 --shrink                and leave out faults it can do without
    python -m tests.universe --campaign 10000 --out benchmarks/results/universes.csv
    python -m tests.universe --planted --out benchmarks/results/universes_planted.csv

Run from the repository's root with `PYTHONHASHSEED=0` or not: batches set it themselves.
"""

import argparse
import csv
import json
import logging
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from universe.memory import ORDERS
from universe.planted import PLANTED
from universe.universes import METHODS, MODES, Outcome, explored
from universe.world import FAULTS

BATCH = 100
"""Universes of a process: what a killed simulated process held is freed with it only."""
SAVED = 400
"""Universes after which the table is written: several batches, so that all jobs work."""
MOST_FOR_PLANTED = 2000
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.universe",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("numbers", type=int, nargs="*", help="universes to repeat")
    parser.add_argument("--campaign", type=int, default=0, help="explore so many universes")
    parser.add_argument("--first", type=int, help="number of the first; else go on from --out")
    parser.add_argument("--method", choices=METHODS, help="of this method alone")
    parser.add_argument("--mode", choices=MODES, help="of this mode alone")
    parser.add_argument("--order", choices=ORDERS, help="with this order of stores")
    parser.add_argument("--without", nargs="*", default=(), choices=FAULTS, help="faults left out")
    parser.add_argument(
        "--shrink", action="store_true", help="leave out faults that are not needed"
    )
    parser.add_argument("--plant", choices=PLANTED, help="with this bug in the code")
    parser.add_argument("--planted", action="store_true", help="find every planted bug")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="table that gets a row")
    parser.add_argument("--batch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.numbers or options.batch:
        numbers = options.numbers or range(
            options.first or 0, (options.first or 0) + options.campaign
        )
        return _here(numbers, options)
    if options.planted:
        return _find_planted(options)
    first = options.first if options.first is not None else next_of(options.out)
    words = _words(options)
    print("universes from", first, flush=True)
    for start in range(first, first + options.campaign, SAVED):
        row = campaign(start, min(SAVED, first + options.campaign - start), options.jobs, words)
        if options.out:
            add_row(options.out, row)
        print(json.dumps(row), flush=True)
        if row["findings"]:
            return 1
    return 0


def _words(options: argparse.Namespace) -> list[str]:
    """Return the flags that a batch gets."""
    given = {name: getattr(options, name) for name in ("method", "mode", "order", "plant")}
    return [f"--{name}={value}" for name, value in given.items() if value]


def next_of(table: Path | None) -> int:
    """Return the number behind the last universe of a table."""
    if table is None or not table.exists():
        return 0
    with open(table, newline="") as lines:
        rows = list(csv.DictReader(lines))
    return max(map(_behind, rows), default=0)


def campaign(first: int, count: int, jobs: int, words: Sequence[str] = ()) -> dict[str, Any]:
    """Explore universes on several processes; return the totals."""
    began = time.perf_counter()
    totals: Counter[str] = Counter()
    findings: list[str] = []
    for outcome in outcomes(first, count, jobs, words):
        totals["points"] += outcome["points"]
        totals["virtual_milliseconds"] += round(outcome["virtual_seconds"] * 1e3)
        totals["processor_milliseconds"] += round(outcome["processor_seconds"] * 1e3)
        totals.update({name: outcome[name] for name in ("sessions", "refusals")})
        totals.update({outcome["mode"]: 1, outcome["order"]: 1})
        totals.update({f"faults: {kind}": n for kind, n in outcome["injected"].items()})
        if outcome["finding"]:
            findings.append(f"{outcome['number']} ({outcome['method']}): {outcome['finding']}")
            print(findings[-1], flush=True)
    return {
        "commit": _commit(),
        "first": first,
        "universes": count,
        "findings": len(findings),
        "unbounded": totals["unbounded"],
        "x86_order": totals["x86"],
        "points": totals["points"],
        "virtual_hours": round(totals["virtual_milliseconds"] / 3.6e6, 3),
        "sessions": totals["sessions"],
        "refusals": totals["refusals"],
        **{kind.replace(" ", "_"): totals[f"faults: {kind}"] for kind in FAULTS},
        "seconds": round(time.perf_counter() - began),
        "processor_seconds": round(totals["processor_milliseconds"] / 1e3),
        "jobs": jobs,
        "what": "; ".join(findings),
    }


def _commit() -> str:
    words = ["git", "-C", str(ROOT), "rev-parse", "--short=9", "HEAD"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode().strip()


def outcomes(
    first: int, count: int, jobs: int, words: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield each universe's outcome; batches run at the same time."""

    def batch(start: int) -> list[dict[str, Any]]:
        size = min(BATCH, first + count - start)
        numbers = ["--batch", f"--first={start}", f"--campaign={size}"]
        done = subprocess.run(
            [sys.executable, "-m", "tests.universe", *numbers, *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        if len(lines) != size and not any(line["finding"] for line in lines):
            raise RuntimeError(f"the batch of universe {start} ended with {done.returncode}")
        return lines

    with ThreadPoolExecutor(jobs) as threads:
        for lines in threads.map(batch, range(first, first + count, BATCH)):
            yield from lines


def _here(numbers: Sequence[int], options: argparse.Namespace) -> int:
    """Explore in this process: for people, or as a batch with a line of JSON for each universe."""
    logging.disable(logging.WARNING)
    bad = False
    bug = PLANTED[options.plant] if options.plant else None
    more = {"mode": options.mode, "order": options.order, "without": options.without}
    if bug:
        more |= {"mode": options.mode or bug.mode, "order": options.order or bug.order}
    for number in numbers:
        chosen = options.method or (bug and bug.method)

        def once(without: Collection[str], number: int = number, chosen: Any = chosen) -> Outcome:
            planted = bug.planted if bug else nullcontext
            return explored(number, chosen, planted, **{**more, "without": without})

        began = time.process_time()
        outcome = once(options.without)
        outcome.processor_seconds = round(time.process_time() - began, 3)
        if options.shrink and outcome.finding:
            outcome = shrunk(once, outcome, options.without)
        bad |= bool(outcome.finding)
        _tell(outcome, as_json=options.batch)
        if bug and bad:
            break
    return 1 if bad else 0


def shrunk(
    once: Callable[[Collection[str]], Outcome], outcome: Outcome, without: Collection[str]
) -> Outcome:
    """Leave out kinds of faults, one after the other, as long as there is a finding."""
    left_out = list(without)
    for kind in FAULTS:
        if outcome.injected[kind]:
            smaller = once([*left_out, kind])
            if smaller.finding:
                left_out.append(kind)
                outcome = smaller
    print(f"found without: {', '.join(left_out) or 'nothing left out'}")
    return outcome


def _tell(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        told = {name: value for name, value in vars(outcome).items() if name != "log"}
        print(json.dumps(told), flush=True)
        return
    faults = ", ".join(f"{kind} {count}" for kind, count in outcome.injected.items()) or "none"
    print(
        f"universe {outcome.number}: {outcome.method}, {outcome.mode} faults, "
        f"{outcome.order} order, {outcome.sessions} sessions, {outcome.points} points, "
        f"{outcome.virtual_seconds:.2f} virtual s; faults: {faults}\n"
        f"  {outcome.finding or 'as without faults'}"
        + (f"\n  {outcome.refusal}" if outcome.refusal else "")
    )
    print("\n".join(f"  {line}" for line in outcome.log))


def _find_planted(options: argparse.Namespace) -> int:
    """Explore with each planted bug until a universe shows it."""
    missed = False
    for name, bug in PLANTED.items():
        found: dict[str, Any] | None = None
        for start in range(0, MOST_FOR_PLANTED, BATCH):
            for outcome in outcomes(start, BATCH, 1, [f"--plant={name}"]):
                found = found or (outcome if outcome["finding"] else None)
            if found:
                break
        missed |= found is None
        row = {
            "bug": name,
            "method": bug.method,
            "mode": bug.mode or "drawn",
            "universe": found["number"] if found else "not found",
            "finding": found["finding"].split("\n")[0] if found else "",
        }
        print(row, flush=True)
        if options.out:
            append_row(options.out, row)
    return 1 if missed else 0


def add_row(path: Path, row: dict[str, Any]) -> None:
    """Add a row to a table of campaigns: to its last row, where that goes on at one commit."""
    rows: list[dict[str, Any]] = []
    if path.exists():
        with open(path, newline="") as lines:
            rows = list(csv.DictReader(lines))
    last = rows[-1] if rows else {}
    if last.get("commit") == row["commit"] and _behind(last) == row["first"]:
        row = {name: _sum(name, last[name], value) for name, value in row.items()}
        rows.pop()
    aside = path.with_suffix(".partial")
    with open(aside, "w", newline="") as lines:
        writer = csv.DictWriter(lines, list(row), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows([{name: one.get(name, "") for name in row} for one in [*rows, row]])
    aside.replace(path)


def _behind(row: dict[str, Any]) -> int:
    return int(row["first"]) + int(row["universes"])


def _sum(name: str, before: str, value: Any) -> Any:
    if name in ("commit", "first", "jobs"):
        return before
    if name == "what":
        return "; ".join(filter(None, (before, value)))
    return round(float(before) + value, 3) if isinstance(value, float) else int(before) + value


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Append a row to a table, which gets its header with the first."""
    fresh = not path.exists()
    with open(path, "a", newline="") as lines:
        writer = csv.DictWriter(lines, list(row), lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(row)
