"""Times for which a node's results wait for each other: they grow with the number of hosts.

A message costs the driver about a millisecond of a core, however many results it has. So the hosts
share out what the driver can read.
"""

from typing import NamedTuple

MESSAGES_PER_SECOND = 200
"""Most messages that all hosts send in a second while their workers have enough to do."""
_SCARCE_PER_SECOND = 500
"""Most messages that they send in a second once workers may soon be idle."""
_GATHER_SECONDS, _SCARCE_SECONDS = 0.25, 0.01


class Waits(NamedTuple):
    """Longest waits of a host, in seconds."""

    gather: float
    """Seconds that results wait for others, so that one message has all."""
    scarce: float
    """Seconds that they wait for others once a worker may soon be idle."""
    beat: float
    """A host that has nothing to say waits at least this long before it says so."""


def waits_among(hosts: int) -> Waits:
    """Return the waits of each of so many hosts.

    >>> waits_among(4).gather, waits_among(4).scarce
    (0.25, 0.01)
    >>> waits_among(600)
    Waits(gather=3.0, scarce=1.2, beat=3.0)
    """
    share = hosts / MESSAGES_PER_SECOND
    return Waits(
        max(_GATHER_SECONDS, share), max(_SCARCE_SECONDS, hosts / _SCARCE_PER_SECOND), share
    )
