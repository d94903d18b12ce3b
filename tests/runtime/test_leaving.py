"""Workers and roles free what they hold before their process ends, in every kind of crew."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import crew_roles
import doubles
import pytest
from crew_roles import Toy, expected, run_toy, toy_plan
from runtime.contract import NOTHING

from drumline.errors import WorkerError
from drumline.runtime.crews.inline_crew import InlineCrew
from drumline.runtime.crews.process_crew import ProcessCrew
from drumline.runtime.inline_pool import InlinePool
from drumline.runtime.process_pool import ProcessPool


@dataclass(frozen=True)
class Marking:
    """Wraps a factory: what it builds leaves two marks."""

    factory: Callable[[Any], Any]
    marks: Path

    def __call__(self, context: Any) -> Any:
        def mark(name: str) -> None:
            with self.marks.open("a") as file:
                file.write(f"{name} {os.getpid()}\n")

        context.on_leave(lambda: mark("last"))
        context.on_leave(lambda: mark("first"))
        return self.factory(context)


def by_process(marks: Path) -> list[list[str]]:
    """The marks of each process, in their order."""
    left: dict[str, list[str]] = {}
    for line in marks.read_text().splitlines():
        name, pid = line.split()
        left.setdefault(pid, []).append(name)
    return list(left.values())


WHOLE = ["first", "last"]


@pytest.mark.parametrize("pool_kind", [InlinePool, ProcessPool])
def test_a_worker_frees_what_it_holds_when_its_pool_is_closed(pool_kind: Any, tmp_path: Path):
    factory = Marking(doubles.echo_worker, tmp_path / "marks")
    size = {} if pool_kind is InlinePool else {"size": 2}
    pool = pool_kind(factory, published=NOTHING, **size)
    if pool_kind is ProcessPool:
        doubles.wait_ready(
            pool
        )  # a process that is still starting when the pool closes holds nothing
    pool.submit(list(range(40)))
    doubles.collect(pool, 40)
    pool.close()
    assert by_process(tmp_path / "marks") == [WHOLE] * pool.size
    pool.close()
    assert by_process(tmp_path / "marks") == [WHOLE] * pool.size


@pytest.mark.parametrize("crew_kind", [InlineCrew, ProcessCrew])
def test_a_role_frees_what_it_holds_when_its_crew_is_closed(crew_kind: Any, tmp_path: Path):
    toy = Toy(executors=2)
    executor = Marking(crew_roles.ToyExecutorSpec(toy), tmp_path / "marks")
    crew: Any = None
    crew = crew_kind(toy_plan(toy, lambda: crew.arrays, executor=executor))
    try:
        assert run_toy(crew, toy) == expected(toy)
    finally:
        crew.close()
    processes = by_process(tmp_path / "marks")
    assert processes == ([WHOLE * 2] if crew_kind is InlineCrew else [WHOLE] * 2)


def test_what_a_worker_held_is_freed_though_it_could_not_be_built(tmp_path: Path):
    factory = Marking(crew_roles.unbuildable, tmp_path / "marks")
    pool = ProcessPool(factory, published=NOTHING, size=1)
    pool.submit([1])
    with pytest.raises(WorkerError, match="no such environment"):
        pool.completed()
    pool.close()
    assert by_process(tmp_path / "marks") == [WHOLE]


def test_what_a_role_held_is_freed_though_it_raised(tmp_path: Path):
    toy = Toy(executors=1, raises_at=3)
    executor = Marking(crew_roles.ToyExecutorSpec(toy), tmp_path / "marks")
    crew: Any = None
    crew = ProcessCrew(toy_plan(toy, lambda: crew.arrays, executor=executor))
    with pytest.raises(WorkerError, match="cannot go on at step 3"):
        run_toy(crew, toy)
    crew.close()
    assert by_process(tmp_path / "marks") == [WHOLE]
