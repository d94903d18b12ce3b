"""Late tasks: found by the recent times of their kind, issued on a second host, and dropped."""

from pathlib import Path
from typing import Any

import doubles
import pytest
from runtime.cluster.thread_nodes import ThreadNodes
from runtime.contract import NOTHING, digest_of

from drumline.runtime.cluster import issued_tasks, node_pool, stragglers
from drumline.runtime.cluster.node_pool import NodePool
from drumline.runtime.cluster.stragglers import FLOOR_SECONDS, KNOWN, RECENT, Stragglers


def known(seconds: list[float], kind: str = "episode") -> Stragglers:
    found = Stragglers()
    for serial, length in enumerate(seconds):
        found.sent([serial], [kind], 0.0)
        found.answered([serial], 0, length)
    return found


def test_the_bound_is_that_of_99_in_100():
    times = [10.0] * 98 + [30.0] + [90.0]
    assert known(times).bound("episode") == 90.0
    assert known(times * 4).bound("episode") == 90.0
    assert known([10.0] * 199 + [90.0]).bound("episode") == 10.0


def test_short_tasks_are_late_after_the_floor_only():
    found = known([0.01] * KNOWN)
    found.sent([1000], ["episode"], 5.0)
    assert found.late(5.0 + 0.9 * FLOOR_SECONDS) == []
    assert found.late(5.0 + 1.1 * FLOOR_SECONDS) == [1000]


def test_no_task_is_late_before_enough_of_its_kind_are_known():
    found = known([0.01] * (KNOWN - 1))
    found.sent([1000], ["episode"], 0.0)
    found.sent([1001], ["critic"], 0.0)
    assert found.late(1e6) == []
    found.sent([1002], ["episode"], 0.0)
    found.answered([1002], 0, 0.01)
    assert found.late(1e6) == [1000]


def test_times_that_include_the_start_of_a_host_do_not_count():
    found = known([2.0] * KNOWN)
    found.sent([500], ["episode"], 0.0, counts=False)
    found.answered([500], 0, 40.0)
    assert found.bound("episode") == 2.0


def test_only_recent_times_count():
    found = known([50.0] * RECENT + [2.0] * RECENT)
    assert found.bound("episode") == 2.0


def test_a_late_task_has_one_double_and_begins_anew_when_it_is_issued_again():
    found = known([2.0] * KNOWN)
    found.sent([7], ["episode"], 0.0)
    found.sent_twice(7, 3)
    assert found.late(100.0) == []
    found.sent([7], ["episode"], 100.0)
    assert found.late(101.0) == []
    assert found.late(103.0) == [7]


def test_doubles_and_overtaken_tasks_are_counted_and_told_once():
    found = known([2.0] * KNOWN)
    for serial in (7, 8):
        found.sent([serial], ["episode"], 0.0)
        found.sent_twice(serial, 3)
    found.answered([7], 3, 5.0)
    found.answered([8], 0, 5.0)
    assert "2 issued on a second node too, whose result came first for 1" in found.news()
    assert found.news() == ""


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence alone does not issue tasks again here; lateness does, soon."""
    monkeypatch.setattr(node_pool, "_SILENT_SECONDS", 1e6)
    monkeypatch.setattr(issued_tasks, "_LATE_SECONDS", 0.02)
    monkeypatch.setattr(stragglers, "FLOOR_SECONDS", 0.2)


TASKS = [doubles.Digest(number, seconds=0.002) for number in range(120)]


def over(nodes: ThreadNodes, factory: Any, lines: list[str]) -> NodePool:
    """Return a pool whose hosts have all answered tasks."""
    pool = NodePool(factory, size=0, published=NOTHING, nodes=nodes, log=lines.append)
    pool.publish(0, {})
    doubles.wait_until(lambda: not pool.completed(0.01) and all(h.speaks for h in pool._hosts))
    return pool


@pytest.mark.faults
@pytest.mark.usefixtures("patient")
def test_a_sleeping_host_holds_up_nothing_and_changes_no_byte():
    nodes, lines = ThreadNodes(1, 1), []
    pool = over(nodes, doubles.digest_worker, lines)
    pool.submit(TASKS)
    results = doubles.collect(pool, 60)
    nodes.links[1].muted.set()  # what it computes arrives late
    results += doubles.collect(pool, 120 - len(results))
    assert doubles.fold(results) == digest_of(TASKS)
    assert pool.completed() == []
    assert pool._tasks.stragglers.overtaken > 0
    nodes.links[1].muted.clear()
    pool.submit(TASKS)
    assert doubles.fold(doubles.collect(pool, 120)) == digest_of(TASKS)
    pool.close()
    assert any("issued on a second node too" in line for line in lines)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("cores", [(1, 1), (1, 2, 1)])
def test_a_late_task_has_one_double_and_comes_back_once(tmp_path: Path, cores: tuple[int, ...]):
    pool = over(ThreadNodes(*cores), doubles.late_builder, [])
    pool.submit([tmp_path] * 200)
    doubles.collect(pool, 200)
    before = pool._tasks.stragglers.doubled
    pool.submit([tmp_path / "flag"])
    doubles.wait_until(lambda: not pool.completed(0.05) and pool._tasks.stragglers.doubled > before)
    assert [len(host.held) for host in pool._hosts].count(1) == 2
    for _ in range(5):
        assert pool.completed(0.05) == []
    assert pool._tasks.stragglers.doubled == before + 1
    (tmp_path / "flag").touch()
    assert len(doubles.collect(pool, 1)) == 1
    assert pool.completed() == []
    doubles.wait_until(lambda: not pool.completed(0.05) and not any(h.held for h in pool._hosts))
    pool.close()


@pytest.mark.usefixtures("patient")
def test_a_single_host_has_no_double(tmp_path: Path):
    pool = over(ThreadNodes(2), doubles.late_builder, [])
    pool.submit([tmp_path] * 200)
    doubles.collect(pool, 200)
    pool.submit([tmp_path / "flag"])
    doubles.wait_until(lambda: not pool.completed(0.05) and bool(pool._tasks.stragglers.late(1e9)))
    assert pool.completed(0.1) == []
    assert pool._tasks.stragglers.doubled == 0
    (tmp_path / "flag").touch()
    assert len(doubles.collect(pool, 1)) == 1
    pool.close()
