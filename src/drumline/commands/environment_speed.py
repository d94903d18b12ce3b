"""Speed of an environment's random episodes on one core, and what is said of it."""

import os
import resource
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from drumline import seeding
from drumline.commands.environment_findings import Finding
from drumline.workers.random_episode import RandomEpisode

_BUSY_SHARE, _IDLE_SHARE = 1.3, 0.7


@dataclass(frozen=True)
class Speed:
    """Episodes that were timed."""

    seconds: float
    resets: int
    reset_seconds: float
    """Seconds of all resets, without the steps between them."""
    steps: int
    lengths: list[int]
    """Lengths of the episodes that ended."""
    busy: float
    """Cores that were kept busy."""
    waits: bool
    """Whether its steps wait for something, such as a sleep or another process."""
    threads: int
    """Threads that it started."""

    @property
    def steps_per_second(self) -> float:
        """Env steps a second, resets left out."""
        return max(self.steps, 1) / (self.seconds - self.reset_seconds)

    def figures(self, limit: int | None) -> dict[str, float | int | None]:
        """Return what was measured, by its names in the JSON object; `limit`: env steps."""
        return {
            "env_steps_per_second": self.steps_per_second,
            "reset_seconds": self.reset_seconds / self.resets,
            "processor_share": self.busy,
            "threads_started": self.threads,
            "episodes_ended": len(self.lengths),
            "mean_length": float(np.mean(self.lengths)) if self.lengths else None,
            "time_limit": limit or None,
        }

    def findings(self, limit: int | None) -> list[Finding]:
        """Return what is said of it."""
        sentence = (
            f"{self.steps_per_second:,.0f} env steps/s on one core, "
            f"{self.reset_seconds / self.resets * 1e3:.3g} ms a reset"
        )
        return [Finding("speed", "ok", sentence), self._of_threads(), self._of_lengths(limit)]

    def _of_threads(self) -> Finding:
        if self.busy > _BUSY_SHARE:
            return Finding(
                "threads",
                "note",
                f"its steps keep {self.busy:.1f} cores busy, and so would every worker: set its "
                "threads to 1",
            )
        if self.waits:
            return Finding(
                "threads",
                "note",
                f"its steps wait for {1 - self.busy:.0%} of their time: more --workers than cores "
                "pay",
            )
        words = f"{self.threads} threads of its own" if self.threads else "no thread of its own"
        return Finding("threads", "ok", f"{words}, and its steps keep one core busy at most")

    def _of_lengths(self, limit: int | None) -> Finding:
        if not (self.lengths or limit):
            return Finding(
                "episodes",
                "note",
                f"no episode ended in {self.steps:,} steps, and there is no time limit: methods "
                "that wait for episodes would wait for ever; give one with --max-episode-steps, "
                "or return truncated from step()",
            )
        ends = "none ended"
        if self.lengths:
            ends = f"random episodes last {np.mean(self.lengths):,.0f} steps"
        bound = f"a time limit of {limit:,} steps" if limit else "no time limit"
        return Finding("episodes", "ok", f"{ends}; {bound}")


def timed(
    episode_of: Callable[[int], RandomEpisode],
    seconds: float,
    threads: int,
    progress: Callable[[int], None],
) -> Speed:
    """Run random episodes by seed for a time, a step of one at least.

    `threads`: those of this process before the environment was made. `progress` gets the env steps.
    """
    steps, resets, lengths = 0, 0.0, list[int]()
    number, began, used, sleeps = 0, time.perf_counter(), time.process_time(), _sleeps()
    while (passed := time.perf_counter() - began) < seconds or not steps:
        before = time.perf_counter()
        seeding.seed_globals(number)
        episode = episode_of(number)
        episode.begin()
        resets += time.perf_counter() - before
        number += 1
        # A step at least: a reset may take all of the time.
        while not episode.length or (not episode.ended and time.perf_counter() - began < seconds):
            episode.step()
            progress(1)
        steps += episode.length
        if episode.ended:
            lengths.append(episode.length)
    busy = (time.process_time() - used) / passed
    waits = busy < _IDLE_SHARE and _sleeps() - sleeps > steps / 2
    more = max(0, threads_now() - threads)
    return Speed(passed, number, resets, steps, lengths, busy, waits, more)


def threads_now() -> int:
    """Return the number of this process's threads, native ones too where /proc tells them."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/task"))
    return threading.active_count()


def _sleeps() -> int:
    """Return how often this process has given its core away by itself: to sleep, or to wait."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
