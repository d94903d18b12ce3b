"""Traffic: bytes between the driver and each node, by update and kind."""

from collections import Counter

from drumline.types import NodeTraffic


class Traffic:
    """Counts of a pool, which a run takes after every update."""

    def __init__(self):
        self._sizes: dict[tuple[int, str], Counter[str]] = {}

    def add(self, update: int, node: str, **sizes: int) -> None:
        """Count bytes of some kinds, which are fields of `NodeTraffic`."""
        self._sizes.setdefault((update, node), Counter()).update(sizes)

    def take_all(self, update: int) -> list[NodeTraffic]:
        """Return what was counted since the call before as rows of this update, one for each node.

        For runs whose versions are not their updates.
        """
        sums: dict[str, Counter[str]] = {}
        for (_, node), sizes in sorted(self._sizes.items()):
            sums.setdefault(node, Counter()).update(sizes)
        self._sizes.clear()
        return [NodeTraffic(update, node, **sizes) for node, sizes in sums.items()]

    def take(self, update: int) -> list[NodeTraffic]:
        """Return the rows of all updates up to this one, and forget them."""
        taken = sorted(place for place in self._sizes if place[0] <= update)
        return [NodeTraffic(*place, **self._sizes.pop(place)) for place in taken]
