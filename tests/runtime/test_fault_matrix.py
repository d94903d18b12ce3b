"""Faults are enumerated: a kill at every step of the protocol, once, and the same bytes."""

from pathlib import Path
from typing import Any

import doubles
import pytest
from campaigns import cases
from runtime.contract import NOTHING, POINTS, digest_of

from drumline.runtime.process_pool import ProcessPool

TASKS = [doubles.Digest(number, seconds=0.001) for number in range(24)]


@pytest.fixture(scope="module")
def expected() -> bytes:
    return digest_of(TASKS)


def folded(pool: Any) -> bytes:
    pool.publish(0, {})
    pool.submit(TASKS)
    result = doubles.fold(doubles.collect(pool, len(TASKS)))
    assert pool.completed() == []
    return result


def faulty_pool(fault: Any, lines: list[str], **options: Any) -> ProcessPool:
    return ProcessPool(
        doubles.digest_worker,
        size=2,
        published=NOTHING,
        probe_factory=fault,
        log=lines.append,
        **options,
    )


@pytest.mark.parametrize(
    "point", cases(POINTS, quick=["lease-received", "before-task", "half-result"])
)
def test_a_kill_at_any_step_changes_no_byte(point: str, expected: bytes, tmp_path: Path):
    lines: list[str] = []
    fault = doubles.KillAt(point, tmp_path / "flag")
    pool = faulty_pool(fault, lines)
    try:
        assert folded(pool) == expected
        doubles.wait_until(lambda: not pool.completed(0.0) and bool(lines))
    finally:
        pool.close()
    assert len(lines) == 1
    assert "ended by SIGKILL" in lines[0]
    assert sum(row.restarts for row in pool.activity()) == 1


@pytest.mark.parametrize(
    "point", cases(["child-started", "before-task", "half-result"], quick=["before-task"])
)
def test_a_hung_worker_is_found_and_its_tasks_issued_again(
    point: str, expected: bytes, tmp_path: Path
):
    lines: list[str] = []
    fault = doubles.HangAt(point, tmp_path / "flag")
    creation_seconds = 20.0 if point == "child-started" else 60.0  # it begins with the process
    pool = faulty_pool(fault, lines, hang_seconds=1.0, creation_seconds=creation_seconds)
    try:
        assert folded(pool) == expected
        doubles.wait_until(lambda: not pool.completed(0.0) and bool(lines))
    finally:
        pool.close()
    assert any("ended by a hang of" in line and "--hang-seconds" in line for line in lines)


@pytest.mark.parametrize("seed", cases(range(3), quick=[0]))
def test_kills_at_random_moments_change_no_byte(seed: int, expected: bytes):
    lines: list[str] = []
    fault = doubles.SleepAt(longest=0.003)
    pool = doubles.FlakyPool(faulty_pool(fault, lines), seed, every=4, deaths=4)
    try:
        doubles.wait_ready(pool.pool)  # only the ready are killed
        for _ in range(3):
            assert folded(pool) == expected
    finally:
        pool.close()
    assert pool.deaths > 0
