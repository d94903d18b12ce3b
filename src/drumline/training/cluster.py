"""The cluster of a run with `--pool ray`, joined before its first pool is made."""

from collections.abc import Generator
from contextlib import closing, contextmanager

from drumline.runtime.cores import available_cores
from drumline.runtime.node_messages import Nodes
from drumline.training.layout import Layout


@contextmanager
def joined(layout: Layout) -> Generator[Nodes | None]:
    """Join the cluster that a layout names, or start one here; None for a pool without nodes."""
    if layout.pool != "ray":
        yield None
        return
    from drumline.runtime.ray_pool import RayNodes

    cores = max(layout.workers, available_cores())
    with closing(RayNodes(layout.ray_address, cores)) as nodes:
        yield nodes
