"""Every path against its bound and its physical limit: ten minutes, one table, one bar chart.

Runs the scripts of `benchmarks/throughput` with short settings, one after the other, on a machine
that does nothing else; docs/performance.md says what the rows mean. Rows of paths that are not
measured stay. A path gets its share of the time that is left, so a slow machine measures the later
ones for a shorter time, and the whole ends about when it was to.

    python benchmarks/limits.py
    python benchmarks/limits.py --only es-hopper update --minutes 3
    python benchmarks/limits.py --table
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
from limits_page import CHART, PAGE, RESULTS, Row, read_rows, write_chart, write_page
from limits_paths import PATHS
from limits_task import Task
from provenance import provenance, write_table

LEAST_SHARE = 0.3
"""Share of a path's time below which its figures would be chance."""
COLUMNS = (
    *("measured", "path", "ours", "unit", "bound_kind", "bound", "ratio", "ratio_min", "ratio_max"),
    *("limit_kind", "limit", "share", "goal_ratio", "goal_share", "others_busy", "seconds"),
)


def measured(name: str, scale: float, where: dict[str, str]) -> list[Row]:
    """Return the rows of a path; `others_busy` is the share of the cores' time in use before it."""
    busy, began = psutil.cpu_percent(interval=1.0) / 100, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows = PATHS[name].rows(Task(scale, Path(folder)))
    took = {"others_busy": f"{busy:.2f}", "seconds": f"{time.perf_counter() - began:.0f}"}
    return [
        {column: {"measured": name, **row, **took}.get(column, "") for column in COLUMNS} | where
        for row in rows
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(PATHS), default=list(PATHS))
    parser.add_argument("--minutes", type=float, default=10.0, help="of all that is measured")
    parser.add_argument("--table", action="store_true", help="measure nothing; table and chart")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--chart", type=Path, default=CHART)
    options = parser.parse_args()
    if options.minutes <= 0:
        parser.error(f"--minutes is a time, got {options.minutes:g}")
    rows, where = read_rows(options.out), provenance([0])
    names = [] if options.table else [name for name in PATHS if name in options.only]
    failed: list[str] = []
    ends = time.perf_counter() + 60 * options.minutes
    for number, name in enumerate(names):
        planned = sum(PATHS[later].seconds for later in names[number:])
        scale = max(0.0, ends - time.perf_counter()) / planned
        if scale < options.minutes / 10 * LEAST_SHARE:
            failed.append(f"{name}: no time is left; --only {name} measures it alone")
            continue
        print(f"{name}: {scale * PATHS[name].seconds:.0f} s", flush=True)
        try:
            made = measured(name, min(scale, options.minutes), where)
        except subprocess.CalledProcessError as error:
            failed.append(f"{name}: {error}")  # the minutes of the other paths are not to be lost
            continue
        rows = [row for row in rows if row["measured"] != name] + made
        rows.sort(key=lambda row: list(PATHS).index(row["measured"]))
        write_table(options.out, rows)
    write_page(rows, options.page, options.chart)
    write_chart(rows, options.chart)
    if failed:
        raise SystemExit("\n".join(["not measured:", *failed]))


if __name__ == "__main__":
    main()
