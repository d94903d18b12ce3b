"""The host of a node alone: its messages, without a driver."""

import os
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import doubles
import pytest

from drumline.protocols import PublishedLayout
from drumline.runtime.cluster import node_news
from drumline.runtime.cluster.gathering import Waits
from drumline.runtime.cluster.node_checks import arithmetic_variables, set_arithmetic_variables
from drumline.runtime.cluster.node_host import NodeHost
from drumline.runtime.cluster.node_messages import Close, Heard, HostSpec, Publish, Submit
from drumline.runtime.portable import by_reference

WAITS = Waits(gather=60.0, scarce=0.01, beat=0.0)


@pytest.fixture
def host_of() -> Iterator[Any]:
    hosts: list[NodeHost] = []
    variables = arithmetic_variables()

    def make(**options: Any) -> NodeHost:
        spec = HostSpec(
            size=2,
            factory=by_reference(doubles.digest_worker, "the factory"),
            probe_factory=None,
            published=PublishedLayout({}),
            versions=3,
            shared=None,
            hang_seconds=60.0,
            creation_seconds=60.0,
            role="worker",
            one_task_leases=False,
            search_path=[],
            packages={},
            variables=variables,
        )
        hosts.append(NodeHost(spec._replace(**options)))
        return hosts[-1]

    yield make
    for host in hosts:
        host.tell(9, [Close()])
        host._thread.join()
    set_arithmetic_variables(variables)  # a host changes those of its process


def begin(host: NodeHost, tasks: list[doubles.Digest], *, more: bool = False) -> None:
    serials, pickles = tuple(range(len(tasks))), tuple(map(pickle.dumps, tasks))
    for number in range(9):
        commands = [Publish(0, ()), Submit(serials, pickles, more, WAITS)] if number == 0 else []
        host.tell(number, commands, *([{}] if number == 0 else []))


def messages(host: NodeHost, count: int) -> list[Heard]:
    """Return the messages with results until `count` results are there."""
    heard: list[Heard] = []
    seen = -1
    while sum(len(news.done.serials) for news in heard) < count:
        news = host.hear(seen, 1.0)
        seen = news.number
        if news.done.serials:
            heard.append(news)
    return heard


def test_results_of_a_node_travel_in_one_message(host_of):
    host = host_of()
    begin(host, [doubles.Digest(number, 0, 0.02) for number in range(12)])
    (news,) = messages(host, 12)
    assert sorted(news.done.serials) == list(range(12))


def test_a_question_asked_again_while_the_first_still_waits_gets_the_same_news(host_of):
    """The driver asks anew after a break in its connection; the answer to the first may be lost."""
    host = host_of(one_task_leases=True, size=1)
    heard: list[Heard] = []
    questions = [
        threading.Thread(target=lambda: heard.append(host.hear(-1, 30.0))) for _ in range(2)
    ]
    for question in questions:
        question.start()
    doubles.wait_until(lambda: len(host._news._changed._waiters) == 2)
    begin(host, [doubles.Digest(7)])
    for question in questions:
        question.join()
    first, second = heard
    assert first is second
    results = [*first.done.serials]
    while not results:
        news = host.hear(first.number, 1.0)
        results += news.done.serials
        first = news
    assert results == [0]


def test_news_is_never_older_than_what_a_later_question_has_heard(host_of):
    host = host_of(one_task_leases=True, size=1)
    late: list[Heard] = []
    question = threading.Thread(target=lambda: late.append(host.hear(-1, 30.0)))
    question.start()
    doubles.wait_until(lambda: len(host._news._changed._waiters) == 1)
    news = [host.hear(seen, 0.0) for seen in (-1, 0, 1)]
    assert [one.number for one in news] == [0, 1, 2]
    question.join()
    assert late[0] in news
    assert host.hear(1, 0.0) is news[2], "it is kept until the next is asked for"
    begin(host, [])


def test_results_for_a_virtual_clock_wait_for_no_other(host_of):
    host = host_of(one_task_leases=True, size=1)
    begin(host, [doubles.Digest(number, 0, 0.2) for number in range(5)])
    assert len(messages(host, 5)) > 1


def test_results_wait_for_no_other_once_workers_may_be_idle_though_the_driver_has_tasks(host_of):
    host = host_of(size=1)
    begin(host, [doubles.Digest(number, 0, 0.05) for number in range(4)], more=True)
    assert len(messages(host, 4)) > 1


def test_a_full_message_waits_for_no_other(host_of, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(node_news, "_MESSAGE_RESULTS", 5)
    host = host_of(size=1)
    begin(host, [doubles.Digest(number, 0, 0.03) for number in range(12)])
    assert 5 <= len(messages(host, 12)[0].done.serials) < 12


def test_processes_of_a_node_have_the_drivers_variables_of_arithmetic(
    host_of: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    begin(host_of(variables=(("MKL_CBWR", "COMPATIBLE"),)), [])
    doubles.wait_until(lambda: os.environ["MKL_CBWR"] == "COMPATIBLE")
    doubles.wait_until(lambda: "ATEN_CPU_CAPABILITY" not in os.environ)
    assert os.environ["MKL_CBWR"] == "COMPATIBLE"
