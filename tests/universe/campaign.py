"""Many universes in batches, each batch in a process of its own, and a table of what they found.

    python -m tests.universe 17                         repeat one universe, with its faults
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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from universe.planted import PLANTED
from universe.universes import METHODS, Outcome, explored

BATCH = 100
"""Universes of a process: what a killed simulated process held is freed with it only."""
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
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--method", choices=METHODS, help="of this method alone")
    parser.add_argument("--plant", choices=PLANTED, help="with this bug in the code")
    parser.add_argument("--planted", action="store_true", help="find every planted bug")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="table that gets a row")
    parser.add_argument("--batch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.numbers or options.batch:
        numbers = options.numbers or range(options.first, options.first + options.campaign)
        return _here(numbers, options)
    if options.planted:
        return _find_planted(options)
    rows = campaign(options.first, options.campaign, options.jobs, options.method)
    if options.out:
        append_row(options.out, rows)
    print(json.dumps(rows))
    return 1 if rows["findings"] else 0


def campaign(
    first: int, count: int, jobs: int, method: str | None = None, plant: str | None = None
) -> dict[str, Any]:
    """Explore universes on several processes; return the totals."""
    began = time.perf_counter()
    totals: Counter[str] = Counter()
    findings: list[str] = []
    for outcome in outcomes(first, count, jobs, method, plant):
        totals["points"] += outcome["points"]
        totals["virtual_milliseconds"] += round(outcome["virtual_seconds"] * 1e3)
        totals["sessions"] += outcome["sessions"]
        totals.update({f"faults: {kind}": n for kind, n in outcome["injected"].items()})
        if outcome["finding"]:
            findings.append(f"{outcome['number']} ({outcome['method']}): {outcome['finding']}")
            print(findings[-1], flush=True)
    seconds = time.perf_counter() - began
    kinds = ("kill", "exit", "hang", "stop", "driver kill", "power loss")
    return {
        "first": first,
        "universes": count,
        "findings": len(findings),
        "points": totals["points"],
        "virtual_hours": round(totals["virtual_milliseconds"] / 3.6e6, 3),
        "sessions": totals["sessions"],
        **{kind.replace(" ", "_"): totals[f"faults: {kind}"] for kind in kinds},
        "seconds": round(seconds),
        "universes_per_hour": round(count / seconds * 3600),
        "jobs": jobs,
        "what": "; ".join(findings),
    }


def outcomes(
    first: int, count: int, jobs: int, method: str | None, plant: str | None
) -> Iterator[dict[str, Any]]:
    """Yield each universe's outcome; batches run at the same time."""

    def batch(start: int) -> list[dict[str, Any]]:
        size = min(BATCH, first + count - start)
        words = ["--batch", f"--first={start}", f"--campaign={size}"]
        words += [f"--method={method}"] if method else []
        words += [f"--plant={plant}"] if plant else []
        done = subprocess.run(
            [sys.executable, "-m", "tests.universe", *words],
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
    for number in numbers:
        method = options.method or (bug and bug.method)
        outcome = explored(number, method, bug.planted if bug else nullcontext)
        bad |= bool(outcome.finding)
        _tell(outcome, as_json=options.batch)
        if bug and bad:
            break
    return 1 if bad else 0


def _tell(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        told = {name: value for name, value in vars(outcome).items() if name != "log"}
        print(json.dumps(told), flush=True)
        return
    faults = ", ".join(f"{kind} {count}" for kind, count in outcome.injected.items()) or "none"
    print(
        f"universe {outcome.number}: {outcome.method}, {outcome.sessions} sessions, "
        f"{outcome.points} points, {outcome.virtual_seconds:.2f} virtual s; faults: {faults}\n"
        f"  {outcome.finding or 'as without faults'}"
    )
    print("\n".join(f"  {line}" for line in outcome.log))


def _find_planted(options: argparse.Namespace) -> int:
    """Explore with each planted bug until a universe shows it."""
    missed = False
    for name, bug in PLANTED.items():
        found: dict[str, Any] | None = None
        for start in range(0, MOST_FOR_PLANTED, BATCH):
            for outcome in outcomes(start, BATCH, 1, bug.method, name):
                found = found or (outcome if outcome["finding"] else None)
            if found:
                break
        missed |= found is None
        row = {
            "bug": name,
            "method": bug.method,
            "universe": found["number"] if found else "not found",
            "finding": found["finding"] if found else "",
        }
        print(row, flush=True)
        if options.out:
            append_row(options.out, row)
    return 1 if missed else 0


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Append a row to a table, which gets its header with the first."""
    fresh = not path.exists()
    with open(path, "a", newline="") as lines:
        writer = csv.DictWriter(lines, list(row), lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(row)
