import pytest

from drumline.display.state import RoleShares, Throughput


def test_rates_are_those_of_the_window_and_of_the_whole_run():
    throughput = Throughput()
    for second in range(21):  # 100 steps/s for 10 s, then 300 steps/s
        throughput.add(100 * min(second, 10) + 300 * max(0, second - 10), 50.0 + second)
    assert throughput.recent() == pytest.approx(300)
    assert throughput.whole_run() == pytest.approx(200)


def test_updates_longer_than_the_window_still_have_a_rate():
    throughput = Throughput()
    throughput.add(0, 0.0)
    throughput.add(3_000, 30.0)
    throughput.add(9_000, 60.0)
    assert throughput.recent() == pytest.approx(200)


def test_bursts_of_long_episodes_keep_their_rate_until_the_next():
    throughput = Throughput()
    throughput.add(0, 0.0)
    for second in range(1, 131):  # 6,000 steps every 60 seconds
        throughput.add(6_000 * (second // 60), float(second))
        if second >= 60:
            assert throughput.recent() == pytest.approx(100)
    for second in range(131, 301):  # and no more
        throughput.add(12_000, float(second))
    assert throughput.recent() == pytest.approx(6_000 / 180)
    assert throughput.whole_run() == pytest.approx(12_000 / 300)


def test_a_resumed_run_counts_only_its_own_steps():
    throughput = Throughput()
    throughput.add(1_000_000, 5.0)
    throughput.add(1_000_500, 6.0)
    assert throughput.whole_run() == throughput.recent() == pytest.approx(500)
    assert throughput.eta_seconds(1_001_500) == pytest.approx(2.0)


def test_no_rate_is_claimed_before_two_samples():
    throughput = Throughput()
    assert throughput.recent() == throughput.whole_run() == 0.0
    assert throughput.eta_seconds(100) is None
    throughput.add(10, 1.0)
    assert throughput.recent() == throughput.whole_run() == 0.0
    assert throughput.eta_seconds(100) is None


def test_eta_is_never_negative_and_unknown_without_a_goal():
    throughput = Throughput()
    throughput.add(0, 0.0)
    throughput.add(100, 1.0)
    assert throughput.eta_seconds(50) == 0.0
    assert throughput.eta_seconds(None) is None


def test_many_fast_updates_keep_only_the_window():
    throughput = Throughput(window_seconds=1.0)
    for sample in range(5_000):
        throughput.add(sample, sample / 100)
    assert len(throughput._samples) <= 103


def test_shares_are_those_of_the_last_second_by_role():
    shares = RoleShares(kept=3)
    for second in range(6):
        shares.add({("worker", 0): 0.5 * second, ("worker", 1): 0.25 * second}, 10.0 + second)
        shares.add({("worker", 0): 99.0}, 10.4 + second)  # less than a second later: no sample
    assert shares.newest == {"worker": [0.5, 0.25]}
    assert list(shares.history["worker"]) == [0.375] * 3


def test_a_replaced_process_never_has_a_share_below_zero_or_above_one():
    shares = RoleShares()
    shares.add({("worker", 0): 5.0}, 0.0)
    shares.add({("worker", 0): 1.0}, 1.0)
    assert shares.newest == {"worker": [0.0]}
    shares.add({("worker", 0): 9.0}, 2.0)
    assert shares.newest == {"worker": [1.0]}
