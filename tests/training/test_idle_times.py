"""Idle time of logical workers."""

import pytest

from drumline.tasks import Event, Told
from drumline.training.idle_times import IdleTimes
from drumline.types import State


def event(worker: int, start: int, end: int) -> Event:
    return Event(0, worker, start, end, 0, None, None, Told({}), 0.0)


def test_what_lies_between_two_jobs_of_a_worker_is_idle_time_until_it_is_taken():
    idle = IdleTimes(2)
    idle.add(event(0, 0, 10))
    idle.add(event(1, 4, 12))
    assert (idle.take(0), idle.take(1), idle.total(1)) == (0, 4, 4)
    idle.add(event(0, 13, 20))
    idle.add(event(0, 21, 30))
    assert (idle.take(0), idle.take(0), idle.total(0)) == (4, 0, 4)


def test_ends_out_of_order_are_no_idle_time():
    idle = IdleTimes(1)
    idle.add(event(0, 0, 10))
    idle.add(event(0, 7, 12))
    assert idle.total(0) == 0


def test_a_state_holds_all_of_it():
    idle, other = IdleTimes(1), IdleTimes(1)
    idle.add(event(0, 3, 10))
    state = idle.state()
    other.load(state)
    idle.add(event(0, 11, 12))
    other.add(event(0, 11, 12))
    assert other.take(0) == idle.take(0) == other.total(0) == 4
    assert idle.state().tensors.keys() == state.tensors.keys()
    for name in state.tensors:
        rest = {k: v for k, v in state.tensors.items() if k != name}
        with pytest.raises(ValueError, match=f"no tensor '{name}'"):
            IdleTimes(1).load(State(rest))
