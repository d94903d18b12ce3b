"""Universes of failures: each ends with the bytes of the training without faults."""

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import cases
from universe.campaign import add_row, campaign, next_of, outcomes
from universe.disk import Disk
from universe.memory import ORDERS, SharedArray, laid_over
from universe.planted import PLANTED
from universe.trainings import METHODS, expected
from universe.universes import explored
from universe.world import Plan, World


@pytest.mark.parametrize(("method", "count"), [("es", 6), ("hts", 4), ("aes", 3)])
def test_a_few_universes_end_as_without_faults(method: str, count: int):
    rows = campaign(10_015, count, 1, [f"--method={method}", "--mode=bounded"])
    assert rows["findings"] == 0, rows["what"]
    assert rows["sessions"] > rows["universes"], "no driver was killed: this proves little"
    assert rows["kill"] + rows["exit"] + rows["hang"] > 0


def test_a_few_universes_with_faults_without_a_bound_leave_only_what_is_right():
    rows = campaign(10_015, 4, 1, ["--mode=unbounded"])
    assert rows["findings"] == 0, rows["what"]
    assert rows["driver_kill"] + rows["power_loss"] > 2
    assert rows["unbounded"] == 4


OTHERS = sorted(set(METHODS) - {"es", "hts", "aes"})


@pytest.mark.parametrize("method", cases(OTHERS, quick={*OTHERS} - {"cem-rl", "ppo", "td3"}))
def test_a_universe_of_each_other_method_ends_as_without_faults(method: str):
    rows = campaign(10_000, 1, 1, [f"--method={method}"])
    assert rows["findings"] == 0, rows["what"]


def test_a_checkpoint_between_a_block_and_its_evaluation_is_right(tmp_path):
    """A stop in a failing evaluation of TD3 leaves one: universe 107966 did."""
    states = expected("td3", 0, tmp_path).states
    assert Counter(update for update, _ in states) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 2}


def test_a_checkpoint_before_the_evaluation_in_flight_is_recorded_is_right(tmp_path):
    """A stop in a failing evaluation beside HTS-RL leaves one: universe 112522 did."""
    states = expected("hts", 0, tmp_path).states
    assert Counter(update for update, _ in states) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 2, 5: 1}


def test_a_file_of_an_earlier_power_loss_is_not_taken_for_another(tmp_path):
    """The number of a file that a loss brought back was given to the next file: universe 126745."""
    folder, place = tmp_path / "run", tmp_path / "run" / "policy"
    for seed in range(40):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        disk = Disk(folder, random.Random(seed))
        _replace(disk, place, b"0")
        _sync(disk, folder)
        _replace(disk, place, b"1")
        disk.lose_power()
        _replace(disk, place, b"2")
        _replace(disk, folder / "other", b"of another file")
        disk.lose_power()
        assert place.read_bytes() in {b"0", b"1", b"2"}, seed
        disk.close()


def _replace(disk: Disk, path: Path, data: bytes) -> None:
    aside = path.with_suffix(".partial")
    aside.write_bytes(data)
    _sync(disk, aside)
    aside.replace(path)


