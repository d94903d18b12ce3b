"""Programmable step times: laws of how long an environment's steps take, without sleeping.

Every environment has its own stream, drawn in blocks, so its times do not depend on its place or on
other environments. The executor turns step times into due times.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from drumline import seeding

BLOCK = 512
"""Times drawn at once: making a generator costs as much as hundreds of draws."""


class StepTimeLaw(Protocol):
    """Law of the seconds of one environment's steps; frozen and picklable."""

    def block(
        self, rng: np.random.Generator, environment: int, carried: Any
    ) -> tuple[np.ndarray, Any]:
        """Return the next `[BLOCK]` seconds and the state for the block after it."""
        ...


class BadStepTime(ValueError):
    """A step-time law that cannot be parsed."""


@dataclass(frozen=True)
class Constant:
    """Every step takes the same time."""

    seconds: float

    def block(
        self, rng: np.random.Generator, environment: int, carried: Any
    ) -> tuple[np.ndarray, Any]:
        """Repeat the constant."""
        return np.full(BLOCK, self.seconds), None


@dataclass(frozen=True)
class Gamma:
    """Gamma(shape, mean / shape): variance mean² / shape; shape 1 is the exponential law."""

    mean: float
    shape: float = 1.0

    def block(
        self, rng: np.random.Generator, environment: int, carried: Any
    ) -> tuple[np.ndarray, Any]:
        """Draw independent times."""
        return rng.gamma(self.shape, self.mean / self.shape, BLOCK), None


@dataclass(frozen=True)
class Bursts:
    """A Markov chain of two states; a slow run lasts `length` steps on average."""

    fast: float
    slow: float
    slow_share: float
    length: float

    def block(
        self, rng: np.random.Generator, environment: int, carried: Any
    ) -> tuple[np.ndarray, Any]:
        """Continue in the carried state; the first block starts in the stationary law."""
        to_fast = 1.0 / self.length
        to_slow = to_fast * self.slow_share / (1.0 - self.slow_share)
        is_slow = bool(rng.random() < self.slow_share) if carried is None else carried
        slow = np.empty(BLOCK, bool)
        for step, uniform in enumerate(rng.random(BLOCK).tolist()):
            slow[step] = is_slow
            if uniform < (to_fast if is_slow else to_slow):
                is_slow = not is_slow
        return np.where(slow, self.slow, self.fast), is_slow


@dataclass(frozen=True)
class Straggler:
    """Constant times; one environment is permanently slower, by `factor`."""

    seconds: float
    factor: float
    environment: int = 0

    def block(
        self, rng: np.random.Generator, environment: int, carried: Any
    ) -> tuple[np.ndarray, Any]:
        """Repeat this environment's constant."""
        factor = self.factor if environment == self.environment else 1.0
        return np.full(BLOCK, self.seconds * factor), None


@dataclass(frozen=True)
class Trace:
    """Recorded times, repeated in order; each environment starts at its own position."""

    seconds: tuple[float, ...]

    def block(
        self, rng: np.random.Generator, environment: int, carried: Any
    ) -> tuple[np.ndarray, Any]:
        """Continue at the carried position."""
        place = int(rng.integers(len(self.seconds))) if carried is None else carried
        places = (place + np.arange(BLOCK)) % len(self.seconds)
        return np.array(self.seconds)[places], (place + BLOCK) % len(self.seconds)


class StepTimes:
    """Step times of environments `first … first + count - 1`, in each one's own order."""

    def __init__(self, law: StepTimeLaw, root_seed: int, first: int, count: int):
        self._law = law
        self._root_seed = root_seed
        self._first = first
        self._carried: list[Any] = [None] * count
        self._blocks = [0] * count
        self._times = np.zeros((count, BLOCK))
        self._cursor = np.full(count, BLOCK)
        self._all = np.arange(count)

    def next(self, lanes: np.ndarray | None = None) -> np.ndarray:
        """Return the seconds of the next step of each of these lanes."""
        chosen = self._all if lanes is None else lanes
        for lane in chosen[self._cursor[chosen] == BLOCK].tolist():
            self._draw(lane)
        seconds = self._times[chosen, self._cursor[chosen]]
        self._cursor[chosen] += 1
        return seconds

    def _draw(self, lane: int) -> None:
        number = self._first + lane
        rng = seeding.generator(self._root_seed, "step-time", number, self._blocks[lane])
        self._times[lane], self._carried[lane] = self._law.block(rng, number, self._carried[lane])
        self._blocks[lane] += 1
        self._cursor[lane] = 0


