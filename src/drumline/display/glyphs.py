"""Numbers in few characters: sparklines, bars, counts and durations."""

import math
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.-=+*#@"


def sparkline(
    values: Sequence[float],
    width: int,
    *,
    unicode: bool = True,
    low: float | None = None,
    high: float | None = None,
) -> str:
    """Return `values` as at most `width` blocks between their extremes; a gap where not finite.

    More values than blocks are averaged in equal stretches, so that the whole run stays in view.

    >>> sparkline([0, 1, 2, 3], 8)
    '▁▃▆█'
    >>> sparkline([0, 0, 4, 4], 2, unicode=False)
    '_@'
    """
    blocks = BLOCKS if unicode else ASCII_BLOCKS
    means = _stretches(values, width)
    finite = [value for value in means if math.isfinite(value)]
    if not finite:
        return " " * len(means)
    low = min(finite) if low is None else low
    high = max(finite) if high is None else high
    scale = (len(blocks) - 1) / (high - low) if high > low else 0.0
    line = ""
    for value in means:
        if math.isfinite(value):
            level = round((min(max(value, low), high) - low) * scale) if scale else 0
            line += blocks[level]
        else:
            line += " "
    return line


def bar(share: float, width: int, *, unicode: bool = True) -> str:
    """Return a bar that is `share` full.

    >>> bar(0.5, 4)
    '██░░'
    """
    full = round(min(max(share, 0.0), 1.0) * width) if math.isfinite(share) else 0
    filled, empty = ("█", "░") if unicode else ("#", ".")
    return filled * full + empty * (width - full)


def count(value: float) -> str:
    """Return a count or rate with three significant digits.

    >>> count(950), count(45_912), count(2_880_000), count(999_999), count(1.5e9)
    ('950', '45.9k', '2.88M', '1.00M', '1.50G')
    """
    if not math.isfinite(value):
        return "-"
    for unit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * unit:
            scaled = value / unit
            digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
            return f"{scaled:.{digits}f}{suffix}"
    return f"{value:.0f}"


def duration(seconds: float | None) -> str:
    """Return h:mm:ss or m:ss.

    >>> duration(72), duration(3_600), duration(90_061), duration(None)
    ('1:12', '1:00:00', '1d 1:01:01', '-')
    """
    if seconds is None or not math.isfinite(seconds):
        return "-"
    minutes, second = divmod(max(0, round(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def score(value: float | None) -> str:
    """Return an episode return with digits according to its size.

    >>> score(2412.34), score(-0.51234), score(12345.6), score(-0.000311761), score(None)
    ('2412.3', '-0.512', '12346', '-0.000312', '-')
    """
    if value is None or not math.isfinite(value):
        return "-"
    size = abs(value)
    if 0.0 < size < 0.1:
        return f"{value:.3g}"
    return f"{value:.{3 if size < 10 else 2 if size < 100 else 1 if size < 10_000 else 0}f}"


def _stretches(values: Sequence[float], width: int) -> list[float]:
    count_ = len(values)
    if count_ <= width:
        return [float(value) for value in values]
    means: list[float] = []
    for i in range(width):
        stretch = values[i * count_ // width : (i + 1) * count_ // width]
        means.append(sum(stretch) / len(stretch))
    return means
