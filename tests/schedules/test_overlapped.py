"""Lead of environments over one that is held back, by barrier and lag."""

from typing import Any, Literal

import crew_roles
import pytest
from crew_roles import Toy, run_toy, toy_plan

from drumline.runtime.crews.inline_crew import InlineCrew

TOY = Toy(environments=3, alpha=2, executors=3)
INTERVALS = 5

Barrier = Literal["sliding", "hard"]
Lag = Literal[0, 1]


def run_with_a_straggler(barrier: Barrier, lag: Lag) -> list[tuple[int, int]]:
    """Environment 0 moves when no other can: its steps, and those of the furthest by then."""
    crew: Any = InlineCrew(toy_plan(TOY, lambda: crew.arrays))
    reached: list[tuple[int, int]] = []

    def wait(until: Any, timeout: float | None = None) -> bool:
        straggler, *others = (role for _, _, role, _ in crew._roles)
        while not until():
            while any([role.advance() for role in others]):
                pass
            finished = crew.exchange.finished
            reached.append((int(finished[0]), int(finished.max())))
            assert straggler.advance(), "nobody can move"
        return True

    crew.wait = wait
    try:
        run_toy(crew, TOY, INTERVALS, lag, barrier)
    finally:
        crew.close()
    return reached


@pytest.mark.parametrize(
    ("barrier", "lag", "ahead"),
    [("sliding", 1, 2), ("hard", 1, 1), ("sliding", 0, 1), ("hard", 0, 1)],
)
def test_a_quick_environment_goes_as_far_ahead_as_the_barrier_lets_it(
    barrier: Barrier, lag: Lag, ahead: int
):
    alpha = TOY.alpha
    assert run_with_a_straggler(barrier, lag) == [
        (step, min(step // alpha + ahead, INTERVALS) * alpha) for step in range(INTERVALS * alpha)
    ]


@pytest.mark.parametrize("barrier", ["sliding", "hard"])
@pytest.mark.parametrize("lag", [0, 1])
def test_an_interval_is_learned_from_while_the_next_is_collected_if_there_is_a_lag(
    monkeypatch: pytest.MonkeyPatch, barrier: Barrier, lag: Lag
):
    crew: Any = InlineCrew(toy_plan(TOY, lambda: crew.arrays))
    released: list[int] = []
    update = crew_roles.ToyLearner.update

    def updating(self: Any, rollout: Any, behavior: Any) -> Any:
        released.append(crew.exchange.released)
        return update(self, rollout, behavior)

    monkeypatch.setattr(crew_roles.ToyLearner, "update", updating)
    try:
        run_toy(crew, TOY, INTERVALS, lag, barrier)
    finally:
        crew.close()
    assert released == [min(k + lag, INTERVALS - 1) for k in range(INTERVALS)]
