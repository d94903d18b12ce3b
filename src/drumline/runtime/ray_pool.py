"""RayNodes: the nodes of a Ray cluster, for a `NodePool`. The only file that imports Ray.

A host is an actor that is never restarted or retried by Ray: the driver issues lost tasks again
itself. Ray would keep the order of an actor's calls, and one failure would hold up its followers.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (Ray's annotations are partial)

import logging
import os
import pickle
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

try:
    import ray
    from ray import exceptions
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise ValueError(
        "--pool ray needs Ray, which is not installed: pip install 'drumline[ray]'"
    ) from error

from drumline.errors import WorkersLost
from drumline.runtime.group_host import GroupHost
from drumline.runtime.group_messages import NODE_LOST, GroupSpec
from drumline.runtime.node_host import NodeHost, versions_of
from drumline.runtime.node_messages import Command, Heard, HostSpec, Link, Lost, Node
from drumline.runtime.outbox import Fate, Outbox

_OTHER = "it has {} instead of {}: install the driver's version there"
_UNREADABLE = (
    "it and the driver cannot read each other's messages ({}): install the driver's Drumline there"
)
_HEAR_SECONDS = 1.0
_AGAIN_SECONDS = 0.5
"""Pause before a host that cannot be reached is asked again."""
_CONNECT_SECONDS = 5.0
_HEAD_ANSWER_SECONDS = 1.0
_STORE_BYTES = 512 << 20
_HEAD_SECONDS = 30.0
"""Time for which a run goes on without the cluster's head. Ray ends the process after 60 s."""


class RayNodes:
    """Nodes of a Ray cluster that this process has joined, or has started on this machine."""

    def __init__(self, address: str = "", cores: int = 0, store_bytes: int = _STORE_BYTES):
        """Join the cluster at `address` (host:port, or auto); empty: start one of `cores` here."""
        self._rows: list[dict[str, Any]] = []
        """Ray's rows of the nodes, as they were when the head last answered."""
        self._asked_head = self._heard_of_head = time.perf_counter()
        self._joined = not ray.is_initialized()
        """Whether this object joined; a program that has joined by itself stays so."""
        if not self._joined:
            self._own_node = ray.get_runtime_context().get_node_id()
            return
        if address and address != "auto":
            _refuse_unreachable(address)
        kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        if not address:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **({} if address else _own_cluster(cores, store_bytes)),
            )
        except (
            ConnectionError,
            RuntimeError,
            ValueError,
            OSError,
            exceptions.AuthenticationError,
        ) as error:
            raise ValueError(_not_joined(address, error)) from error
        finally:
            for number, handler in kept.items():  # Ray sets its own; the run's are to stay
                with suppress(ValueError):  # only the main thread may
                    signal.signal(number, handler)
        _silence()
        self._own_node = ray.get_runtime_context().get_node_id()

    def present(self) -> list[Node]:
        """Return the nodes that are alive and have cores, the driver's own first."""
        rows = self._look()
        leaving = {} if self.headless else _draining()
        now = time.time_ns() // 1_000_000
        nodes = [
            Node(
                id=row["NodeID"],
                name=row.get("NodeManagerAddress") or row["NodeID"],
                cores=int(row["Resources"].get("CPU", 0)),
                leaves_in=None
                if row["NodeID"] not in leaving
                else max(0.0, (leaving[row["NodeID"]] - now) / 1000.0),
            )
            for row in rows
            if row["Alive"]
        ]
        usable = [node for node in nodes if node.cores > 0]
        return sorted(usable, key=lambda node: (node.id != self._own_node, node.name, node.id))

    @property
    def headless(self) -> bool:
        """Whether the head did not answer when it was last asked."""
        return self._heard_of_head < self._asked_head

    def is_gone(self, node: Node) -> bool:
        """Return whether the cluster has lost a node, as far as is known."""
        return not any(row["NodeID"] == node.id and row["Alive"] for row in self._look())

    def _look(self) -> list[dict[str, Any]]:
        """Return Ray's rows of the nodes; WorkersLost if the head has been silent for too long.

        Ray's own calls would wait for the head, and then end this process without a word.
        """
        head = ray.get_runtime_context().gcs_address
        self._asked_head = time.perf_counter()
        if _answers(head):
            self._heard_of_head = time.perf_counter()
            self._rows = ray.nodes()
        elif self._asked_head - self._heard_of_head > _HEAD_SECONDS:
            raise WorkersLost(
                f"the head of the Ray cluster at {head} has not answered for {_HEAD_SECONDS:g} s: "
                "start the cluster again, then go on with drumline resume and its --ray-address"
            )
        return self._rows

    def start(self, node: Node, spec: HostSpec, cores: int) -> "RayLink":
        """Start a host that claims `cores` of a node's cores."""
        actor = (
            ray.remote(RayHost)
            .options(
                num_cpus=cores,
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=4,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
            )
            .remote(versions_of(["drumline"])["drumline"], pickle.dumps(spec, protocol=5))
        )
        return RayLink(self, node, actor)

    def places(self) -> "RayPlaces":
        """Return the nodes as places for the groups of a run."""
        return RayPlaces(self)

    def put(self, value: Any) -> Any:
        """Store a value once for all nodes."""
        try:
            return ray.put(value)
        except (exceptions.ObjectStoreFullError, exceptions.OutOfDiskError) as error:
            raise MemoryError(
                "Ray's object store on the driver's node is full, and so is the disk that it "
                "spills to: start that node with a larger --object-store-memory, or free its disk"
            ) from error

    def wait(self, links: Sequence[Link], seconds: float) -> list[tuple[Link, Heard | Lost]]:
        """Wait for news of any host; at most `seconds`."""
        hearing = {ref: link for link in links if (ref := _ray(link).listen()) is not None}
        if not hearing:
            time.sleep(min(seconds, _AGAIN_SECONDS))
            return []
        with _handlers_raise():
            ready, rest = ray.wait(list(hearing), num_returns=1, timeout=seconds)
            if ready and rest:
                ready += ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        news: list[tuple[Link, Heard | Lost]] = []
        for ref in ready:
            link = hearing[ref]
            what = _ray(link).take(ref)
            if what is not None:
                news.append((link, what))
        return news

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._joined:
            ray.shutdown()


