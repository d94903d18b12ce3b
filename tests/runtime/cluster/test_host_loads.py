"""Sizes of the messages with tasks that hosts are sent."""

from typing import Any, cast

import pytest

from drumline.runtime.cluster.driven_host import DrivenHost
from drumline.runtime.cluster.host_deaths import HostDeaths
from drumline.runtime.cluster.host_loads import HostLoads
from drumline.runtime.cluster.node_messages import Node
from drumline.runtime.leases import TaskQueue

HOSTS, SIZE = 4, 2


def loads_of(queued: int) -> tuple[TaskQueue, HostLoads]:
    queue = TaskQueue()
    queue.push(range(queued))
    return queue, HostLoads(queue, HostDeaths(), one_task_leases=False)


def host_with(task_seconds: float, held: int = 0) -> DrivenHost:
    link: Any = cast(Any, None)  # nothing is sent here
    host = DrivenHost(Node("a", "10.0.0.1", SIZE), link, SIZE, 0)
    host.speaks = True
    host.answered = 1000
    host.held.update(dict.fromkeys(range(held)))
    host.pace.observe(1, task_seconds)
    return host


def test_the_last_quick_tasks_of_a_queue_go_out_in_one_message():
    _, loads = loads_of(100)
    assert loads.room(host_with(0.0004, held=60), HOSTS * SIZE, 0.25) == 100


def test_a_short_queue_of_quick_tasks_is_shared_by_idle_nodes():
    _, loads = loads_of(100)
    assert loads.room(host_with(0.0004), HOSTS * SIZE, 0.25) == 25
    busy = host_with(0.0004, held=60)
    assert loads.room(busy, HOSTS * SIZE, 0.25, starting=True) == 25


def test_the_last_long_tasks_of_a_queue_are_shared_by_the_nodes():
    _, loads = loads_of(8)
    assert loads.room(host_with(1.0), HOSTS * SIZE, 0.25) == 2


@pytest.mark.parametrize("queued", [1, 30, 300, 3000])
def test_a_host_is_never_sent_more_than_waits(queued: int):
    queue, loads = loads_of(queued)
    room = loads.room(host_with(0.0004), HOSTS * SIZE, 0.25)
    assert 0 < room <= queued
    assert len(queue.take(room).serials) == room


def test_many_hosts_that_speak_less_often_have_more_in_reserve():
    _, loads = loads_of(1_000_000)
    few, many = (loads.room(host_with(0.01), HOSTS * SIZE, gather) for gather in (0.25, 2.5))
    assert few == SIZE * (1 + 75)
    assert many == SIZE * (1 + 750)
