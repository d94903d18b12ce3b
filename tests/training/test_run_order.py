"""Steps of every run around its training, their order, and the state that an error leaves."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from drumline.errors import ImpureEnvironment
from drumline.training.run_order import run_in_order
from drumline.training.stop_signals import StopSignals
from drumline.training.stopped import Stopped

MADE = ["make crew", "make pool"]
OPENED = [*MADE, "open", "limit threads", "checkpoint", "start display"]
TRAINED = [*OPENED, "train"]
ENDED = [*TRAINED, "checkpoint", "evaluate last", "save policy", "call last"]
CLOSED = ["close pool", "close crew", "close ledger", "close stream", "close display"]
FREED = ["free threads", *CLOSED]


class Recorded:
    """A run whose parts write down when they are called, and then do what `does` says of them."""

    def __init__(self, **does: Callable[[], None]):
        self.calls: list[str] = []
        self.told: list[Any] = []
        self._does = {name.replace("_", " "): action for name, action in does.items()}
        self.ledger: Any = SimpleNamespace(
            fresh=True,
            finishing=False,
            display=SimpleNamespace(close=self.part("close display")),
            open=self.part("open"),
            start_display=self.part("start display"),
            save_stopped=self.part("save stopped"),
            ended_by=lambda error: None,
            say_how_to_go_on=lambda error: None,
            closes_within=lambda signals: None,
            save_policy=self.part("save policy"),
            call_last=self.part("call last"),
            last_evaluation="the last evaluation",
            show_if_due=lambda activity, last: None,
        )

    def part(self, name: str, result: Any = None) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            self.calls.append(name)
            self._does.get(name, lambda: None)()
            return result

        return called

    def worker(self, name: str) -> Any:
        return SimpleNamespace(
            timeline=lambda: [f"span of the {name}"],
            activity=lambda: [f"row of the {name}"],
            close=self.part(f"close {name}"),
        )

    @contextmanager
    def limit(self) -> Iterator[None]:
        self.part("limit threads")()
        try:
            yield
        finally:
            self.part("free threads")()

    def run(self, waits: Callable[[StopSignals], None] = lambda signals: None) -> Any:
        def train(crew: Any, pool: Any, signals: StopSignals) -> None:
            assert crew.timeline() + pool.timeline() == ["span of the crew", "span of the pool"]
            self.part("train")()
            waits(signals)

        def close_ledger(*given: Any) -> None:
            self.told.extend(given)
            self.part("close ledger")()

        return run_in_order(
            train,
            self.ledger,
            evaluate_last=self.part("evaluate last"),
            makes=[self.part(f"make {name}", self.worker(name)) for name in ("crew", "pool")],
            checkpoint=self.part("checkpoint"),
            policy=dict,
            close_ledger=close_ledger,
            one_thread=self.limit,
            afterwards=self.part("close stream"),
            explain=self.part("explain"),
        )


def raising(error: BaseException) -> Callable[[], None]:
    def raises() -> None:
        raise error

    return raises


def test_a_run_opens_trains_and_closes_in_order():
    run = Recorded()
    assert run.run() == "the last evaluation"
    assert run.calls == [*ENDED, *FREED]
    assert run.told == [
        ["span of the crew", "span of the pool"],
        ["row of the crew", "row of the pool"],
    ]


def test_a_resumed_run_does_not_write_the_checkpoint_that_it_has():
    run = Recorded()
    run.ledger.fresh = False
    run.run()
    opened = [name for name in TRAINED if name != "checkpoint"]
    assert run.calls == [*opened, *ENDED[len(TRAINED) :], *FREED]


@pytest.mark.parametrize(
    ("failing", "calls"),
    [
        ("make_crew", [*MADE[:1], *CLOSED[2:]]),
        ("make_pool", [*MADE, *CLOSED[1:]]),
        ("open", [*MADE, "open", *CLOSED]),
        ("start_display", [*OPENED, *FREED]),
        ("train", [*TRAINED, "checkpoint", "save stopped", "explain", *FREED]),
        ("evaluate_last", [*ENDED[:-2], "save stopped", "explain", *FREED]),
        ("close_pool", [*ENDED, *FREED]),
        ("close_ledger", [*ENDED, *FREED]),
        ("close_stream", [*ENDED, *FREED]),
    ],
)
def test_whatever_fails_all_that_was_made_is_closed_in_order(failing: str, calls: list[str]):
    run = Recorded(**{failing: raising(OSError(failing))})
    with pytest.raises(OSError, match=failing):
        run.run()
    assert run.calls == calls


def midway() -> Stopped:
    error = Stopped(signal.SIGINT)
    error.midway = True
    return error


@pytest.mark.parametrize(
    ("error", "finishing", "left"),
    [
        (Stopped(signal.SIGTERM), False, ["checkpoint", "save stopped"]),
        (Stopped(signal.SIGTERM), True, ["save stopped"]),
        (midway(), False, []),
        (ImpureEnvironment(), False, []),
    ],
)
def test_an_error_leaves_the_state_that_stands_if_it_is_whole_and_not_yet_written(
    error: BaseException, finishing: bool, left: list[str]
):
    run = Recorded(train=raising(error))
    run.ledger.finishing = finishing
    with pytest.raises(type(error)):
        run.run()
    assert run.calls == [*TRAINED, *left, "explain", *FREED]


def test_an_error_between_two_waits_leaves_the_checkpoint_before():
    """Parameters may be of the next update there, and rows and counters not yet."""
    run = Recorded()

    def out_of_memory(signals: StopSignals) -> None:
        signals.state_whole = False
        raise MemoryError

    with pytest.raises(MemoryError):
        run.run(out_of_memory)
    assert run.calls == [*TRAINED, "explain", *FREED]


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_is_kept_back_until_training_waits():
    run = Recorded(make_crew=interrupt)
    with pytest.raises(Stopped):
        run.run(StopSignals.arm)
    assert run.calls == [*TRAINED, "checkpoint", "save stopped", "explain", *FREED]


def test_a_signal_that_comes_while_all_is_closed_waits_until_it_is():
    def close_display() -> None:
        interrupt()
        run.calls.append("display closed")

    run = Recorded(close_display=close_display)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert run.calls == [*ENDED, *FREED, "display closed"]
