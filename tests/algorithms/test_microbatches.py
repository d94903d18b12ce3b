"""Parts of a batch: sizes, order, lanes, failures; and that threads change no bit."""

import threading
import time
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from algorithms.learner_examples import A2C_SETTINGS, PPO_SETTINGS, Made, learn
from campaigns import cases
from hypothesis import given
from hypothesis import strategies as st

from drumline.algorithms.microbatches import Microbatches


@given(st.integers(0, 700), st.integers(1, 300), st.integers(1, 4))
def test_parts_cover_a_batch_and_are_as_equal_as_can_be(rows: int, at_once: int, multiple: int):
    parts = Microbatches(at_once, multiple=multiple).slices(rows)
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(rows))
    sizes = [part.stop - part.start for part in parts]
    assert max(sizes, default=0) <= at_once
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert min(sizes, default=1) >= 1


@pytest.mark.parametrize(
    ("rows", "count"), [(0, 0), (1, 1), (63, 1), (64, 2), (128, 2), (320, 4), (512, 4), (520, 6)]
)
def test_the_number_of_parts_is_even_where_there_is_enough_for_two(rows: int, count: int):
    assert len(Microbatches(128, multiple=2).slices(rows)) == count


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_come_in_order_and_a_lane_has_one_part_at_a_time(threads: int):
    microbatches, busy, most = Microbatches(1, threads=threads), set[int](), [0]
    lock, whole_round = threading.Lock(), threading.Barrier(threads)

    def work(lane: int, rows: slice) -> int:
        with lock:
            assert lane not in busy
            busy.add(lane)
            most[0] = max(most[0], len(busy))
        if rows.start < 7 // threads * threads:
            whole_round.wait(60)
        time.sleep(0.02 if rows.start % 2 else 0.005)
        with lock:
            busy.discard(lane)
        return rows.start

    rounds = list(microbatches.rounds(work, microbatches.slices(7)))
    assert [found for together in rounds for found in together] == list(range(7))
    assert max(len(together) for together in rounds) == most[0] == threads


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_waits_for_the_others(failing: int):
    ended: list[int] = []

    def work(lane: int, rows: slice) -> None:
        if rows.start == failing:
            raise ValueError(f"part {rows.start}")
        time.sleep(0.05)
        ended.append(rows.start)

    microbatches = Microbatches(1, threads=2)
    with pytest.raises(ValueError, match=f"part {failing}"):
        list(microbatches.rounds(work, microbatches.slices(2)))
    assert ended == [1 - failing]


def test_each_thread_has_operators_of_one_thread():
    microbatches = Microbatches(1, threads=2)
    before = torch.get_num_threads()
    rounds = microbatches.rounds(lambda lane, rows: torch.get_num_threads(), [slice(0, 1)] * 2)
    ((mine, other),) = rounds
    assert mine == torch.get_num_threads() == before
    assert other == 1


SETTINGS = {
    "a2c": A2C_SETTINGS,
    "a2c vtrace": replace(A2C_SETTINGS, correction="vtrace"),
    "ppo": PPO_SETTINGS,
    "ppo decoupled": replace(PPO_SETTINGS, correction="decoupled", target_kl=0.02),
    "ppo delayed": replace(PPO_SETTINGS, correction="delayed"),
}
ALTERNATELY = [(name, 5 if number % 2 else 2) for number, name in enumerate(SETTINGS)]


@pytest.mark.parametrize(("name", "rows"), cases(product(SETTINGS, (2, 5)), quick=ALTERNATELY))
def test_threads_change_no_bit(name: str, rows: int):
    """`rows` at once: more parts than A2C keeps the graphs of, and fewer."""
    torch.set_num_threads(1)
    found: list[bytes] = []
    for threads in (1, 2, 3):
        made = Made(SETTINGS[name], microbatches=Microbatches(rows, multiple=2, threads=threads))
        learn(made, range(2, 5))
        found.append(made.parameters.tobytes())
    assert len(set(found)) == 1
    assert np.isfinite(np.frombuffer(found[0], np.float32)).all()
