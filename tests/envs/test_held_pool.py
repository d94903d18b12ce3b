"""A pool is let go while its threads sleep: EnvPool's destructor may wait for ever otherwise."""

import hashlib
import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from drumline.envs import held_pool
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.held_pool import HeldPool, wait_until_asleep
from drumline.envs.lanes_spec import LanesSpec
from drumline.envs.make import make_environment

needs_envpool = pytest.mark.skipif(
    importlib.util.find_spec("envpool") is None, reason="EnvPool exists for Linux"
)
CARTPOLE = EnvironmentSpec("CartPole-v1", engine="envpool")


class BusyThread:
    """Hashes without the GIL for as long as it is told, then waits to be let go."""

    def __init__(self, seconds: float):
        self.number = 0
        self.done = False
        self._seconds = seconds
        self._begun, self._leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> "BusyThread":
        self._thread.start()
        self._begun.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave.set()
        self._thread.join()

    def _work(self) -> None:
        self.number = threading.get_native_id()
        self._begun.set()
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            hashlib.pbkdf2_hmac("sha256", b"", b"", 10_000)
        self.done = True
        self._leave.wait()


def test_waiting_ends_when_the_thread_sleeps():
    with BusyThread(0.2) as busy:
        assert wait_until_asleep({busy.number})
        assert busy.done


def test_a_thread_that_never_sleeps_is_waited_for_no_longer_than_told():
    with BusyThread(1.0) as busy:
        assert not wait_until_asleep({busy.number}, seconds=0.1)
        assert not busy.done


def test_threads_that_have_gone_are_not_waited_for():
    assert wait_until_asleep({2**22 + 1})  # no Linux numbers a thread so high


class Pool:
    """Says when it was closed."""

    def __init__(self, closed: Callable[[], None]):
        self.close = closed


@pytest.mark.parametrize("forgotten", [False, True], ids=["closed", "forgotten"])
def test_a_pool_is_closed_once_and_after_the_threads_that_came_with_it(forgotten: bool):
    busy, after = BusyThread(0.2), list[bool]()

    def make() -> Pool:
        busy.__enter__()
        return Pool(lambda: after.append(busy.done))

    held = HeldPool(make)
    assert held.threads == {busy.number}
    if not forgotten:
        held.close()
        assert held.pool is None
    del held
    busy.__exit__()
    assert after == [True]


def test_a_pool_that_cannot_be_made_leaves_nothing_to_close():
    with pytest.raises(ZeroDivisionError):
        HeldPool(lambda: 1 // 0)


@needs_envpool
def test_both_ways_of_using_envpool_let_go_of_sleeping_threads_only(
    monkeypatch: pytest.MonkeyPatch,
):
    waited, real = list[frozenset[int]](), wait_until_asleep

    def watched(threads: frozenset[int]) -> bool:
        waited.append(threads)
        return real(threads)

    monkeypatch.setattr(held_pool, "wait_until_asleep", watched)
    lanes = LanesSpec(CARTPOLE, 0, 0, 2)()
    lanes.begin(0)
    lanes.step(None, np.zeros(2))
    lanes.renew(1)
    lanes.close()
    environment = make_environment(CARTPOLE).environment
    environment.reset(seed=0)
    environment.step(0)
    environment.close()
    assert [len(threads) >= 2 for threads in waited] == [True] * 4


@needs_envpool
def test_the_thread_that_fills_the_stock_has_slept_when_the_pool_goes(
    monkeypatch: pytest.MonkeyPatch,
):
    """That thread gets a turn only when no other wants the core: it is behind when steps end."""
    states = list[set[str]]()
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        for seed in range(20):
            lanes = LanesSpec(CARTPOLE, seed, 0, 1)()
            lanes.begin(0)
            held: HeldPool = lanes._held
            for thread in held.threads:
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
            close = held.pool.close

            def watched(held: HeldPool = held, close: Callable[[], None] = close) -> None:
                states.append({_state(thread) for thread in held.threads})
                close()

            monkeypatch.setattr(held.pool, "close", watched)
            for _ in range(8):
                lanes.step(None, np.zeros(1))
            lanes.close()
    finally:
        os.sched_setaffinity(0, cores)
    assert states == [{"S"}] * 20


def _state(thread: int) -> str:
    return Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()[0]


HELD_TO_THE_END = """
import builtins, sys
from drumline.envs.held_pool import HeldPool

class Pool:
    def close(self, modules=sys):
        print(modules.meta_path is not None)

builtins.held = HeldPool(Pool)
"""


def test_a_pool_that_is_held_to_the_end_is_closed_while_modules_can_be_imported():
    """Python 3.12 printed `Exception ignored … ImportError` for one that went later."""
    done = subprocess.run(
        [sys.executable, "-c", HELD_TO_THE_END], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
