from pathlib import Path

import psutil
import pytest

from drumline.runs.event_log import event_line, logged_workers
from drumline.tasks import Event, Told


def event(index: int, worker: int) -> Event:
    return Event(
        *(index, worker),
        start=10 * index,
        end=10 * index + 7,
        env_steps=3,
        task=object(),
        result=object(),
        told=Told({"fitness": 1.0}),
        waited_seconds=0.25,
    )


def test_a_log_gives_back_the_order_of_the_workers(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    workers = [2, 0, 5, 0, 1]
    path.write_bytes(b"".join(event_line(event(k, worker)) for k, worker in enumerate(workers)))
    assert list(logged_workers(path)) == workers


def test_a_line_says_when_in_virtual_time_and_nothing_of_the_wall_clock():
    line = event_line(event(1, 4))
    assert line == b'{"event":1,"worker":4,"start":10,"end":17,"env_steps":3}\n'


def test_a_line_that_was_cut_short_does_not_count(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(event_line(event(0, 3)) + event_line(event(1, 4))[:-5])
    assert list(logged_workers(path)) == [3]


@pytest.mark.parametrize(
    ("second", "message"),
    [(event_line(event(2, 0)), "line 2 is event 2, not 1"), (b"{}\n", "line 2: .*missing")],
)
def test_a_log_with_a_gap_or_a_damaged_line_is_refused(tmp_path: Path, second: bytes, message: str):
    path = tmp_path / "events.jsonl"
    path.write_bytes(event_line(event(0, 3)) + second)
    with pytest.raises(ValueError, match=message):
        logged_workers(path)


def test_a_log_that_is_not_read_on_is_not_open_any_more(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(event_line(event(0, 3)) + event_line(event(1, 4)))
    workers = logged_workers(path)
    assert next(workers) == 3
    del workers
    assert str(path) not in [opened.path for opened in psutil.Process().open_files()]
