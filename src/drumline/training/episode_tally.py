"""Finished episodes and their returns, folded from intervals in the order (t, environment)."""

import numpy as np

from drumline.types import EpisodeRow, Rollout, State

WINDOW = 100


class EpisodeTally:
    """Running returns and lengths of every environment, and the latest finished episodes."""

    def __init__(self, environments: int, alpha: int, renew_intervals: int, scores: bool = False):
        """`scores`: whether rollouts hold the engine's own rewards."""
        self._alpha = alpha
        self._renew_intervals = renew_intervals
        self._returns = np.zeros(environments)
        self._lengths = np.zeros(environments, np.int64)
        self._recent = np.zeros(WINDOW)
        self._count = 0
        self._scores = np.zeros(environments) if scores else None
        self._recent_scores = np.zeros(WINDOW)
        self._rows: list[EpisodeRow] = []
        self.cut = 0
        """Episodes that a renewal ended; they count as no episode."""

    @property
    def recent_mean(self) -> float:
        """Return the mean of the latest 100 returns (NaN before the first)."""
        known = min(self._count, WINDOW)
        return float(self._recent[:known].mean()) if known else np.nan

    @property
    def recent_score(self) -> float | None:
        """Return the mean of the latest 100 scores (NaN before the first), or None without any."""
        known = min(self._count, WINDOW)
        if self._scores is None:
            return None
        return float(self._recent_scores[:known].mean()) if known else np.nan

    def fold(self, rollout: Rollout) -> None:
        """Add an interval of every environment."""
        every = self._renew_intervals
        if every and rollout.interval and rollout.interval % every == 0:
            self._cut(slice(None))
        ended = rollout.terminated | rollout.truncated
        for t in range(self._alpha):
            self._returns += rollout.rewards[t]
            self._lengths += 1
            if self._scores is not None and rollout.scores is not None:
                self._scores += rollout.scores[t]
            for environment in np.flatnonzero(ended[t]).tolist():
                self._finish(rollout.interval + 1, environment)

    def fold_unroll(self, environment: int, unroll: Rollout, update: int) -> None:
        """Add one unroll of one environment; `update` is the one that learned from it."""
        every = self._renew_intervals
        if every and unroll.interval and unroll.interval % every == 0:
            self._cut(slice(environment, environment + 1))
        ended = (unroll.terminated | unroll.truncated)[:, 0]
        start = 0
        for end in [*(np.flatnonzero(ended) + 1).tolist(), len(ended)]:
            self._returns[environment] += unroll.rewards[start:end, 0].sum(dtype=np.float64)
            self._lengths[environment] += end - start
            if self._scores is not None and unroll.scores is not None:
                score = unroll.scores[start:end, 0].sum(dtype=np.float64)
                self._scores[environment] += score
            if end > start and ended[end - 1]:
                self._finish(update, environment)
            start = end

    def cut_running(self) -> None:
        """Count every running episode as cut: its environment starts anew."""
        self._cut(slice(None))

    def take(self) -> list[EpisodeRow]:
        """Return the episodes that ended since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def state(self) -> State:
        """Return the state for `load`; called between two intervals, when no row waits."""
        tensors = {
            "episode_returns": self._returns.copy(),
            "episode_lengths": self._lengths.copy(),
            "episode_recent": self._recent.copy(),
        }
        if self._scores is not None:
            tensors["episode_scores"] = self._scores.copy()
            tensors["episode_recent_scores"] = self._recent_scores.copy()
        return State(tensors, {"episode_count": self._count, "episodes_cut": self.cut})

    def load(self, state: State) -> None:
        """Take over a state."""
        self._returns = state.tensor("episode_returns", like=self._returns)
        self._lengths = state.tensor("episode_lengths", like=self._lengths)
        self._recent = state.tensor("episode_recent", like=self._recent)
        if self._scores is not None:
            self._scores = state.tensor("episode_scores", like=self._scores)
            self._recent_scores = state.tensor("episode_recent_scores", like=self._recent_scores)
        self._count = int(state.counter("episode_count"))
        self.cut = int(state.counter("episodes_cut"))

    def _cut(self, environments: slice) -> None:
        self.cut += int(np.count_nonzero(self._lengths[environments]))
        self._returns[environments] = 0.0
        self._lengths[environments] = 0
        if self._scores is not None:
            self._scores[environments] = 0.0

    def _finish(self, update: int, environment: int) -> None:
        episode_return, length = float(self._returns[environment]), int(self._lengths[environment])
        score = None if self._scores is None else float(self._scores[environment])
        self._rows.append(EpisodeRow(update, environment, 0, episode_return, length, score))
        if self._scores is not None:
            self._recent_scores[self._count % WINDOW] = self._scores[environment]
            self._scores[environment] = 0.0
        self._recent[self._count % WINDOW] = episode_return
        self._count += 1
        self._returns[environment] = 0.0
        self._lengths[environment] = 0
