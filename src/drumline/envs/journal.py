"""The action journal: the actions that brought an environment to its state, for exact restore.

The driver keeps it: it folds each interval before the interval's storage is released for writing.
Intervals that are not folded yet are still in the storages, which outlive every executor. So no
data is written twice, and no executor needs a journal of its own.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from drumline.envs.lanes import LaneHistory
from drumline.types import Rollout, State


class _Block(NamedTuple):
    actions: np.ndarray
    ended: np.ndarray


class Journal:
    """Actions and ends since each environment's episode (or renewal) began.

    Without renewals, an episode starts from its own seed, so rows before the running episode are
    dropped. With renewals, rows go back to the latest renewal, which counts as an end.
    """

    def __init__(self, environments: int, alpha: int, *, renewed: bool, renew_intervals: int):
        self._alpha = alpha
        self._renewed = renewed
        self._renew_intervals = renew_intervals
        self._first_interval = 0
        self._blocks: deque[_Block] = deque()
        self._episode = np.zeros(environments, np.int64)
        self._began = np.zeros(environments, np.int64)

    @property
    def intervals(self) -> int:
        """Return the number of folded intervals."""
        return self._first_interval + len(self._blocks)

    def fold(self, rollout: Rollout) -> None:
        """Fold an interval, whose storage may be written afterwards; ValueError out of order."""
        if rollout.interval != self.intervals:
            raise ValueError(f"interval {self.intervals} is next, got {rollout.interval}")
        ended = rollout.terminated | rollout.truncated
        if not self._renewed:
            self._episode += np.count_nonzero(ended, axis=0)
            last = self._alpha - np.argmax(ended[::-1], axis=0)
            begin = rollout.interval * self._alpha
            np.copyto(self._began, begin + last, where=ended.any(axis=0))
        self._blocks.append(_Block(rollout.actions.copy(), ended))
        needed = self._needed_interval()
        if self._renewed and self._first_interval < needed:
            kept = [block.ended for block in self._blocks]
            self._episode += np.count_nonzero(np.concatenate(kept), axis=0) + 1
        while self._first_interval < needed:
            self._blocks.popleft()
            self._first_interval += 1

    def history(
        self, environment: int, steps: int, unfolded: Callable[[int], Rollout]
    ) -> LaneHistory:
        """Return one environment's history up to `steps`; `unfolded` reads later intervals."""
        alpha = self._alpha
        start, episode, renewal = int(self._began[environment]), int(self._episode[environment]), 0
        if self._renewed:
            renewal = self._renewal(steps // alpha)
            start = renewal * self._renew_intervals * alpha
            for interval in range(self._first_interval, start // alpha):
                ended_before = self._block(interval, unfolded).ended[:, environment]
                episode += int(np.count_nonzero(ended_before))
            episode += renewal - self._renewal(self.intervals)
        actions: list[np.ndarray] = []
        ended: list[np.ndarray] = []
        for interval in range(start // alpha, max(-(-steps // alpha), start // alpha + 1)):
            block = self._block(interval, unfolded)
            begin = interval * alpha
            rows = slice(max(start - begin, 0), min(steps - begin, alpha))
            actions.append(block.actions[rows, environment])
            ended.append(block.ended[rows, environment])
        return LaneHistory(
            renewal=renewal,
            episode=episode,
            actions=np.concatenate(actions),
            ended=np.concatenate(ended),
        )

    def state(self) -> State:
        """Return the state for `load`, as of the last folded interval."""
        tensors = {name: own.copy() for name, own in self._words().items()}
        if self._blocks:
            tensors["journal_actions"] = np.concatenate([b.actions for b in self._blocks])
            tensors["journal_ended"] = np.concatenate([b.ended for b in self._blocks])
        counters: dict[str, int | float] = {
            "journal_first_interval": self._first_interval,
            "journal_intervals": len(self._blocks),
        }
        return State(tensors, counters)

    def load(self, state: State) -> None:
        """Load a state; ValueError, without a change, for an incomplete one."""
        words = self._words()
        saved = {name: state.tensor(name, like=own) for name, own in words.items()}
        first = int(state.counter("journal_first_interval"))
        count = int(state.counter("journal_intervals"))
        rows = [state.tensor(f"journal_{name}") for name in ("actions", "ended") if count]
        lengths = [len(array) for array in rows] or [0, 0]
        if lengths != [count * self._alpha] * 2:
            raise ValueError(f"the journal has {lengths} rows for {count} × {self._alpha} steps")
        for name, own in words.items():
            own[:] = saved[name]
        self._first_interval = first
        self._blocks.clear()
        for k in range(count):
            part = slice(k * self._alpha, (k + 1) * self._alpha)
            self._blocks.append(_Block(*(array[part] for array in rows)))

    def _words(self) -> dict[str, np.ndarray]:
        """Return the arrays kept per environment; with renewals, without the episodes' starts."""
        began = {} if self._renewed else {"journal_began": self._began}
        return {"journal_episode": self._episode, **began}

    def _renewal(self, interval: int) -> int:
        return interval // self._renew_intervals if self._renew_intervals else 0

    def _needed_interval(self) -> int:
        """Return the first interval from which a history could still need a row."""
        if self._renewed:
            return self._renewal(self.intervals) * (self._renew_intervals or 0)
        return min(int(self._began.min()) // self._alpha, self.intervals)

    def _block(self, interval: int, unfolded: Callable[[int], Rollout]) -> _Block:
        if interval < self.intervals:
            return self._blocks[interval - self._first_interval]
        rollout = unfolded(interval)
        return _Block(rollout.actions, rollout.terminated | rollout.truncated)
