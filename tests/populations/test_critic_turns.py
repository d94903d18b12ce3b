"""Critics by refined actor: CEM-RL's loop as its paper has it, against the order of turns."""

import numpy as np
import pytest

from drumline.populations.critic_turns import TurnsBeside, TurnsOfMembers
from drumline.types import State


def critics(name: int) -> State:
    return State({}, {"critic_steps": name})


def name_of(state: State | None) -> int | None:
    return None if state is None else int(state.counters["critic_steps"])


def serial_loop(members: int, steps: int) -> list[tuple[int, int, int]]:
    """(target, steps, critics that then refine it) of the loop in CEM-RL's code, one by one."""
    found, latest = [], 0
    for member in range(members):
        latest += steps // members
        found.append((member, steps // members, latest))
    return found


@pytest.mark.parametrize(("members", "steps"), [(1, 7), (2, 9), (5, 1003)])
def test_turn_after_turn_is_the_loop_of_the_paper(members: int, steps: int):
    vectors = [np.full(2, float(member), np.float32) for member in range(members)]
    turns = TurnsOfMembers(all_first=False)
    turns.begin(vectors, steps, critics(0))
    latest, found = 0, []
    for member in range(members):
        assert turns.critics_of(member) is None
        turn = turns.due(np.zeros(2))
        assert turn is not None
        latest += turn.steps
        turns.take(critics(latest))
        refined_by = name_of(turns.critics_of(member))
        found.append((int(turn.target_actor[0]), turn.steps, refined_by))
        assert turns.critics_of(members) is not None  # an unrefined one never waits
    assert found == serial_loop(members, steps)
    assert turns.due(np.zeros(2)) is None


def test_with_all_first_everybody_waits_for_the_last_turn():
    turns = TurnsOfMembers(all_first=True)
    turns.begin([np.zeros(1), np.ones(1)], 10, critics(0))
    for latest in (5, 10):
        assert [turns.critics_of(member) for member in range(4)] == [None] * 4
        assert turns.due(np.zeros(1)) is not None
        turns.take(critics(latest))
    assert [name_of(turns.critics_of(member)) for member in range(4)] == [10] * 4


@pytest.mark.parametrize("all_first", [False, True])
@pytest.mark.parametrize(("refined", "steps"), [(0, 10), (3, 2)])
def test_nothing_waits_where_nothing_is_due(all_first: bool, refined: int, steps: int):
    turns = TurnsOfMembers(all_first=all_first)
    turns.begin([np.zeros(1)] * refined, steps, critics(4))
    assert turns.due(np.zeros(1)) is None
    assert [name_of(turns.critics_of(member)) for member in range(4)] == [4] * 4


def test_beside_the_population_there_is_always_a_turn_at_the_mean_and_nobody_waits():
    turns = TurnsBeside(7)
    turns.begin([np.ones(1)], 100, critics(0))
    for latest in (0, 7, 14):
        assert name_of(turns.critics_of(0)) == latest
        turn = turns.due(np.full(1, 3.0))
        assert turn is not None
        assert (turn.target_actor[0], turn.steps) == (3.0, 7)
        turns.take(critics(latest + 7))
