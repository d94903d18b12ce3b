"""Episode caps: limits in env steps, so that a few long episodes do not keep workers waiting."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

_MOST_FACTOR = 1e6
_MOST_STEPS = 2**31 - 1


@runtime_checkable
class EpisodeCap(Protocol):
    """A rule for the next generation's cap, from this generation's cap and lengths."""

    @property
    def initial(self) -> int:
        """Return the cap of the first generation in env steps; 0 for none."""
        ...

    def following(self, cap: int, lengths: Sequence[int]) -> int:
        """Return the next cap; 0 for none."""
        ...


@dataclass(frozen=True)
class NoCap:
    """No cap besides the environment's own time limit."""

    initial: int = 0

    def following(self, cap: int, lengths: Sequence[int]) -> int:
        """Return 0: no cap."""
        return 0


@dataclass(frozen=True)
class MeanMultipleCap:
    """m = factor × mean length (paper: 2, hence CPU utilisation ≥ 50 % at worst)."""

    factor: float
    initial: int = 0

    def following(self, cap: int, lengths: Sequence[int]) -> int:
        """Return ⌊factor · (mean + 1)⌋; the 1 lets caps grow from one-step episodes."""
        return int(self.factor * (sum(lengths) / len(lengths) + 1.0))


@dataclass(frozen=True)
class AdaptiveCap:
    """The reference's schedule: grow by `ratio` if a `fraction` of the episodes reach the cap."""

    initial: int
    fraction: float
    ratio: float

    def following(self, cap: int, lengths: Sequence[int]) -> int:
        """Return the cap, longer if enough episodes reached it; it never shrinks."""
        hits = sum(length >= cap for length in lengths)
        longer = max(cap + 1, int(self.ratio * cap))  # 1.5 × 1, rounded down, would not grow
        return longer if hits >= self.fraction * len(lengths) else cap


def parse_episode_cap(text: str) -> EpisodeCap:
    """Parse `none`, `mean:F` or `adaptive:L0,FRACTION,RATIO`.

    >>> parse_episode_cap("mean:2").following(0, [9, 9])
    20
    """
    kind, _, rest = text.partition(":")
    try:
        if kind == "none" and not rest:
            return NoCap()
        if kind == "mean":
            factor = float(rest)
            if 1.0 <= factor <= _MOST_FACTOR:
                return MeanMultipleCap(factor)
        if kind == "adaptive":
            first, fraction, ratio = rest.split(",")
            cap = AdaptiveCap(int(first), float(fraction), float(ratio))
            numbers = 0 < cap.initial <= _MOST_STEPS and 0.0 < cap.fraction <= 1.0
            if numbers and 1.0 < cap.ratio <= _MOST_FACTOR:
                return cap
    except ValueError:
        pass
    raise ValueError(
        f"--episode-cap {text!r} is none of none, mean:F (F from 1 to 1e6; the paper's is "
        "mean:2) and adaptive:L0,FRACTION,RATIO (as in adaptive:100,0.5,1.5)"
    )