def _sync(disk: Disk, path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    disk.synced(fd)
    os.close(fd)


def test_a_number_is_one_universe():
    one, again = (
        [{**told, "processor_seconds": 0} for told in outcomes(10_003, 2, 1, ["--method=es"])]
        for _ in range(2)
    )
    assert one == again
    assert one[0]["points"] != one[1]["points"]


def test_the_processors_clock_changes_no_universe(monkeypatch):
    """Its seconds are written in rows, whose length decides how much of one write is done."""
    clock = random.Random(3)
    monkeypatch.setattr(time, "process_time", lambda: 0.5 ** clock.randint(1, 30))
    once, *others = [explored(10_003, "es") for _ in range(16)]
    assert {other.virtual_seconds for other in others} == {once.virtual_seconds}


def test_a_campaign_goes_on_where_its_table_ends(tmp_path):
    table = tmp_path / "universes.csv"
    assert next_of(table) == 0
    table.write_text("first,universes\n0,2000\n2000,500\n")
    assert next_of(table) == 2500
    row = {"commit": "c", "first": 2500, "universes": 200, "virtual_hours": 0.5, "what": ""}
    add_row(table, row)
    add_row(table, {**row, "first": 2700, "what": "2701"})
    add_row(table, {**row, "commit": "d", "first": 2900})
    assert table.read_text().splitlines() == [
        "commit,first,universes,virtual_hours,what",
        ",0,2000,,",
        ",2000,500,,",
        "c,2500,400,1.0,2701",
        "d,2900,200,0.5,",
    ]
    assert next_of(table) == 3100


def test_a_bug_is_found_where_there_is_one():
    found = list(outcomes(0, 30, 1, ["--plant=told by arrival"]))
    assert "other bytes" in found[-1]["finding"]


Actor = Callable[[SharedArray, list[int]], None]


def _litmus(order: str, first: Actor, second: Actor, tries: int = 400) -> set[tuple[int, ...]]:
    """Run two processes over two words in worlds of one order; return what they have loaded."""
    seen: set[tuple[int, ...]] = set()
    for seed in range(tries):
        world = World(seed, Plan(order=order))
        loads: list[int] = []

        def process(run: Actor, world: World = world, loads: list[int] = loads) -> None:
            new = not world.memories._memories
            copy = world.memories.copy_of((0, 0), 16, world.process, new=new)
            arrays: dict[str, Any] = {"words": np.zeros(2, np.int64)}
            laid_over(arrays, world, copy, {"words": 0})
            world.point("begun")
            run(arrays["words"], loads)

        def driver(world: World = world, process: Callable[[Actor], None] = process) -> None:
            children = [
                world.spawn(lambda run=run: process(run), ["child"], world.process)
                for run in (first, second)
            ]
            world.block(lambda: not any(child.alive for child in children))

        done = world.spawn(driver, ["driver"])
        world.run(done)
        assert done.error is None
        seen.add(tuple(loads))
    return seen


def _sends(words: SharedArray, loads: list[int]) -> None:
    words[0] = 1
    words[1] = 1
    for _ in range(10):
        words.world.point("goes on")


def _receives(words: SharedArray, loads: list[int]) -> None:
    flag = words[1].item()
    words.world.point("between two loads")
    loads += [flag, words[0].item()]


def test_message_passing_breaks_in_weak_order_alone():
    for order in ORDERS:
        seen = _litmus(order, _sends, _receives)
        assert {(0, 0), (1, 1)} <= seen
        assert ((1, 0) in seen) == (order == "weak"), order


def test_a_bell_orders_message_passing_in_every_order():
    def sends(words: SharedArray, loads: list[int]) -> None:
        words[0] = 1
        words.world.call("bell")
        words[1] = 1

    def receives(words: SharedArray, loads: list[int]) -> None:
        flag = words[1].item()
        words.world.call("bell taken")
        loads += [flag, words[0].item()]

    for order in ORDERS:
        assert (1, 0) not in _litmus(order, sends, receives), order


def test_store_buffering_breaks_in_all_but_strong_order():
    def crossed(own: int) -> Actor:
        def run(words: SharedArray, loads: list[int]) -> None:
            words[own] = 1
            words.world.point("between store and load")
            loads.append(words[1 - own].item())
            for _ in range(10):
                words.world.point("goes on")

        return run

    for order in ORDERS:
        seen = _litmus(order, crossed(0), crossed(1))
        assert {(0, 1), (1, 0), (1, 1)} & seen
        assert ((0, 0) in seen) == (order != "strong"), order


def test_two_processes_that_write_parts_of_one_word_lose_nothing():
    def writer(place: int) -> Actor:
        def run(words: SharedArray, loads: list[int]) -> None:
            halves = words.view(np.int32)
            for value in range(1, 6):
                halves[place] = value
                words.world.point("written")
            for _ in range(400):
                words.world.point("goes on")
            words.world.call("bell")
            loads.append(halves[place].item())

        return run

    for order in ORDERS:
        assert _litmus(order, writer(0), writer(1), 20) == {(5, 5)}


@pytest.mark.faults
def test_eighty_universes_end_as_without_faults():
    rows = campaign(20_000, 80, 1)
    assert rows["findings"] == 0, rows["what"]
    for kind in ("kill", "exit", "hang", "stop", "driver_kill", "power_loss", "full_disk"):
        assert rows[kind] > 0, kind
    assert rows["unbounded"] > 0
    assert rows["x86_order"] > 0


@pytest.mark.faults
@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_found(bug: str):
    found = list(outcomes(0, 100, 1, [f"--plant={bug}"]))
    assert found[-1]["finding"]