FORMS = {
    "constant": "constant:5ms",
    "exponential": "exponential:5ms",
    "gamma": "gamma:5ms,4 (mean, shape)",
    "bursts": "bursts:1ms,10ms,0.1,64 (fast, slow, share of slow steps, mean slow run in steps)",
    "straggler": "straggler:5ms,10 (others' time, factor; optionally ,environment)",
    "trace": "trace:times.txt (seconds, one a line)",
}
"""Example text of each law, by name."""


def parse_step_time(text: str) -> StepTimeLaw:
    """Parse a law from text such as `exponential:5ms`; raises BadStepTime.

    >>> parse_step_time("gamma:5ms,4")
    Gamma(mean=0.005, shape=4.0)
    """
    name, _, rest = text.partition(":")
    name = name.strip().lower()
    if name not in FORMS:
        forms = "; ".join(FORMS.values())
        raise BadStepTime(f"unknown step-time law {name!r} in {text!r}; the laws are {forms}")
    if name == "trace":
        return _read_trace(rest.strip())
    words = [word.strip() for word in rest.split(",")] if rest.strip() else []
    least, most = {"gamma": (2, 2), "bursts": (4, 4), "straggler": (2, 3)}.get(name, (1, 1))
    if not least <= len(words) <= most:
        raise BadStepTime(f"{text!r} has {len(words)} values; write {FORMS[name]}")
    first = _duration(words[0], text)
    if name == "constant":
        return Constant(first)
    if name == "exponential":
        return Gamma(first)
    if name == "gamma":
        return Gamma(first, _number(words[1], text, "shape"))
    if name == "straggler":
        return _straggler(first, words, text)
    return _bursts(first, words, text)


def _straggler(seconds: float, words: list[str], text: str) -> Straggler:
    factor = _number(words[1], text, "factor")
    if len(words) == 2:
        return Straggler(seconds, factor)
    if not words[2].isdecimal():
        raise BadStepTime(f"{text!r}: environment must be 0, 1, 2 …, got {words[2]!r}")
    return Straggler(seconds, factor, int(words[2]))


def _bursts(fast: float, words: list[str], text: str) -> Bursts:
    share = _number(words[2], text, "share of slow steps")
    length = _number(words[3], text, "mean slow run")
    if share >= 1.0:
        raise BadStepTime(f"{text!r}: share of slow steps must be below 1, got {words[2]}")
    longest = max(1.0, share / (1.0 - share))
    if length < longest:
        raise BadStepTime(
            f"{text!r}: with this share a mean slow run is at least {longest:g} steps, "
            f"got {words[3]}"
        )
    return Bursts(fast, _duration(words[1], text), share, length)


def _read_trace(path: str) -> Trace:
    try:
        words = Path(path).read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise BadStepTime(f"step-time trace {path!r} cannot be read: {error}") from error
    try:
        seconds = tuple(float(word) for word in words)
    except ValueError as error:
        raise BadStepTime(
            f"step-time trace {path!r}: {error}; write seconds, one a line"
        ) from error
    wrong = [value for value in seconds if not (math.isfinite(value) and value >= 0.0)]
    if wrong or not seconds:
        what = f"{wrong[0]} is not a time" if wrong else "it is empty"
        raise BadStepTime(f"step-time trace {path!r}: {what}; write seconds, one a line")
    return Trace(seconds)


def _duration(word: str, text: str) -> float:
    for unit, scale in (("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if word.endswith(unit):
            return _number(word.removesuffix(unit), text, "time") * scale
    raise BadStepTime(f"{text!r}: time {word!r} needs a unit: us, ms or s, as in 5ms")


def _number(word: str, text: str, what: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0.0):
        raise BadStepTime(f"{text!r}: {what} must be a number above 0, got {word!r}")
    return value
