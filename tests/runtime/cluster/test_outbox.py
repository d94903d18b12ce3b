"""Messages to hosts: what fails on the way is sent again, and carried out once."""

from typing import Any

import doubles
import numpy as np
import pytest
from runtime.cluster.thread_nodes import ThreadNodes
from runtime.contract import NOTHING, digest_of

from drumline.protocols import PublishedLayout
from drumline.runtime.cluster import host_roster, outbox
from drumline.runtime.cluster.node_messages import Node
from drumline.runtime.cluster.node_pool import NodePool
from drumline.runtime.cluster.outbox import Fate, Outbox


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "AGAIN_SECONDS", 0.0)


class Carrier:
    """Counts what is sent; the fate of each message is the test's to choose."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.fates: dict[int, Fate] = {}

    def send(self, number: int, commands: Any, data: Any) -> int:
        self.sent.append(number)
        return number

    def fate(self, receipt: int) -> Fate:
        return self.fates.get(receipt, Fate.UNKNOWN)


@pytest.mark.usefixtures("at_once")
def test_only_failed_messages_are_sent_again_until_they_are_carried_out():
    carrier = Carrier()
    box = Outbox(carrier.send, carrier.fate)
    for number in range(4):
        box.tell(number, [], [])
    carrier.fates = {1: Fate.FAILED, 3: Fate.FAILED}
    box.repeat_failed()
    assert carrier.sent == [0, 1, 2, 3, 1, 3]
    box.carried_out(2)
    box.repeat_failed()
    assert carrier.sent == [0, 1, 2, 3, 1, 3, 3]
    box.carried_out(3)
    box.repeat_failed()
    assert box.repeated == 3


def test_a_message_is_looked_at_only_after_a_while():
    carrier = Carrier()
    carrier.fates = {0: Fate.FAILED}
    box = Outbox(carrier.send, carrier.fate)
    box.tell(0, [], [])
    box.repeat_failed()
    assert carrier.sent == [0]


TASKS = [doubles.Digest(number, seconds=0.002) for number in range(60)]


@pytest.mark.usefixtures("at_once")
def test_messages_that_fail_on_the_way_cost_no_task_and_no_byte():
    nodes = ThreadNodes(1, 1)
    pool = NodePool(doubles.digest_worker, size=0, published=NOTHING, nodes=nodes)
    for link in nodes.links:
        link.lost_messages |= {0, 1, 4, 5, 9}
    pool.publish(0, {})
    for _ in range(2):
        pool.submit(TASKS)
        assert doubles.fold(doubles.collect(pool, len(TASKS))) == digest_of(TASKS)
    assert sum(link.outbox.repeated for link in nodes.links) >= 4
    pool.close()


@pytest.mark.usefixtures("at_once")
def test_rows_and_versions_whose_message_failed_arrive_before_the_tasks_that_need_them():
    nodes = ThreadNodes(1)
    weights = {"weights": np.arange(4.0)}
    pool = NodePool(
        doubles.digest_worker, size=0, published=PublishedLayout.of(weights), nodes=nodes
    )
    nodes.links[0].lost_messages |= set(range(0, 40, 2))
    digests: list[bytes] = []
    for version in range(6):
        pool.publish(version, {"weights": weights["weights"] + version})
        pool.submit([doubles.Digest(k, version) for k in range(3)])
        digests.append(doubles.fold(doubles.collect(pool, 3)))
    assert len(set(digests)) == 6
    pool.close()


def test_a_node_that_is_lost_with_an_open_message_loses_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host_roster, "WATCH_SECONDS", 0.01)
    nodes = ThreadNodes(1)
    pool = NodePool(doubles.digest_worker, size=0, published=NOTHING, nodes=nodes)
    doubles.wait_until(lambda: not pool.completed(0.01) and all(h.speaks for h in pool._hosts))
    nodes.links[0].lost_messages |= set(range(1000))
    pool.publish(0, {})
    pool.submit(TASKS)
    assert pool._hosts[0].held
    assert pool.completed(0.1) == []
    nodes.lose(nodes.nodes[0])
    nodes.nodes.append(Node("next", "10.0.0.9", 1))
    assert doubles.fold(doubles.collect(pool, len(TASKS))) == digest_of(TASKS)
    pool.close()