class RayHost:
    """Actor of one node. Drumline's records travel pickled: versions are compared before."""

    def __init__(self, version: str, spec: bytes):
        """`version` is the driver's Drumline."""
        own = versions_of(["drumline"])["drumline"]
        self._refusal = "" if own == version else _OTHER.format(f"drumline {own}", version)
        if not self._refusal:
            try:
                self._host = NodeHost(pickle.loads(spec))
            except (AttributeError, ImportError, TypeError) as error:
                self._refusal = _UNREADABLE.format(error)

    def tell(self, number: int, commands: bytes, *data: Any) -> None:
        """Take commands with their data."""
        if not self._refusal:
            self._host.tell(number, pickle.loads(commands), *data)

    def hear(self, seen: int, seconds: float) -> bytes | str:
        """Return the host's news, or in words why this node cannot take part."""
        return self._refusal or pickle.dumps(self._host.hear(seen, seconds), protocol=5)


def _read(said: bytes | str, number: int) -> Heard:
    refusal = said if isinstance(said, str) else ""
    if isinstance(said, bytes):
        try:
            return pickle.loads(said)
        except (AttributeError, ImportError, TypeError) as error:
            refusal = _UNREADABLE.format(error)
    return Heard(number, -1, time.perf_counter(), refused=refusal)


