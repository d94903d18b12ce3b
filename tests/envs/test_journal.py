"""The journal against a list of everything that ever happened."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.envs.journal import Journal
from drumline.envs.lanes import LaneHistory
from drumline.types import Rollout, State

ENVIRONMENTS = 3


class Mode(NamedTuple):
    renewed: bool
    renew_intervals: int


MODES = [Mode(False, 0), Mode(True, 0), Mode(True, 1), Mode(True, 3)]


class Past:
    """Every action and end of every environment, drawn at once."""

    def __init__(self, alpha: int, intervals: int, mode: Mode, seed: int, often: float = 0.2):
        rng = np.random.default_rng(seed)
        steps = (alpha * intervals, ENVIRONMENTS)
        self.alpha, self.intervals, self.mode = alpha, intervals, mode
        self.actions = rng.standard_normal((*steps, 2)).astype(np.float32)
        ends = rng.random(steps) < often * np.array([1.0, 0.2, 2.0])
        self.terminated = ends & (rng.random(steps) < 0.5)
        self.truncated = ends & ~self.terminated

    def journal(self) -> Journal:
        return Journal(
            ENVIRONMENTS,
            self.alpha,
            renewed=self.mode.renewed,
            renew_intervals=self.mode.renew_intervals,
        )

    def read(self, interval: int) -> Rollout:
        """The interval as fresh arrays; the journal must not ask for what it has folded."""
        rows = slice(interval * self.alpha, (interval + 1) * self.alpha)
        nothing: Any = None
        return Rollout(
            interval,
            nothing,
            self.actions[rows].copy(),
            nothing,
            self.terminated[rows].copy(),
            self.truncated[rows].copy(),
            *[nothing] * 5,
        )

    def expected(self, environment: int, steps: int, folded: int) -> LaneHistory:
        """Return the calls that bring one environment to `steps`, found step by step."""
        episode, renewal, kept = 0, 0, []
        every = self.mode.renew_intervals * self.alpha
        first_episode = 0
        for step in range(steps + 1):
            if self.mode.renewed and every and step and step % every == 0:
                episode, renewal, kept = episode + 1, renewal + 1, []
                first_episode = episode
            if step == steps:
                break
            over = bool(self.terminated[step, environment] | self.truncated[step, environment])
            kept.append((self.actions[step, environment], over))
            episode += over
            if over and not self.mode.renewed and step < folded * self.alpha:
                kept, first_episode = [], episode
        actions = np.array([action for action, _ in kept], np.float32).reshape(-1, 2)
        ended = np.array([over for _, over in kept], bool)
        return LaneHistory(renewal, first_episode, actions, ended)


def same(found: LaneHistory, expected: LaneHistory) -> bool:
    numbers = (found.renewal, found.episode) == (expected.renewal, expected.episode)
    arrays = [(found.actions, expected.actions), (found.ended, expected.ended)]
    return numbers and all(
        (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()) for a, b in arrays
    )


def histories(journal: Journal, past: Past, ahead: int = 2) -> list[LaneHistory]:
    """Every environment at every step that it can have come to, `ahead` intervals on at most."""
    begin = journal.intervals * past.alpha
    steps = range(begin, min(begin + ahead * past.alpha, len(past.actions)) + 1)

    def unfolded(interval: int) -> Rollout:
        assert journal.intervals <= interval
        return past.read(interval)

    return [journal.history(e, step, unfolded) for e in range(ENVIRONMENTS) for step in steps]


def filled(past: Past, intervals: int) -> Journal:
    journal = past.journal()
    for interval in range(intervals):
        journal.fold(past.read(interval))
    return journal


@given(
    alpha=st.integers(1, 4),
    mode=st.sampled_from(MODES),
    seed=st.integers(0, 10**6),
    often=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_a_history_at_any_step_is_what_happened(alpha: int, mode: Mode, seed: int, often: float):
    past = Past(alpha, 8, mode, seed, often)
    journal = past.journal()
    for folded in range(8):
        begin = folded * alpha
        for environment in range(ENVIRONMENTS):
            for step in range(begin, min(begin + 2 * alpha, 8 * alpha) + 1):
                found = journal.history(environment, step, past.read)
                assert same(found, past.expected(environment, step, folded))
        journal.fold(past.read(folded))
        assert journal.intervals == folded + 1


@given(alpha=st.integers(1, 4), mode=st.sampled_from(MODES), seed=st.integers(0, 10**6))
def test_a_journal_goes_on_from_its_state(alpha: int, mode: Mode, seed: int):
    past = Past(alpha, 8, mode, seed)
    for folded in range(7):
        journal, other = filled(past, folded), past.journal()
        other.fold(past.read(0))
        other.load(journal.state())
        for interval in range(folded, 8):
            pairs = zip(histories(other, past), histories(journal, past), strict=True)
            assert all(same(mine, theirs) for mine, theirs in pairs)
            if interval < 7:
                journal.fold(past.read(interval))
                other.fold(past.read(interval))


def test_a_state_is_a_copy():
    past = Past(3, 8, MODES[0], 1)
    journal = filled(past, 3)
    state = journal.state()
    before = {name: tensor.copy() for name, tensor in state.tensors.items()}
    journal.fold(past.read(3))
    journal.fold(past.read(4))
    for name, tensor in state.tensors.items():
        assert tensor.tobytes() == before[name].tobytes()


def test_a_folded_interval_does_not_look_at_its_storage_again():
    past = Past(4, 8, MODES[1], 5)
    journal = past.journal()
    rollout = past.read(0)
    journal.fold(rollout)
    rollout.actions[:], rollout.terminated[:], rollout.truncated[:] = 9, True, False
    found = journal.history(0, 4, past.read)
    assert same(found, past.expected(0, 4, 1))


@pytest.mark.parametrize("mode", MODES[2:])
def test_rows_before_a_renewal_are_dropped(mode: Mode):
    past = Past(4, 8, mode, 2)
    journal = past.journal()
    for interval in range(8):
        journal.fold(past.read(interval))
        kept = journal.state().counters["journal_intervals"]
        assert kept == (interval + 1) % mode.renew_intervals


def test_rows_before_every_running_episode_are_dropped():
    past = Past(2, 8, MODES[0], 0, often=0.0)
    past.terminated[5, 0] = past.terminated[7, 1] = past.truncated[9, 2] = True
    kept = []
    journal = past.journal()
    for interval in range(8):
        journal.fold(past.read(interval))
        kept.append(journal.state().counters["journal_intervals"])
    assert kept == [1, 2, 3, 4, 2, 3, 4, 5]


def test_intervals_are_folded_in_order():
    past = Past(2, 8, MODES[0], 0)
    journal = filled(past, 2)
    with pytest.raises(ValueError, match="interval 2 is next, got 3"):
        journal.fold(past.read(3))


def flipped(state: State, name: str) -> State:
    """Change the last bit of the last number, the newest row of an environment that has ended."""
    tensors = {key: tensor.copy() for key, tensor in state.tensors.items()}
    tensor = tensors[name]
    if tensor.dtype == np.bool_:
        tensor.flat[-1] ^= True
    else:
        tensor.view(np.uint8).reshape(-1, tensor.itemsize)[-1, 0] ^= 1
    return State(tensors, dict(state.counters))


@pytest.mark.parametrize("mode", MODES[:2])
def test_every_tensor_of_the_state_matters(mode: Mode):
    past = Past(3, 8, mode, 4, often=0.05)
    past.terminated[:, 2] = past.truncated[:, 2] = False
    journal = filled(past, 4)
    state, right = journal.state(), histories(journal, past)
    names = (
        ["actions", "ended", "episode"]
        if mode.renewed
        else ["actions", "began", "ended", "episode"]
    )
    assert sorted(state.tensors) == [f"journal_{name}" for name in names]
    for name in state.tensors:
        other = past.journal()
        other.load(flipped(state, name))
        pairs = zip(histories(other, past), right, strict=True)
        assert not all(same(mine, theirs) for mine, theirs in pairs), name


@pytest.mark.parametrize("mode", MODES[:2])
def test_a_state_that_lacks_something_is_refused_and_changes_nothing(mode: Mode):
    past = Past(3, 8, mode, 4, often=0.05)
    state = filled(past, 4).state()
    wrong = {
        **{
            name: State({k: v for k, v in state.tensors.items() if k != name}, state.counters)
            for name in state.tensors
        },
        **{
            name: State(state.tensors, {k: v for k, v in state.counters.items() if k != name})
            for name in state.counters
        },
    }
    shorter = {**state.tensors, "journal_ended": state.tensors["journal_ended"][:-1]}
    wrong["rows"] = State(shorter, state.counters)
    wrong["steps"] = State(state.tensors, {**state.counters, "journal_intervals": 3})
    fewer = {**state.tensors, "journal_episode": state.tensors["journal_episode"][:-1]}
    wrong["journal_episode'"] = State(fewer, state.counters)
    for name, broken in wrong.items():
        other = filled(past, 2)
        before = histories(other, past)
        with pytest.raises(ValueError, match=name):
            other.load(broken)
        pairs = zip(histories(other, past), before, strict=True)
        assert all(same(mine, theirs) for mine, theirs in pairs)


def test_the_first_interval_of_the_state_matters():
    past = Past(3, 8, MODES[1], 4)
    state = filled(past, 4).state()
    other = past.journal()
    other.load(State(state.tensors, {**state.counters, "journal_first_interval": 1}))
    assert other.intervals == 5
    with pytest.raises(ValueError, match="interval 5 is next, got 4"):
        other.fold(past.read(4))
