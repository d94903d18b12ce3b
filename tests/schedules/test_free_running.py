"""Free running learns whenever a batch is there, and waits for nothing else."""

from collections.abc import Callable, Mapping
from typing import Any

from drumline.schedules.free_running import free_running
from drumline.types import State


class Log:
    """Crew, queue and learner in one; every wait fills as many unrolls as the list says."""

    def __init__(self, arrivals: list[int]):
        self.arrivals = arrivals
        self.full = 0
        self.words: list[str] = []

    def waiting(self) -> int:
        return self.full

    def take(self, count: int, update: int) -> Any:
        self.full -= count
        self.words.append(f"take {count} for {update}")
        return update

    def wait(self, until: Callable[[], bool], timeout: float | None = None) -> bool:
        while not until():
            self.full += self.arrivals.pop(0)
        return True

    def published(self, version: int | None = None) -> Mapping[str, Any]:
        return {}

    def publish(self, version: int, arrays: Mapping[str, Any]) -> None:
        self.words.append(f"version {version}")

    def update(self, rollout: Any, behavior: Mapping[str, Any]) -> dict[str, float]:
        self.words.append(f"learn {rollout}")
        return {}

    def state(self) -> State:
        return State()

    def load(self, state: State) -> None:
        pass


def test_a_version_comes_from_each_batch_as_soon_as_it_is_full():
    log = Log([1, 4, 0, 2])
    done = list(free_running(log, log, log, batch=2, updates=5, first=2))  # pyright: ignore
    assert log.words == [
        word
        for update in (2, 3, 4)
        for word in (f"take 2 for {update}", f"learn {update}", f"version {update + 1}")
    ]
    assert [interval.update for interval in done] == [3, 4, 5]
    assert log.full == 1
