"""A cluster inside this process: every host is served by threads, and nodes come and go."""

import queue
import threading
from collections.abc import Sequence
from typing import Any

from drumline.runtime.cluster.node_host import NodeHost
from drumline.runtime.cluster.node_messages import Close, Command, Heard, HostSpec, Link, Lost, Node
from drumline.runtime.cluster.outbox import Fate, Outbox


class ThreadNodes:
    """`Nodes` whose losses a test decides; `nodes` may be changed at any time."""

    def __init__(self, *cores: int):
        self.nodes = [Node(f"node-{k}", f"10.0.0.{k}", count) for k, count in enumerate(cores)]
        self.links: list[ThreadLink] = []
        self.puts = 0
        self._news: queue.Queue[tuple[Link, Heard | Lost]] = queue.Queue()
        self._others: list[tuple[Link, Heard | Lost]] = []
        """News of another pool's hosts."""

    def present(self) -> list[Node]:
        return list(self.nodes)

    def start(self, node: Node, spec: HostSpec, cores: int) -> "ThreadLink":
        self.links.append(ThreadLink(node, spec, cores, self._news))
        return self.links[-1]

    def put(self, value: Any) -> Any:
        self.puts += 1
        return value

    def wait(self, links: Sequence[Link], seconds: float) -> list[tuple[Link, Heard | Lost]]:
        for link in self.links:
            link.outbox.repeat_failed()
        self._others += self._arrived(0.0)
        if not any(link in links for link, _ in self._others):
            self._others += self._arrived(seconds)
        found = [(link, news) for link, news in self._others if link in links]
        self._others = [(link, news) for link, news in self._others if link not in links]
        return found

    def _arrived(self, seconds: float) -> list[tuple[Link, Heard | Lost]]:
        found: list[tuple[Link, Heard | Lost]] = []
        try:
            found.append(self._news.get(timeout=seconds) if seconds else self._news.get_nowait())
            while True:
                found.append(self._news.get_nowait())
        except queue.Empty:
            return found

    def lose(self, node: Node) -> None:
        """Take a node away, with all that runs there."""
        self.nodes.remove(node)
        for link in self.links:
            if link.node.id == node.id:
                link.lose(node_gone=True)


class ThreadLink:
    """A host in this process."""

    def __init__(self, node: Node, spec: HostSpec, cores: int, news: queue.Queue[Any]):
        self.node = node
        self.cores = cores
        self.told: list[Command] = []
        self.host = NodeHost(spec)
        self.lost_messages: set[int] = set()
        """Messages that fail on their way, once each."""
        self._failed: list[int] = []
        self.outbox = Outbox(self._send, lambda receipt: receipt)
        self.muted = threading.Event()
        """Set: nothing of the host arrives, as if its network were cut."""
        self._news = news
        self._gone = False
        self._tells = 0
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def tell(self, number: int, commands: Sequence[Command], data: Sequence[Any]) -> None:
        self._tells = number + 1
        self.told += commands
        self.outbox.tell(number, commands, data)

    def _send(self, number: int, commands: Sequence[Command], data: Sequence[Any]) -> Fate:
        if number in self.lost_messages:
            self.lost_messages.remove(number)
            self._failed.append(number)
            return Fate.FAILED
        self.host.tell(number, commands, *data)
        return Fate.UNKNOWN

    def end(self) -> None:
        self._gone = True
        for number in self._failed:
            self.host.tell(number, [])
        self.host.tell(self._tells, [Close()])
        self._thread.join()

    def lose(self, *, node_gone: bool) -> None:
        """Let the host be lost: nothing that it says from now on arrives."""
        self._gone = True
        self._news.put((self, Lost("a test", node_gone)))

    def _listen(self) -> None:
        seen, closed = -1, False
        while not closed:
            heard = self.host.hear(seen, 0.05)
            seen = heard.number
            self.outbox.carried_out(heard.told)
            closed = heard.closed or bool(heard.refused or heard.hopeless or heard.unbuilt)
            while self.muted.is_set() and not self._gone:
                self.muted.wait(0.001)
            if not self._gone or closed:
                self._news.put((self, heard))
