"""Exceptions reach other processes whole."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context  # noqa: TID251 - the pool is a user's
from typing import Any

import pytest

from drumline.errors import GroupLost, RoleKilled, TaskKilledWorkers, WorkerError
from drumline.training.stopped import Stopped

ERRORS: list[Any] = [
    WorkerError((1, "task"), "ValueError: no", "Traceback", ValueError("no")),
    TaskKilledWorkers("a task", ["SIGKILL", "a hang of 60 s"]),
    RoleKilled("executor", 1, ["SIGSEGV"], "environment 0"),
    GroupLost(1, "silence"),
    Stopped(2),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_exception_has_its_words_attributes_and_notes_after_a_journey(error: Any):
    error.add_note("a note")
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert arrived.__notes__ == error.__notes__
    for name, value in vars(error).items():
        assert repr(getattr(arrived, name)) == repr(value)


def test_what_cannot_be_pickled_travels_as_words():
    class Local(ValueError):
        pass

    arrived = pickle.loads(pickle.dumps(WorkerError(lambda: 0, "Local", "Traceback", Local())))
    assert "<lambda>" in arrived.task
    assert arrived.cause is None


def failing() -> None:
    raise WorkerError("a task", "ValueError: no", "Traceback")


def test_a_pool_of_processes_gets_the_exception_of_its_call():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        done = pool.submit(failing)
        with pytest.raises(WorkerError, match="while running 'a task'"):
            done.result(60)
