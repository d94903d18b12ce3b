"""State of a display, and speeds and shares from counts."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from drumline.runs.problem import ENVIRONMENT, Words


@dataclass(frozen=True)
class RunTitle:
    """Facts that stay constant while a run is shown."""

    method: str
    env_id: str
    seed: int
    layout: str
    """The processes that work, in words: `2 workers`."""
    folder: str


@dataclass(frozen=True)
class DisplayState:
    """Facts about one moment of a run, for a display.

    Sequences may be the driver's own lists: a display reads them during `update` only.
    """

    method: str
    env_id: str
    update: int
    env_steps: int
    """Agent decisions in training."""
    total_steps: int | None
    episodes: int
    wall_seconds: float
    return_curve: Sequence[float]
    """Mean episode return of the updates so far, thinned in long runs, newest last."""
    evaluation_mean: float | None
    evaluation_best: float | None
    env_steps_per_second_10s: float
    env_steps_per_second_run: float
    eta_seconds: float | None
    busy_shares: Sequence[float]
    """For each worker the share of its time spent in tasks, 0 to 1."""
    restarts: int
    update_skipped: int
    """Updates without a step, because all returns were equal."""
    words: Words = ENVIRONMENT
    evaluation_info: Mapping[str, float] = field(default_factory=dict)
    """Means of the numbers in the environment's last `info` of the newest evaluation's episodes."""
    evaluated_episodes: int = 0
    evaluation_episodes: int = 0
    """Episodes that have ended and all episodes of the evaluation that the run waits for; 0: it
    waits for none."""
    busy_roles: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Role → for each of its processes the share of the last seconds spent in work, 0 to 1."""
    busy_history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Role → the mean share of its processes, second by second, newest last."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The newest update's own numbers, such as losses; without counters and times."""

    phases: Mapping[str, float] = field(default_factory=dict)
    """Updates, evaluations waited for, checkpoints → share of the session's time, 0 to 1."""
    memory_bytes: int = 0
    """Memory of the run's processes on this machine; 0 where it is not known."""
    cores_busy: float = 0.0
    cores: int = 0
    """Cores that the run may use; 0 where it is not known."""

    @property
    def evaluating(self) -> str:
        """Return the progress of the evaluation that the run waits for; empty without one."""
        if not self.evaluation_episodes:
            return ""
        done, unit = self.evaluated_episodes, self.words.episodes
        return f"evaluating: {done} of {self.evaluation_episodes} {unit}"


class ReturnCurve:
    """A curve of bounded length: from `most` values on every second, fourth…, and the newest."""

    def __init__(self, most: int = 4096):
        self._kept: list[float] = []
        self._newest = 0.0
        self._most = most
        self._every = 1
        self._count = 0

    def append(self, value: float) -> None:
        """Add the newest value."""
        if self._count % self._every == 0:
            if len(self._kept) == self._most:
                self._kept, self._every = self._kept[::2], 2 * self._every
            if self._count % self._every == 0:
                self._kept.append(value)
        self._newest = value
        self._count += 1

    @property
    def values(self) -> list[float]:
        """Return the kept values, the newest last."""
        newest_kept = self._count == 0 or (self._count - 1) % self._every == 0
        return self._kept if newest_kept else [*self._kept, self._newest]


Place = tuple[str, int]
"""Role and index of a process."""


class RoleShares:
    """Shares of work of each role's processes, from their seconds of work so far."""

    def __init__(self, sample_seconds: float = 1.0, kept: int = 120):
        self._sample_seconds = sample_seconds
        self._kept = kept
        self._before: tuple[float, Mapping[Place, float]] | None = None
        self.newest: dict[str, list[float]] = {}
        """Role → share of each process over the last sample."""
        self.history: dict[str, deque[float]] = {}
        """Role → mean share of its processes, a sample each."""

    def add(self, busy_seconds: Mapping[Place, float], seconds: float) -> None:
        """Take the seconds of work so far, at a time; a sample is taken once a second."""
        if self._before is None:
            self._before = (seconds, dict(busy_seconds))
            return
        began, before = self._before
        length = seconds - began
        if length < self._sample_seconds:
            return
        self._before = (seconds, dict(busy_seconds))
        self.newest = {}
        for place in sorted(busy_seconds):
            worked = busy_seconds[place] - before.get(place, 0.0)
            self.newest.setdefault(place[0], []).append(min(1.0, max(0.0, worked / length)))
        for role, shares in self.newest.items():
            strip = self.history.setdefault(role, deque(maxlen=self._kept))
            strip.append(sum(shares) / len(shares))


class Throughput:
    """Speeds and remaining time from samples of (env_steps, perf_counter seconds).

    The first sample is the start, so a resumed run counts only the steps of its own process.
    """

    def __init__(self, window_seconds: float = 10.0):
        self._window_seconds = window_seconds
        self._samples: deque[tuple[float, int]] = deque()
        self._first: tuple[float, int] | None = None
        self._now = 0.0

    def add(self, env_steps: int, seconds: float) -> None:
        """Add a sample; one just outside the window is kept, so that long updates have a rate."""
        if self._first is None:
            self._first = (seconds, env_steps)
        self._now = seconds
        samples = self._samples
        if samples and samples[-1][1] == env_steps:
            return  # long episodes end in bursts, and between two of them nothing has become slower
        samples.append((seconds, env_steps))
        while len(samples) > 2 and seconds - samples[1][0] >= self._window_seconds:
            samples.popleft()

    def recent(self) -> float:
        """Return env steps per second up to the newest ones, over the window or the last burst.

        It falls once they have failed to come for as long as they took; 0 before the second sample.
        """
        if not self._samples:
            return 0.0
        (start, before), (end, steps) = self._samples[0], self._samples[-1]
        return _rate((start, before), (max(end, self._now - (end - start)), steps))

    def whole_run(self) -> float:
        """Return env steps per second since the first sample; 0 before the second one."""
        return _rate(self._first, (self._now, self._samples[-1][1])) if self._first else 0.0

    def eta_seconds(self, total_steps: int | None) -> float | None:
        """Return the seconds to `total_steps` at the whole run's speed, which varies less."""
        rate = self.whole_run()
        if total_steps is None or rate <= 0:
            return None
        return max(0, total_steps - self._samples[-1][1]) / rate


def _rate(start: tuple[float, int], end: tuple[float, int]) -> float:
    seconds = end[0] - start[0]
    return (end[1] - start[1]) / seconds if seconds > 0 else 0.0
