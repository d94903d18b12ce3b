"""Commands that keep the replicas of a node pool at the driver's version, and their comparison."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from drumline.runtime.cluster.node_messages import Advance, Command, Seed
from drumline.runtime.cluster.replicas import UpdateLog, digest_of
from drumline.runtime.published import PublishedSlots

INLINE_BYTES = 64 << 10
"""Records of at most this size travel with the command; larger ones are stored once for all."""


class Steps(NamedTuple):
    """Commands and data for one replica, and their bytes by kind."""

    commands: list[Command]
    data: list[Any]
    sizes: Mapping[str, int]


class ReplicaCommands:
    """Commands for replicas of any version; bases and long records are stored once for all."""

    def __init__(self, updates: UpdateLog, put: Callable[[Any], Any]):
        self._updates = updates
        self._put = put
        self._stored: dict[tuple[int, int], Any] = {}
        self._digests: dict[int, bytes] = {}

    @property
    def version(self) -> int:
        """Return the newest version."""
        return self._updates.version

    def steps(self, since: int | None) -> Steps:
        """Return the steps from version `since` to the newest; None: the replica has no state."""
        newest, route = self._updates.version, self._updates.route(since)
        if since == newest:
            return Steps([], [], {})
        commands: list[Command] = []
        data: list[Any] = []
        parameters = 0
        if route.base is not None:
            commands.append(Seed())
            data.append(self._once((-1, route.base_version), route.base))
            parameters = sum(array.nbytes for array in route.base.tensors.values())
        records = [record.data for record in route.records]
        size = sum(map(len, records))
        small = size <= INLINE_BYTES
        data.append(records if small else self._once((route.base_version, newest), records))
        moments = sum(record.moments_bytes for record in route.records)
        sizes = {"parameters": parameters, "results": size - moments, "moments": moments}
        return Steps([*commands, Advance(newest)], data, sizes)

    def differs(self, version: int, digest: bytes, slots: PublishedSlots) -> bool:
        """Whether a replica's digest is not that of the driver's version, if that is still held."""
        if version not in self._digests:
            held = slots.held()
            self._digests = {v: known for v, known in self._digests.items() if v in held}
            if version not in held:
                return False
            self._digests[version] = digest_of(slots.read(version))
        return digest != self._digests[version]

    def _once(self, key: tuple[int, int], value: Any) -> Any:
        """Store a value for all nodes; it is kept for those that need it in the same version."""
        if key not in self._stored:
            base = self._updates.route(None).base_version
            self._stored = {k: v for k, v in self._stored.items() if k == (-1, base)}
            self._stored[key] = self._put(value)
        return self._stored[key]
