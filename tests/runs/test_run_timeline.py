import csv
import json
from pathlib import Path

from drumline.runs.timeline import EARLIER_KEPT, write_processes, write_timeline
from drumline.types import ProcessActivity, Span

SPANS = [Span("worker", 1, 5.0, 5.5, 3), Span("actor", 0, 5.25, 6.0, 1)]


def trace(path: Path) -> list[dict]:
    return json.loads(path.read_text())["traceEvents"]


def work(path: Path) -> list[tuple]:
    return [(e["cat"], e["tid"], e["ts"], e["dur"]) for e in trace(path) if e["ph"] == "X"]


def test_every_process_has_a_named_track(tmp_path: Path):
    path = tmp_path / "timeline.json"
    write_timeline(path, SPANS)
    names = {e["args"]["name"] for e in trace(path) if e["name"] == "thread_name"}
    assert names == {"worker 1", "actor 0"}
    assert work(path) == [("worker", 1, 0.0, 5e5), ("actor", 0, 2.5e5, 7.5e5)]


def test_the_timeline_of_the_session_before_is_set_aside_as_it_is(tmp_path: Path):
    path = tmp_path / "timeline.json"
    path.write_text("{ not read")  # whatever its size
    write_timeline(path, [Span("learner", 0, 1.0, 2.0, 1)])
    assert work(path) == [("learner", 0, 0.0, 1e6)]
    assert (tmp_path / "timeline-1.json").read_text() == "{ not read"


def test_timelines_of_many_sessions_do_not_fill_the_disk(tmp_path: Path):
    path = tmp_path / "timeline.json"
    for session in range(EARLIER_KEPT + 5):
        write_timeline(path, [Span("worker", session, 0.0, 1.0, 1)])
    assert work(path)[0][1] == EARLIER_KEPT + 4
    kept = [f"timeline-{n}.json" for n in range(5, EARLIER_KEPT + 5)]
    assert sorted(other.name for other in tmp_path.iterdir()) == sorted([*kept, path.name])
    assert work(tmp_path / kept[-1])[0][1] == EARLIER_KEPT + 3


def test_the_latest_sessions_place_on_the_monotonic_clock_is_kept(tmp_path: Path):
    path = tmp_path / "timeline.json"
    for first in (5.0, 3.5):
        write_timeline(path, [Span("worker", 0, first, first + 1.0, 1)])
        assert json.loads(path.read_text())["otherData"] == {"origin_seconds": first}


def test_no_spans_and_a_damaged_earlier_file_are_no_failure(tmp_path: Path):
    path = tmp_path / "timeline.json"
    path.write_text("{")
    write_timeline(path, [])
    assert trace(path) == []


def test_processes_of_every_session_are_appended(tmp_path: Path):
    path = tmp_path / "processes.csv"
    for pid in (11, 12):
        write_processes(path, [ProcessActivity("worker", 0, pid, 5, 900, 1.25, 1)])
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["pid"] for row in rows] == ["11", "12"]
    assert float(rows[0]["busy_seconds"]) == 1.25


def test_a_row_that_a_full_disk_has_torn_is_cut(tmp_path: Path):
    path = tmp_path / "processes.csv"
    write_processes(path, [ProcessActivity("worker", 0, 11, 5, 900, 1.25, 1)])
    whole = path.read_bytes()
    path.write_bytes(whole + b"worker,1,12,5,9")
    write_processes(path, [ProcessActivity("worker", 0, 13, 5, 900, 1.25, 1)])
    assert path.read_bytes() == whole + b"worker,0,13,5,900,1.25,1\n"
