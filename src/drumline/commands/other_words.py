"""Words of other libraries, and numbers as people write them, for flags of Drumline."""

import re
from collections.abc import Collection, Sequence
from decimal import Decimal

from drumline.api.other_names import our_name
from drumline.commands.command_line import WrongUse

_ROUND = re.compile(r"[+-]?\d+(\.\d*)?[eE]\+?\d{1,2}")


def in_our_words(
    words: Sequence[str], flags: Collection[str], whole_numbers: Collection[str]
) -> list[str]:
    """Return the words with 1e5 as 100000 behind flags of whole numbers.

    Raises WrongUse for another library's name of one of the `flags`; names are without dashes.
    """
    found: list[str] = []
    flag = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            flag = name.replace("_", "-")
            if flag == "device" and flag not in flags:
                raise WrongUse(
                    "there is no --device here: only trainings with a learner compute on a GPU "
                    "(drumline train hts CartPole-v1 --help-all): leave it out"
                )
            if ours := our_name(flag, flags):
                raise WrongUse(f"there is no --{flag} here: it is called --{ours[0]}{ours[1]}")
            if equals and flag in whole_numbers:
                word = f"--{name}={_whole(value)}"
        elif flag in whole_numbers:
            word = _whole(word)
        found.append(word)
    return found


def _whole(word: str) -> str:
    """Return a whole number without its exponent; any other word as it is.

    >>> _whole("1e5"), _whole("2.5e6"), _whole("1.5e0"), _whole("fast")
    ('100000', '2500000', '1.5e0', 'fast')
    """
    if not _ROUND.fullmatch(word):
        return word
    number = Decimal(word)
    return str(int(number)) if number == int(number) else word