class RayLink:
    """Connection to the actor of one host."""

    def __init__(self, nodes: RayNodes, node: Node, actor: Any):
        self._nodes = nodes
        self._node = node
        self._actor = actor
        self._hearing: Any = None
        self._again_at = 0.0
        self._seen = -1
        self._outbox = Outbox(self._send, _fate)

    def tell(self, number: int, commands: Sequence[Command], data: Sequence[Any]) -> None:
        """Send commands with their data."""
        self._outbox.tell(number, list(commands), data)

    def _send(self, number: int, commands: Sequence[Command], data: Sequence[Any]) -> Any:
        return self._actor.tell.remote(number, pickle.dumps(commands, protocol=5), *data)

    def end(self) -> None:
        """Kill the actor; without a head it ends once its node has lost the driver."""
        if self._nodes.headless:
            return
        with suppress(exceptions.RayError):
            ray.kill(self._actor)

    def listen(self) -> Any:
        """Return the reference of the next news; None shortly after the host was out of reach."""
        self._outbox.repeat_failed()
        if self._hearing is None and time.perf_counter() >= self._again_at:
            self._hearing = self._actor.hear.remote(self._seen, _HEAR_SECONDS)
        return self._hearing

    def take(self, ref: Any) -> Heard | Lost | None:
        """Return the news that has arrived; None if it was lost on the way and is asked again."""
        self._hearing = None
        try:
            with _handlers_raise():
                said: Any = ray.get(ref)
            news = _read(said, self._seen + 1)
        except exceptions.ActorDiedError as error:
            return Lost(_cause(error), node_gone=self._nodes.is_gone(self._node))
        except exceptions.RayTaskError:
            raise
        except exceptions.RayError:  # the host may live: it is asked again
            self._again_at = time.perf_counter() + _AGAIN_SECONDS
            return None
        if news.number <= self._seen:
            return None
        self._seen = news.number
        self._outbox.carried_out(news.told)
        return news


class RayPlaces:
    """Nodes of the cluster for the groups of a run: its head is in this process."""

    def __init__(self, nodes: RayNodes):
        self._nodes = nodes
        self._placed: dict[int, str] = {}
        """Group → node, of the latest start of each."""
        self._losses: Counter[str] = Counter()
        """Groups that were lost on each node."""

    @property
    def host(self) -> str:
        """Address at which other nodes reach this process."""
        own = ray.get_runtime_context().get_node_id()
        return next(row["NodeManagerAddress"] for row in ray.nodes() if row["NodeID"] == own)

    def start(self, index: int, count: int, spec_on: Callable[[str], GroupSpec]) -> "RayGroup":
        """Start a group on the node that lost and has the fewest of them, the driver's node last.

        Each claims an equal share of its node's cores.
        """
        nodes = [node for node in self._nodes.present() if node.leaves_in is None]
        if not nodes:
            raise WorkersLost("the cluster has no node with cores: start one, then drumline resume")
        own = ray.get_runtime_context().get_node_id()
        placed = {group: node for group, node in self._placed.items() if group != index}
        taken = Counter([own, *placed.values()])

        def order(node: Node) -> tuple[int, int, bool, str, str]:
            return self._losses[node.id], taken[node.id], node.id == own, node.name, node.id

        node = min(nodes, key=order)
        self._placed[index] = node.id
        cores = node.cores // count if taken[node.id] else node.cores
        actor = (
            ray.remote(GroupHost)
            .options(
                num_cpus=cores,
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=2,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
            )
            .remote(spec_on(node.name))
        )
        return RayGroup(self._nodes, node, actor, self._losses)


class RayGroup:
    """A group on a node."""

    def __init__(self, nodes: RayNodes, node: Node, actor: Any, losses: Counter[str]):
        """`losses` counts the groups that each node has lost."""
        self._nodes = nodes
        self._losses = losses
        self.where = f"node {node.name}"
        self._node = node
        self._actor = actor
        self._ended = actor.ended.remote()
        self._cause: str | None = None

    def ended(self) -> str | None:
        """Return the cause of its end; None while it lives, as far as is known."""
        if self._cause is None and ray.wait([self._ended], timeout=0)[0]:
            try:
                self._cause = str(ray.get(self._ended))
            except exceptions.ActorUnavailableError:
                self._ended = self._actor.ended.remote()
            except exceptions.RayError as error:
                gone = self._nodes.is_gone(self._node)
                self._cause = NODE_LOST if gone else _cause(error)
        return self._cause

    def end(self, *, lost: bool = False) -> None:
        """Kill the actor; its process ends with it."""
        self._losses[self._node.id] += lost
        with suppress(exceptions.RayError):
            ray.kill(self._actor)


