"""Long runs: what reads a run folder takes the same memory for any number of rows."""

import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from drumline.display import thinned_rows
from drumline.display.contributions import contribution, read_individuals
from drumline.display.run_data import last_returns, read_run
from drumline.display.state import ReturnCurve
from drumline.display.thinned_rows import MOST, ThinnedRows
from drumline.functional.stability import Falls, stability
from drumline.runs.append_file import LONGEST_LINE, whole_lines
from drumline.runs.event_log import event_line, logged_workers
from drumline.runs.fingerprints import (
    chain_header,
    chain_start,
    first_difference,
    next_row,
    read_chain,
    row_line,
)
from drumline.runs.folder import RunError
from drumline.runs.metrics import (
    EVALUATIONS_HEADER,
    MOST_EPISODES,
    evaluation_line,
    last_evaluation,
)
from drumline.runs.tables import read_table
from drumline.tasks import Event, Told
from drumline.types import EvaluationRow

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

RISE = 40_000
"""Bytes that a reading may take more for twice the rows: counters, not rows."""


def write_metrics(folder: Path, rows: int, *, more: str = "", cells: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    with open(folder / "metrics.csv", "w") as file:
        file.write(f"update,env_steps,wall_seconds,episode_return_mean{more}\n")
        for i in range(rows):
            file.write(f"{i + 1},{320 * (i + 1)},{i * 0.25},{i % 977 + 0.5}{cells}\n")
    return folder


def write_evaluations(folder: Path, rows: int) -> Path:
    path = folder / "evaluations.csv"
    with open(path, "w") as file:
        file.write(
            "update,env_steps,episodes,mean,standard_error,minimum,maximum,returns,lengths\n"
        )
        for i in range(rows):
            file.write(f"{i + 1},{320 * (i + 1)},2,{i}.5,0.5,{i},{i + 1},{i}.0;{i + 1}.0,3;4\n")
    return path


def write_chain(path: Path, updates: int, *, other_from: int | None = None) -> Path:
    head = chain_start(("parameters",))
    with open(path, "w") as file:
        file.write(chain_header(("parameters",)) + "\n")
        for update in range(1, updates + 1):
            value = update if other_from is None or update < other_from else -update
            row = next_row(head, update, {"parameters": np.array([value])}, ("parameters",))
            file.write(row_line(row) + "\n")
            head = row.chained
    return path


def peak_bytes(reading: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        reading()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def read_all(folder: Path) -> None:
    """All ways to read a folder's growing files."""
    read_run(folder)
    last_returns(folder)
    last_evaluation(folder / "evaluations.csv")
    chain = read_chain(folder / "fingerprints.csv")
    assert first_difference(chain, chain) is None
    assert sum(1 for _ in logged_workers(folder / "events.jsonl")) > 0


def test_readings_take_the_same_memory_for_twice_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(thinned_rows, "MOST", 1024)
    told = Told({})
    peaks = []
    for rows in (4096, 8192):
        folder = write_metrics(tmp_path / str(rows), rows)
        write_evaluations(folder, rows)
        write_chain(folder / "fingerprints.csv", rows)
        lines = (event_line(Event(i, 0, i, i + 1, 9, None, None, told, 0.0)) for i in range(rows))
        (folder / "events.jsonl").write_bytes(b"".join(lines))
        peaks.append(peak_bytes(lambda folder=folder: read_all(folder)))
    assert peaks[1] < peaks[0] + RISE


@pytest.mark.parametrize("rows", [MOST - 1, MOST, MOST + 1, 3 * MOST])
def test_columns_are_whole_up_to_the_limit_and_thinned_evenly_from_there(tmp_path: Path, rows: int):
    folder = write_metrics(tmp_path / "run", rows)
    run = read_run(folder)
    assert run.env_steps.size <= MOST + 1
    every = np.arange(1, rows + 1) * 320.0
    if rows <= MOST:
        np.testing.assert_array_equal(run.env_steps, every)
    assert run.env_steps[0] == every[0]
    assert run.env_steps[-1] == every[-1]
    kept = (run.env_steps / 320 - 1).astype(int)
    assert np.all(np.diff(kept) > 0)
    assert np.diff(kept).max() <= 13  # four times the mean distance at most
    np.testing.assert_array_equal(run.episode_return_mean, kept % 977 + 0.5)
    np.testing.assert_array_equal(run.wall_seconds, kept * 0.25)


def test_thinning_keeps_its_share_of_every_second_row():
    thinned = ThinnedRows(1, most=1000)
    for index in range(100_000):
        thinned.add(index, [float(index % 2)])
    (kinds,) = thinned.columns()
    assert 500 <= kinds.size <= 1001
    assert abs(kinds.mean() - 0.5) < 0.01


@pytest.mark.slow
def test_a_report_of_a_million_rows_runs_in_limited_memory(tmp_path: Path):
    """A child with a limit on its address space, in which a list of the rows would not fit."""
    folder = write_metrics(tmp_path / "run", 1_000_000)
    write_evaluations(folder, 100_000)
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from drumline.display.plots import curves_figure, write_picture\n"
        "from drumline.display.run_data import read_run, last_returns\n"
        "folder = Path(sys.argv[1])\n"
        "import matplotlib.backends.backend_agg, matplotlib.figure\n"
        "size = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + (160 << 20),) * 2)\n"
        "run = read_run(folder)\n"
        "write_picture(curves_figure([run]), folder / 'curve.png')\n"
        "print(run.env_steps.size, last_returns(folder))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.match(r"\d+ \[99999\.0, 100000\.0\]", done.stdout)


def test_individuals_beyond_the_limit_keep_their_counts_and_their_waits(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    names = (
        *("env_steps", "wall_seconds", "kind", "logical_worker", "idle_virtual_seconds", "fitness"),
        *("mean_fitness", "improvement_over_mean", "step_size", "update_norm", "accepted"),
        *("distance_moved", "staleness_tells"),
    )
    rows = MOST + 10_001
    with open(folder / "metrics.csv", "w") as file:
        file.write(",".join(("update", *names)) + "\n")
        for i in range(rows):
            # Workers take turns; each reports the wait before its row: its own number of the row.
            file.write(f"{i},{i},{i},{i % 2},{i % 5},{i},{i % 2},0,0,0.5,{1 + i % 2},1,0,0\n")
    individuals = read_individuals(folder)
    assert individuals.counts == {"ES": (rows + 1) // 2, "RL": rows // 2}
    assert individuals.columns["kind"].size <= MOST + 1
    steps, after = individuals.columns["env_steps"], individuals.columns["idle_after"]
    np.testing.assert_array_equal(after[:-5], steps[:-5] + 5)
    refined = contribution(individuals, "RL")
    assert refined.individuals == rows // 2
    assert refined.fitness == 1.0
    assert refined.path_share == pytest.approx(2 / 3, abs=0.01)


def test_a_line_without_an_end_is_damage_and_is_not_read_to_it(tmp_path: Path):
    path = tmp_path / "metrics.csv"
    with open(path, "wb") as file:
        file.write(b"update\n1\n")
        file.truncate(1 << 32)  # a hole: no disk, but four gigabytes to read
    with pytest.raises(RunError, match=f"line 3 is longer than {LONGEST_LINE} bytes"):
        list(whole_lines(path))


@pytest.mark.parametrize("episodes", [8_000, MOST_EPISODES])
def test_an_evaluation_of_the_most_episodes_with_the_longest_numbers_is_read(
    tmp_path: Path, episodes: int
):
    lowest = -sys.float_info.min * 1.2345678901234567
    row = EvaluationRow(1, 2, (lowest,) * episodes, (2**62,) * episodes)
    path = tmp_path / "evaluations.csv"
    path.write_text(f"{EVALUATIONS_HEADER}\n{evaluation_line(row)}\n")
    assert last_evaluation(path) == row


def test_rows_may_be_appended_while_they_are_read(tmp_path: Path):
    folder = write_metrics(tmp_path, 10)
    rows = read_table(folder / "metrics.csv").rows()
    first = list(islice(rows, 3))
    with open(folder / "metrics.csv", "a") as file:
        file.write("11,1,1,1\n12,1")
    assert [row[0] for row in [*first, *rows]] == [str(i) for i in range(1, 12)]


def test_chains_are_compared_to_their_ends(tmp_path: Path):
    one = read_chain(write_chain(tmp_path / "one.csv", 50))
    other = read_chain(write_chain(tmp_path / "other.csv", 60, other_from=41))
    assert first_difference(one, other) == (41, "parameters")
    lines = (tmp_path / "other.csv").read_text().splitlines(keepends=True)
    (tmp_path / "other.csv").write_text("".join([*lines[:55], lines[56], *lines[57:]]))
    with pytest.raises(RunError, match="line 56 does not follow"):
        first_difference(one, other)


def test_a_row_of_an_update_that_was_already_there_is_damage(tmp_path: Path):
    head = chain_start(("parameters",))
    arrays = {"parameters": np.zeros(1)}
    lines = [chain_header(("parameters",))]
    for update in (1, 2, 2):
        row = next_row(head, update, arrays, ("parameters",))
        lines.append(row_line(row))
        head = row.chained
    (tmp_path / "fingerprints.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(RunError, match="line 4 does not follow"):
        read_chain(tmp_path / "fingerprints.csv").last()


def test_a_return_curve_is_whole_while_short_and_bounded_for_ever():
    curve = ReturnCurve(most=64)
    for i in range(64):
        curve.append(float(i))
    assert curve.values == [float(i) for i in range(64)]
    for i in range(64, 100_000):
        curve.append(float(i))
        assert len(curve.values) <= 65
        assert curve.values[-1] == i
    distances = np.diff(curve.values[:-1])
    assert curve.values[0] == 0.0
    assert np.all(distances == distances[0])


def test_falls_that_come_one_by_one_are_the_largest_drawdown():
    scores = np.random.default_rng(0).normal(size=500).cumsum()
    falls = Falls()
    for score in scores.tolist():
        falls.add(score)
    assert falls.largest == stability(scores).largest_drawdown
