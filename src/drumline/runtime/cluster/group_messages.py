"""Messages between the groups of a run, besides the parts that they gather."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from drumline.types import ProcessActivity, Span

Address = tuple[str, int]


class GroupSpec(NamedTuple):
    """Everything that a process needs to become a group."""

    search_path: list[str]
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    host: str
    """Address at which the other groups reach it."""
    head: Address
    token: bytes
    """Secret of one run, which both ends of every connection prove to know."""
    packages: Sequence[str]
    """Packages whose versions it tells."""
    variables: tuple[tuple[str, str], ...]
    """The head's environment variables by which libraries choose their arithmetic."""
    factory: bytes
    """Pickled on its own, because it can be read only after the search path is set."""
    probe_factory: bytes | None


class Hello(NamedTuple):
    """A group has reached the head, and listens for the others at `address`."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    address: Address


class Peers(NamedTuple):
    """The addresses of all groups but the head; each calls those before it."""

    addresses: Mapping[int, Address]


class Built(NamedTuple):
    """A group is built and can begin."""

    packages: Mapping[str, str]
    processor: str
    answer: str
    """The known answer of its libraries."""


class Begin(NamedTuple):
    """Begin with the update after `update`, from this state."""

    update: int
    state: Any


class Finish(NamedTuple):
    """Leave."""


class Line(NamedTuple):
    """A line for the run's log."""

    text: str


class Alive(NamedTuple):
    """A sign of life, with the rows of the group's processes."""

    activity: Sequence[ProcessActivity]


class Missed(NamedTuple):
    """A group leaves, because it has lost another one."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    """The number of that one."""


class Closed(NamedTuple):
    """The group's last words."""

    clock: float
    """The group's clock at the time of sending."""
    activity: Sequence[ProcessActivity]
    spans: Sequence[Span]


class StartedGroup(Protocol):
    """A group that was started somewhere."""

    @property
    def where(self) -> str:
        """Return the name of its place, for messages."""
        ...

    def ended(self) -> str | None:
        """Return the cause of its end; None while it lives, as far as is known."""
        ...

    def end(self, *, lost: bool = False) -> None:
        """End it, and its processes with it; `lost`: another place is better from now on."""
        ...


class Places(Protocol):
    """Machines for the groups of a run."""

    @property
    def host(self) -> str:
        """Return the address at which other machines reach the head."""
        ...

    def start(self, index: int, count: int, spec_on: Callable[[str], GroupSpec]) -> StartedGroup:
        """Start group `index` of `count`; `spec_on(host)` is its spec on a machine."""
        ...

    def look(self) -> None:
        """Raise WorkersLost if no machine can be had any more; called about once a second."""
        ...


NODE_LOST = "the loss of its node"
"""Cause of a group's end for which no group is to blame."""