def _fate(receipt: Any) -> Fate:
    """Return whether a call of an actor has failed; a call that was carried out may have, too."""
    if not ray.wait([receipt], timeout=0)[0]:
        return Fate.UNKNOWN
    try:
        ray.get(receipt)
    except exceptions.ActorDiedError:
        return Fate.UNKNOWN  # the news of its end comes by `hear`
    except exceptions.RayTaskError:
        raise
    except exceptions.RayError:
        return Fate.FAILED
    return Fate.UNKNOWN


@contextmanager
def _handlers_raise() -> Generator[None]:
    """Raise what a signal handler raised inside a call of Ray, which may hide it as the cause."""
    try:
        yield
    except SystemError as error:
        if error.__cause__ is None:
            raise
        raise error.__cause__ from None


def _ray(link: Link) -> RayLink:
    assert isinstance(link, RayLink), "a cluster waits for its own links only"
    return link


def _not_joined(address: str, error: Exception) -> str:
    if not address:
        return f"Ray could not start a cluster on this machine: {_first_sentence(error)}"
    where = f"no Ray cluster was joined at --ray-address {address}"
    said = " ".join(str(error).split())
    if said.startswith("Version mismatch"):
        return f"{where}: {said}: install the cluster's versions here, or these on every node"
    if isinstance(error, exceptions.AuthenticationError):
        return f"{where}: {_first_sentence(error)}"
    if isinstance(error, ConnectionError):
        return (
            f"{where}, though something listens there: if the cluster asks for a token, set "
            "RAY_AUTH_MODE=token and give its token, in RAY_AUTH_TOKEN or ~/.ray/auth_token "
            f"({'a' if os.environ.get('RAY_AUTH_MODE') == 'token' else 'no'} token is given now; "
            f"Ray says: {_first_sentence(error)})"
        )
    return f"{where}: {_first_sentence(error)}"


def _own_cluster(cores: int, store_bytes: int) -> dict[str, Any]:
    return {
        "num_cpus": cores or None,
        "include_dashboard": False,
        "object_store_memory": store_bytes,
    }


def _silence() -> None:
    """Keep Ray from printing what happens to nodes on stdout, which may be read by a program."""
    from ray._private import worker  # there is no public switch

    switches: Any = worker
    switches._worker_logs_enabled = False


def _refuse_unreachable(address: str) -> None:
    """Refuse an address at which nothing listens, before Ray waits for it."""
    host, _, port = address.rpartition(":")
    if address.startswith("ray://") or not host or not port.isdigit():
        raise ValueError(
            f"--ray-address {address!r} is not host:port (or auto), as in 10.0.0.1:6379"
        )
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise ValueError(
            f"no Ray cluster answers at --ray-address {address} ({error.strerror or error}): start "
            "one there with ray start --head, or give the address that it printed"
        ) from error


def _draining() -> dict[str, int]:
    """Return the nodes that the cluster takes away soon, with the time in ms since the epoch."""
    from ray._private.state import state  # public nowhere; Ray's own libraries read it here

    try:
        return state.get_draining_nodes()
    except (AttributeError, exceptions.RayError):
        return {}


def _answers(address: str) -> bool:
    """Return whether something listens at host:port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _HEAD_ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


def _cause(error: BaseException) -> str:
    text = str(error)
    if any(words in text for words in ("low on memory", "memory pressure", "memory usage thresh")):
        return "Ray's memory monitor, because its node ran out of memory"
    return _first_sentence(error)


def _first_sentence(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
