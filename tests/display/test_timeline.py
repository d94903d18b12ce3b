"""Timelines: slices by process, shares of waiting, and the sentence about the bottleneck."""

import json
from pathlib import Path

import numpy as np
import pytest

from drumline.display import timeline
from drumline.display.timeline import Track, bottleneck, drawn, judged, read_tracks, shares
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.timeline import write_timeline
from drumline.types import Span


def track(role: str, index: int, *slices: tuple[float, float], tasks: int = 1) -> Track:
    begins, ends = (np.array(column) for column in zip(*slices, strict=True))
    return Track(role, index, begins, ends, np.full(len(slices), tasks))


def folder_with(path: Path, spans: list[Span]) -> RunFolder:
    document = {"config": {"env": "CartPole-v1", "seed": 0}}
    folder = RunFolder.create(path, method="es", env_id="CartPole-v1", seed=0, document=document)
    write_timeline(folder.timeline_json, spans)
    return folder


def test_slices_are_read_as_they_were_written(tmp_path: Path):
    spans = [
        Span("worker", 1, 10.5, 11.0, 3),
        Span("worker", 0, 10.0, 12.0, 2),
        Span("learner", 0, 12.0, 12.5, 1),
    ]
    tracks = read_tracks(folder_with(tmp_path / "run", spans))
    assert [(t.role, t.index) for t in tracks] == [("learner", 0), ("worker", 0), ("worker", 1)]
    assert tracks[2].begins == pytest.approx([0.5])
    assert tracks[2].ends == pytest.approx([1.0])
    assert tracks[2].tasks.tolist() == [3]


def test_slices_have_the_words_of_their_role(tmp_path: Path):
    spans = [Span("worker", 0, 0.0, 1.0, 2), Span("learner", 0, 0.0, 1.0, 1)]
    folder = folder_with(tmp_path / "run", spans)
    events = json.loads(folder.timeline_json.read_text())["traceEvents"]
    assert {e["name"] for e in events if e["ph"] == "X"} == {"2 tasks", "update"}


def test_a_wait_belongs_to_the_role_that_works_meanwhile():
    tracks = [
        track("worker", 0, (0.0, 4.0), (8.0, 10.0)),
        track("worker", 1, (0.0, 2.0), (8.0, 10.0)),
        track("learner", 0, (4.0, 6.0)),
    ]
    learner, worker = shares(tracks)[::-1]
    assert (worker.role, worker.processes) == ("worker", 2)
    # Of 20 s: 10 working, 2 while the other worker works, 4 while the learner does, 4 alone.
    assert worker.busy == pytest.approx(0.5)
    assert worker.waits == pytest.approx({"worker": 0.1, "learner": 0.2, "driver": 0.2})
    assert learner.waits == pytest.approx({"worker": 0.6, "driver": 0.2})
    for share in (worker, learner):
        assert share.busy + sum(share.waits.values()) == pytest.approx(1.0)


def test_places_in_virtual_time_are_no_processes():
    tracks = [track("worker", 0, (0.0, 1.0)), track("logical worker", 0, (0.0, 9.0))]
    (share,) = shares(tracks)
    assert share.busy == pytest.approx(1.0)


def test_shares_are_of_the_time_of_which_every_process_has_its_slices():
    """A process keeps its latest slices: here the executors' are those of the last second."""
    tracks = [
        track("learner", 0, *((t + 0.9, t + 1.0) for t in range(10))),
        *(track("executor", i, (9.0 + i / 100, 9.9)) for i in (0, 1)),
        track("evaluator", 0, (9.5, 9.6)),
    ]
    assert judged(tracks) == pytest.approx((9.01, 10.0))
    executor = next(share for share in shares(tracks) if share.role == "executor")
    assert executor.busy == pytest.approx(0.89 / 0.99)
    assert bottleneck(shares(tracks)).startswith("The executors bound the speed")


@pytest.mark.parametrize(
    ("tracks", "sentence"),
    [
        ([track("learner", 0, (0.5, 9.5)), track("executor", 0, (0.0, 0.5), (9.5, 10.0))],
         "The learner bounds the speed: it worked 90% of the time."),
        ([track("worker", i, (0.0, 8.0), (9.0, 10.0)) for i in (0, 1)],
         "The workers bound the speed: they worked 90% of the time."),
        ([track("worker", 0, (0.0, 1.0), (9.0, 10.0))],
         "The driver bounds the speed: 80% of the time no other process worked."),
        ([], ""),
    ],
)  # fmt: skip
def test_the_bottleneck_is_one_sentence(tracks: list[Track], sentence: str):
    assert bottleneck(shares(tracks)) == sentence


def test_a_page_gets_whole_microseconds_and_no_more_slices_than_it_can_draw():
    begins = np.arange(5000) * 1e-3
    many = Track("executor", 0, begins, begins + 9e-4, np.ones(5000, int))
    (whole,) = drawn([many])
    assert sum(whole["tasks"]) == 5000
    at = np.cumsum(np.array(whole["steps"]) + np.array(whole["lengths"]))
    assert at.tolist() == np.round((begins + 9e-4) * 1e6).astype(int).tolist()
    (thin,) = drawn([many], most=100)
    assert len(thin["steps"]) <= 100
    assert sum(thin["tasks"]) == 5000  # joined, not left out
    assert sum(thin["steps"]) + sum(thin["lengths"]) == at[-1]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"traceEvents": [{"ph": "X", "cat": "a", "tid": 0, "ts": 0, "dur": -1, "args": {}}]}',
        '{"traceEvents": [{"ph": "X", "cat": "a", "tid": 0, "ts": 1e999, "dur": 1, "args": {}}]}',
        '{"traceEvents": [{"ph": "X", "cat": "a", "tid": 0, "ts": 1e300, "dur": 1, "args": {}}]}',
        '{"traceEvents": [{"ph": "X", "ts": 1' + "0" * 400 + ', "dur": 1}]}',
        '{"traceEvents": [7]}',
        "[" * 100_000,
    ],
)
def test_a_damaged_timeline_is_named(tmp_path: Path, text: str):
    folder = folder_with(tmp_path / "run", [])
    folder.timeline_json.write_text(text)
    with pytest.raises(RunError, match=r"timeline\.json is damaged"):
        read_tracks(folder)


def test_a_run_without_a_timeline_has_no_tracks(tmp_path: Path):
    folder = folder_with(tmp_path / "run", [])
    assert read_tracks(folder) == []
    folder.timeline_json.unlink()
    assert read_tracks(folder) == []


def test_a_timeline_of_more_processes_than_a_page_can_draw_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    event = {"ph": "X", "ts": 0, "dur": 1, "cat": "worker", "args": {"tasks": 1}}
    folder = folder_with(tmp_path / "run", [])
    events = [{**event, "tid": number} for number in range(30_001)]
    folder.timeline_json.write_text(json.dumps({"traceEvents": events}))
    assert drawn(read_tracks(folder)) == []
    folder.timeline_json.write_text(json.dumps({"traceEvents": events[:100]}))
    assert len(read_tracks(folder)) == 100
    roles = [{**events[number], "cat": f"role {number}"} for number in range(17)]
    folder.timeline_json.write_text(json.dumps({"traceEvents": roles}))
    assert read_tracks(folder) == []
    folder.timeline_json.write_text(json.dumps({"traceEvents": events[:100]}))
    monkeypatch.setattr(timeline, "MOST_CELLS", 100 * 100 - 1)
    assert read_tracks(folder) == []
