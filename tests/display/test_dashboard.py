import dataclasses
import io
import json
import math
import time

import numpy as np
import pytest

from drumline.display import live
from drumline.display.dashboard import choose_display
from drumline.display.live import LiveDashboard
from drumline.display.plain import JsonLines, PlainLines, Silent
from drumline.display.state import DisplayState, RunTitle

TITLE = RunTitle("es", "CartPole-v1", 7, "2 workers", "runs/es-CartPole-v1-s7")
STATE = DisplayState(
    "es", "CartPole-v1", 3, 1_500, 3_000, 60, 1.5, [1.0, 2.0, 9.5], 8.0, 8.5, 1e3, 1e3, 1.5,
    [0.9, 0.8], 0, 0,
)  # fmt: skip


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    return Terminal()


@pytest.mark.parametrize(
    ("stream", "flags", "environ", "expected"),
    [
        (Terminal(), {}, {"TERM": "xterm"}, LiveDashboard),
        (Terminal(), {}, {"TERM": "xterm", "NO_COLOR": ""}, LiveDashboard),
        (Terminal(), {}, {"TERM": "xterm", "NO_COLOR": "1"}, PlainLines),
        (Terminal(), {}, {"TERM": "dumb"}, PlainLines),
        (io.StringIO(), {}, {"TERM": "xterm"}, PlainLines),
        (Terminal(), {"quiet": True}, {}, Silent),
        (Terminal(), {"json": True}, {}, JsonLines),
        (io.StringIO(), {"json": True, "quiet": True}, {}, JsonLines),
    ],
)
def test_the_display_follows_the_flags_and_the_stream(stream, flags, environ, expected):
    display = choose_display(stream, **{"quiet": False, "json": False, **flags}, environ=environ)
    assert type(display) is expected


def test_the_live_dashboard_draws_at_most_a_few_times_a_second(terminal, monkeypatch):
    monkeypatch.setattr(live, "_SHORTEST_INTERVAL", 3600.0)
    display = LiveDashboard(terminal)
    display.start(TITLE)
    display.update(STATE)
    drawn = len(terminal.getvalue())
    assert not display.due()
    start = time.thread_time()
    for _ in range(1_000):
        display.update(STATE)
    cost = (time.thread_time() - start) / 1_000
    assert len(terminal.getvalue()) == drawn
    assert cost < 200e-6  # 20 µs is the goal, 0.3 µs measured; CI machines are shared
    display.close()


def test_a_terminal_of_another_size_is_cleared_before_the_next_drawing(terminal):
    display = LiveDashboard(terminal)
    display.start(TITLE)
    display._draw(STATE)
    assert "\x1b[H\x1b[J" not in terminal.getvalue()
    display = resized(display, 60)
    display._draw(STATE)
    assert terminal.getvalue().count("\x1b[H\x1b[J") == 1
    display._draw(STATE)
    assert terminal.getvalue().count("\x1b[H\x1b[J") == 1
    display.close()


def resized(display: LiveDashboard, columns: int) -> LiveDashboard:
    display._console.size = (columns, 24)
    return display


def test_a_run_that_starts_says_so(terminal):
    display = LiveDashboard(terminal)
    display.start(TITLE)
    assert "starting: environments, processes and the first update" in terminal.getvalue()
    display.close()


def test_the_last_state_is_drawn_and_the_cursor_given_back(terminal):
    display = LiveDashboard(terminal)
    display.start(TITLE)
    display.update(STATE)
    display.update(dataclasses.replace(STATE, update=4_444))
    display.message("worker 1 was replaced [1/3]")
    display.close(["evaluation: 8.0"])
    display.close()
    written = terminal.getvalue()
    assert "4,444" in written
    assert "worker 1 was replaced [1/3]" in written
    assert written.rstrip().endswith("evaluation: 8.0")
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")


def test_a_passing_line_gives_way_to_the_next_state(terminal):
    display = LiveDashboard(terminal)
    display.note("replayed 1 of 9")  # before the start, as a run that restores while it opens
    display.start(TITLE)
    display.note("replayed [5] of 9")
    noted = terminal.getvalue()
    display.update(STATE)
    display.close()
    assert "replayed 1 of 9" in noted
    assert "replayed [5] of 9" in noted
    assert "replayed" not in terminal.getvalue()[len(noted) :]


def test_a_terminal_without_unicode_gets_ascii(terminal):
    terminal.encoding = "ascii"
    display = choose_display(terminal, quiet=False, json=False, environ={})
    display.start(TITLE)
    display.update(STATE)
    display.close(["done"])
    assert terminal.getvalue().isascii()


def test_plain_lines_come_every_few_seconds_and_the_last_one_always():
    stream = io.StringIO()
    display = PlainLines(stream, interval_seconds=1_000)
    display.start(TITLE)
    for update in range(1, 50):
        display.update(dataclasses.replace(STATE, update=update))
    display.message("worker 1 was replaced")
    display.close(["evaluation: 8.0"])
    lines = stream.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines[2:]] == [
        "update 1", "worker 1 was replaced", "update 49", "evaluation: 8.0",
    ]  # fmt: skip
    assert "\x1b" not in stream.getvalue()


def test_plain_lines_survive_a_stream_without_unicode():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    PlainLines(stream).message("θ ± σ")


def test_json_lines_are_an_object_at_the_start_and_per_update_and_nothing_else():
    stream, others = io.StringIO(), io.StringIO()
    display = JsonLines(stream, others)
    display.start(TITLE)
    display.update(STATE)
    display.message("worker 1 was replaced")
    broken = dataclasses.replace(
        STATE, return_curve=[math.nan], evaluation_mean=np.float64("inf"), busy_shares=(0.5,)
    )
    display.update(broken)
    display.close(["done"])
    start, first, second = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (start["event"], start["run"]) == ("start", TITLE.folder)
    assert first["event"] == second["event"] == "update"
    assert first["episode_return_mean"] == 9.5
    assert first["env_steps"] == 1_500
    assert second["episode_return_mean"] is second["evaluation_mean"] is None
    assert second["busy_shares"] == [0.5]
    assert "worker 1 was replaced" in others.getvalue()


def test_quiet_shows_nothing(capsys):
    display = Silent()
    display.start(TITLE)
    assert not display.due()
    display.update(STATE)
    display.message("anything")
    display.close(["done"])
    assert capsys.readouterr() == ("", "")


def test_json_has_an_object_for_each_update_and_each_evaluation_and_none_twice():
    stream = io.StringIO()
    display = JsonLines(stream, io.StringIO())
    for update, evaluation in [(1, None), (1, None), (2, None), (2, 8.0), (2, 8.0)]:
        display.update(dataclasses.replace(STATE, update=update, evaluation_mean=evaluation))
    rows = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(row["update"], row["evaluation_mean"]) for row in rows] == [
        (1, None),
        (2, None),
        (2, 8.0),
    ]
