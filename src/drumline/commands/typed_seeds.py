"""`--seeds 0-4`: the seeds that a flag lists."""

from drumline.commands.command_line import WrongUse

_MOST = 100_000


def seeds_of(text: str) -> list[int]:
    """Return the seeds of `--seeds`: a range, both ends in it, or a list.

    >>> seeds_of("0-4"), seeds_of("7"), seeds_of("1,5,2-3")
    ([0, 1, 2, 3, 4], [7], [1, 5, 2, 3])
    """
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise WrongUse(f"--seeds {text} is no range: write 0-4, or a list as in 0,2,5-7")
        low, high = int(first), int(last or first)
        if high < low:
            raise WrongUse(f"--seeds {text} goes backwards: write {high}-{low}")
        if high - low >= _MOST:
            raise WrongUse(f"--seeds {text} has more than {_MOST:,} seeds")
        found += range(low, high + 1)
    if len(set(found)) < len(found):
        raise WrongUse(f"--seeds {text} has a seed twice")
    return found
