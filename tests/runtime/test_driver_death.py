"""However the driver ends, no child stays behind; each case runs in a process of its own."""

import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import doubles
import pytest
from campaigns import cases
from typed_commands import environ

SCRIPT = """
import signal
import sys, doubles
from drumline.protocols import PublishedLayout
from drumline.runtime.process_pool import ProcessPool

# A shell that starts tests in the background makes its children ignore SIGINT; a terminal does not.
signal.signal(signal.SIGINT, signal.default_int_handler)
pool = ProcessPool(doubles.{factory}, size=2, published=PublishedLayout({{}}))
doubles.wait_ready(pool)
print(*doubles.living(pool), flush=True)
{rest}
"""
WORK_FOR_EVER = """
pool.publish(0, {})
pool.submit([doubles.Digest(number, seconds=1000.0) for number in range(8)])
print("working", flush=True)
pool.completed()
"""


def start(rest: str, factory: str = "digest_worker") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(factory=factory, rest=rest)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ(),
        start_new_session=True,
    )


@pytest.mark.parametrize(
    "number", cases([signal.SIGKILL, signal.SIGINT, signal.SIGTERM], quick=[signal.SIGKILL])
)
def test_no_child_outlives_a_driver_that_a_signal_ends(number: signal.Signals):
    with start(WORK_FOR_EVER) as driver:
        assert driver.stdout is not None
        pids = [int(word) for word in driver.stdout.readline().split()]
        working = driver.stdout.readline()
        os.killpg(driver.pid, number)  # as a terminal does with Ctrl-C
        driver.communicate(timeout=60)
    assert (len(pids), working) == (2, "working\n")
    assert driver.returncode != 0
    doubles.wait_until(lambda: not any(doubles.is_running(pid) for pid in pids))


@pytest.mark.skipif(sys.platform != "linux", reason="the sweeper reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_program_of_an_environment_outlives_its_driver(number: signal.Signals):
    rest = "pool.submit([0, 1])\n"
    rest += "print(*[done.result for done in doubles.collect(pool, 2)], flush=True)\n"
    rest += "import time; time.sleep(600)"
    with start(rest, "daemon_worker") as driver:
        assert driver.stdout is not None
        driver.stdout.readline()
        pids = [int(word) for word in driver.stdout.readline().split()]
        assert len(pids) == 2
        assert all(doubles.is_running(pid) for pid in pids)
        os.killpg(driver.pid, number)
    doubles.wait_until(lambda: not any(doubles.is_running(pid) for pid in pids))


def sweeps(mark: str) -> bool:
    """Return whether a sweeper is at work for a driver's mark."""
    found: list[bool] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(mark.encode() in path.read_bytes())
    return any(found)


@pytest.mark.skipif(sys.platform != "linux", reason="the sweeper reads /proc")
def test_the_sweeper_spares_programs_of_other_drivers():
    rest = (
        "from drumline.runtime.sweeper import SWEEPER\n"
        "print(*SWEEPER.mark(), flush=True)\n"
        "import time; time.sleep(600)"
    )
    drivers = [start(rest) for _ in range(2)]
    killed, other = drivers
    pids, marks = list[int](), list[str]()
    for driver in drivers:
        assert driver.stdout is not None
        pids = [int(word) for word in driver.stdout.readline().split()]
        marks.append(driver.stdout.readline().strip())
    assert sweeps(marks[0])
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=60)
    doubles.wait_until(lambda: not sweeps(marks[0]))
    assert all(doubles.is_running(pid) for pid in pids)
    os.killpg(other.pid, signal.SIGKILL)
    other.communicate(timeout=60)


def test_an_interrupted_pool_can_be_closed():
    rest = "try:\n" + textwrap.indent(WORK_FOR_EVER.strip(), "    ")
    rest += "\nexcept KeyboardInterrupt:\n    pool.close()\n    print('closed')\n"
    with start(rest) as driver:
        assert driver.stdout is not None
        pids = [int(word) for word in driver.stdout.readline().split()]
        assert driver.stdout.readline() == "working\n"
        driver.send_signal(signal.SIGINT)
        assert driver.communicate(timeout=60) == ("closed\n", "")
    assert not any(doubles.is_running(pid) for pid in pids)


def test_a_forgotten_pool_ends_with_its_driver():
    driver = start("")
    out, err = driver.communicate(timeout=60)
    assert driver.returncode == 0
    assert err == ""
    assert not any(doubles.is_running(int(pid)) for pid in out.split())


def test_what_a_worker_prints_does_not_reach_the_drivers_output():
    driver = start(
        "pool.submit([1, 2]); doubles.collect(pool, 2); pool.close(); print('result')",
        factory="printing_worker",
    )
    out, err = driver.communicate(timeout=60)
    assert out.splitlines()[1:] == ["result"]
    assert err.count("noise from Python") == err.count("noise from C") == 2


def test_a_factory_of_a_bare_script_is_refused_with_one_sentence():
    driver = start(
        "def mine(context): return print\n"
        "try:\n    ProcessPool(mine, size=1, published=PublishedLayout({}))\n"
        "except ValueError as error:\n    print(error)\n"
    )
    out, _ = driver.communicate(timeout=60)
    assert out.splitlines()[1].startswith("mine lives in __main__")
    assert 'put it into a module, or use workers="inline"' in out
