"""Deaths of hosts: which tasks are to blame, and when a node is given up.

A cluster notices the end of a process before it notices that the whole node is gone. So the tasks
of a host that ended are suspects only once another host speaks on the same node.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Set
from typing import NamedTuple

from drumline.runtime.deaths import STRIKES


class _End(NamedTuple):
    held: tuple[int, ...]
    cause: str


class HostDeaths:
    """Ends of hosts by node, and the strikes of the tasks that they held."""

    def __init__(self) -> None:
        self._unjudged: dict[str, list[_End]] = {}
        """Node → ends of its hosts that may still turn out to be the loss of the node."""
        self._strikes: dict[int, list[str]] = {}
        """Task → causes of the ends of hosts that held it on a node that lived on."""
        self._in_vain: Counter[str] = Counter()

    @property
    def any_suspects(self) -> bool:
        """Whether a task was there when a host ended on a node that lived on."""
        return bool(self._strikes)

    def is_suspect(self, serial: int) -> bool:
        """Whether a task was there when hosts ended, so often that it runs alone on one now."""
        return len(self._strikes.get(serial, ())) >= STRIKES - 1

    def ended(self, node: str, held: Iterable[int], cause: str) -> bool:
        """Note the end of a host; whether too many ended in a row without finishing a task.

        False where a task will be condemned for it, if the node lives on.
        """
        end = _End(tuple(held), cause)
        self._unjudged.setdefault(node, []).append(end)
        self._in_vain[node] += 1
        alone = len(end.held) == 1 and self.is_suspect(end.held[0])
        return self._in_vain[node] >= STRIKES and not alone

    def node_lives(self, node: str, opened: Set[int]) -> list[tuple[int, list[str]]]:
        """Blame the tasks that are still open for the ends on a node that lives on.

        Returns those that are condemned, with the causes: at the third end the task was alone.
        """
        condemned: list[tuple[int, list[str]]] = []
        for end in self._unjudged.pop(node, ()):
            for serial in opened & set(end.held):
                causes = self._strikes.setdefault(serial, [])
                causes.append(end.cause)
                # With others beside it, a task may be innocent.
                if len(causes) >= STRIKES and len(end.held) == 1:
                    condemned.append((serial, causes))
        return condemned

    def node_lost(self, node: str) -> None:
        """Forget the ends of hosts on a node that is gone: no task is to blame."""
        self._unjudged.pop(node, None)
        self._in_vain.pop(node, None)

    def only_on(self, nodes: Collection[str]) -> None:
        """Forget the ends of hosts on nodes that are not among these."""
        for node in self._unjudged.keys() - set(nodes):
            self.node_lost(node)

    def finished(self, node: str) -> None:
        """Note that a host of this node has finished a task."""
        self._in_vain.pop(node, None)

    def forget(self, serial: int) -> None:
        """Forget a task that has come back."""
        if self._strikes:
            self._strikes.pop(serial, None)

    def clear(self) -> None:
        """Forget every task."""
        self._strikes.clear()
        for ends in self._unjudged.values():
            ends.clear()
