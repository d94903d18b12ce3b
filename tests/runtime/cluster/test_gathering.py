"""Waits of hosts for results, by their number."""

import pytest

from drumline.runtime.cluster.gathering import MESSAGES_PER_SECOND, waits_among


@pytest.mark.parametrize("hosts", [1, 4, 50, 51, 600, 10_000])
def test_all_hosts_together_send_a_bounded_number_of_messages_a_second(hosts: int):
    waits = waits_among(hosts)
    assert hosts / waits.gather <= MESSAGES_PER_SECOND * 1.000001
    assert hosts / waits.scarce <= 500.001 or waits.scarce == 0.01
    assert waits.scarce <= waits.gather


def test_few_hosts_wait_a_quarter_of_a_second():
    assert {waits_among(hosts).gather for hosts in range(1, 51)} == {0.25}
