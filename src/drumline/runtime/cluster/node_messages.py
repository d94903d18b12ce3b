"""Messages between the driver and the hosts of a node pool: one host per node of a cluster."""

import pickle
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from drumline.protocols import PublishedLayout
from drumline.runtime.cluster.gathering import Waits
from drumline.runtime.cluster.group_messages import Places
from drumline.runtime.messages import Failure
from drumline.types import ProcessActivity, Span


class Proof(NamedTuple):
    """A known answer that a node computes before it takes part."""

    factory: bytes
    """Pickled factory of a worker that answers any task."""
    answer: bytes
    """The driver's own answer."""
    processor: str
    """The driver's processor."""


class HostSpec(NamedTuple):
    """Everything a host needs to serve; the same for every host but for its size."""

    size: int
    """Worker processes of this host."""
    factory: bytes
    probe_factory: bytes | None
    published: PublishedLayout
    versions: int
    shared: PublishedLayout | None
    hang_seconds: float
    creation_seconds: float
    role: str
    one_task_leases: bool
    search_path: list[str]
    """Import path of the driver, for code that lies in the same place on every node."""
    packages: Mapping[str, str]
    """Versions of the packages that must be the same on every node."""
    variables: tuple[tuple[str, str], ...] = ()
    """The driver's environment variables by which libraries choose their arithmetic."""
    proof: "Proof | None" = None
    """None: the node need not prove itself."""
    replica: bytes | None = None
    """Pickled factory of the node's replica; None: parameters are published."""


class Parcel(NamedTuple):
    """A task on its way through a host, which never unpickles it."""

    serial: int
    task: bytes

    def __repr__(self) -> str:
        try:
            return repr(pickle.loads(self.task))
        except Exception:  # noqa: BLE001 - a task's class may run any code when it is read
            return f"task {self.serial}"


class Submit(NamedTuple):
    """Command: queue these tasks; columns pickle faster than records."""

    serials: tuple[int, ...]
    tasks: tuple[bytes, ...]
    more: bool
    """Whether others wait in the driver's queue, for which this host should not run dry."""
    waits: Waits


class Publish(NamedTuple):
    """Command: publish the next data as `version`, and keep the versions in `kept`."""

    version: int
    kept: tuple[int, ...]


class Seed(NamedTuple):
    """Command: load the next data, a state, into the replica."""


class Advance(NamedTuple):
    """Command: apply the next data, records, to the replica, and publish it as `version`."""

    version: int


class Write(NamedTuple):
    """Command: copy the next data to the rows of a shared array from `first` on."""

    name: str
    first: int


class Copy(NamedTuple):
    """Command: copy rows to a shared array [first, last) out of a result that this host keeps."""

    name: str
    first: int
    last: int
    serial: int
    offset: int
    """Bytes of the result before the rows."""


class Drop(NamedTuple):
    """Command: keep these results no longer."""

    serials: tuple[int, ...]


class Withdraw(NamedTuple):
    """Command: withdraw every task whose serial is below the mark."""

    below: int


class WakeAt(NamedTuple):
    """Command: report at once when a task has progressed by `amount`."""

    serial: int
    amount: int


class Close(NamedTuple):
    """Command: end every process."""


Command = Submit | Publish | Seed | Advance | Write | Copy | Drop | Withdraw | WakeAt | Close


class Done(NamedTuple):
    """Finished tasks in columns; times in seconds of the host's clock."""

    serials: Sequence[int] = ()
    results: Sequence[bytes | None] = ()
    """Pickled; None if the task was withdrawn while it ran, or has failed."""
    began: Sequence[float] = ()
    ended: Sequence[float] = ()
    failures: Mapping[int, Failure] = {}
    """Serial → failure."""


class Heard(NamedTuple):
    """A host's news, in the order of `number`; the same news may arrive twice."""

    number: int
    told: int
    """Number of the latest message of commands that was carried out."""
    clock: float
    """The host's clock at the time of sending."""
    done: Done = Done()
    """Results; where there are shared arrays, the host keeps the large arrays of these."""
    condemned: Sequence[tuple[int, tuple[str, ...]]] = ()
    """Tasks that ended their worker too often, and the causes."""
    lines: Sequence[str] = ()
    spans: Sequence[Span] = ()
    activity: Sequence[ProcessActivity] | None = None
    """Rows of the processes; None: those of an earlier news are recent enough."""
    progress: Sequence[tuple[int, int]] = ()
    withdrawn_below: int = 0
    """Every task below this serial that was withdrawn has come back or never will."""
    replicas: Sequence[tuple[int, bytes]] = ()
    """Versions that the replica has published since the last news, each with its digest."""
    unbuilt: Failure | None = None
    """The worker could not be built."""
    refused: str = ""
    """Reason for which this node cannot take part; empty if it can."""
    hopeless: str = ""
    """Reason for which this host gave up; empty if it did not."""
    closed: bool = False


class Lost(NamedTuple):
    """The end of a host that said nothing."""

    cause: str
    node_gone: bool
    """Whether the node is lost with it, so that no task is to blame."""


class Node(NamedTuple):
    """A node of the cluster that can run workers."""

    id: str
    name: str
    cores: int
    leaves_in: float | None = None
    """Seconds until the cluster takes the node away; None: no such notice."""


class Link(Protocol):
    """Connection to one host."""

    def tell(self, number: int, commands: Sequence[Command], data: Sequence[Any]) -> None:
        """Send commands; `Publish`, `Seed`, `Advance` and `Write` take the next data each."""
        ...

    def end(self) -> None:
        """Kill the host; its processes die with it."""
        ...


class Nodes(Protocol):
    """A cluster as a node pool sees it."""

    def present(self) -> list[Node]:
        """Return the nodes that are alive now and have cores."""
        ...

    def start(self, node: Node, spec: HostSpec, cores: int) -> Link:
        """Start a host that claims `cores` cores of a node; does not wait for it."""
        ...

    def places(self) -> Places:
        """Return the nodes as places for the groups of a run."""
        ...

    def put(self, value: Any) -> Any:
        """Store a value once for all hosts; return what stands for it among a message's data."""
        ...

    def wait(self, links: Sequence[Link], seconds: float) -> list[tuple[Link, Heard | Lost]]:
        """Wait for news of any host."""
        ...
