"""RayCluster: this process's membership of a Ray cluster, and the nodes that are alive there."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (Ray's annotations are partial)

import logging
import os
import signal
import socket
import time
from contextlib import suppress
from typing import Any

import ray
from ray import exceptions

from drumline.errors import WorkersLost
from drumline.runtime.cluster.node_messages import Node

_CONNECT_SECONDS = 5.0
_HEAD_ANSWER_SECONDS = 1.0
STORE_BYTES = 512 << 20
_HEAD_SECONDS = 30.0
"""Time for which a run goes on without the cluster's head. Ray ends the process after 60 s."""


class RayCluster:
    """A Ray cluster that this process has joined, or has started on this machine."""

    def __init__(self, address: str = "", cores: int = 0, store_bytes: int = STORE_BYTES):
        """Join the cluster at `address` (host:port, or auto); empty: start one of `cores` here."""
        self._rows: list[dict[str, Any]] = []
        """Ray's rows of the nodes, as they were when the head last answered."""
        self._asked_head = self._heard_of_head = time.perf_counter()
        self._joined = not ray.is_initialized()
        """Whether this object joined; a program that has joined by itself stays so."""
        if not self._joined:
            self.own_node = ray.get_runtime_context().get_node_id()
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
        self.own_node = ray.get_runtime_context().get_node_id()

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
        return sorted(usable, key=lambda node: (node.id != self.own_node, node.name, node.id))

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

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._joined:
            ray.shutdown()


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
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
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


def cause_of(error: BaseException) -> str:
    """Return in words why an actor ended."""
    text = str(error)
    if any(words in text for words in ("low on memory", "memory pressure", "memory usage thresh")):
        return "Ray's memory monitor, because its node ran out of memory"
    return _first_sentence(error)


def _first_sentence(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
