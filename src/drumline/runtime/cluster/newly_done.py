"""Finished tasks of a host since its latest news, in columns."""

from collections.abc import Sequence
from typing import Any

from drumline.protocols import Completed
from drumline.runtime.cluster.node_messages import Done
from drumline.runtime.messages import Failure


class NewlyDone:
    """Finished tasks since the latest news."""

    def __init__(self) -> None:
        self.serials: list[int] = []
        self.bytes = 0
        """Size of the results."""
        self._results: list[Any] = []
        self._began: list[float] = []
        self._ended: list[float] = []
        self._failures: dict[int, Failure] = {}

    def add(
        self,
        serials: Sequence[int],
        finished: Sequence[Completed],
        failed: tuple[int, Failure] | None,
    ) -> None:
        """Add finished tasks, and one that has failed."""
        self.serials += serials
        results: list[bytes | None] = [done.result for done in finished]
        self._results += results
        self.bytes += sum(len(result or b"") for result in results)
        self._began += [done.began for done in finished]
        self._ended += [done.ended for done in finished]
        if failed is not None:
            self.serials.append(failed[0])
            self._results.append(None)
            self._began.append(0.0)
            self._ended.append(0.0)
            self._failures[failed[0]] = failed[1]

    def columns(self) -> Done:
        """Return all of them."""
        return Done(self.serials, self._results, self._began, self._ended, self._failures)
