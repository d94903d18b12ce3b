"""The cluster of a run with `--pool ray`, joined before its first pool is made."""

import logging
from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import Any

from drumline.errors import TaskKilledWorkers, WorkerError, WorkersLost
from drumline.runtime.cluster.node_checks import answer_of, processor
from drumline.runtime.cluster.node_messages import Nodes, Proof
from drumline.runtime.cores import available_cores
from drumline.runtime.portable import by_reference
from drumline.training.layout import Layout
from drumline.workers.objective_worker import ObjectiveSpec
from drumline.workers.proof import ProofSpec

_LOGGER = logging.getLogger(__name__)


@contextmanager
def joined(layout: Layout) -> Generator[Nodes | None]:
    """Join the cluster that a layout names, or start one here; None for a pool without nodes."""
    if layout.pool != "ray":
        yield None
        return
    from drumline.runtime.cluster.ray_pool import RayNodes

    cores = max(layout.workers, available_cores())
    with closing(RayNodes(layout.ray_address, cores)) as nodes:
        yield nodes


def proof_of(worker: Any, layout: Layout) -> Proof | None:
    """Return the known answer for nodes that run such workers.

    None, and a line, if it cannot be computed here.
    """
    if isinstance(worker, ObjectiveSpec):
        spec = worker.proof()
    else:
        spec = ProofSpec(worker.environment, worker.policy, getattr(worker, "low_rank", None))
    factory = by_reference(spec, "the proof of a node")
    try:
        answer = _answer(factory, layout.creation_seconds, layout.hang_seconds)
    except (WorkerError, TaskKilledWorkers, WorkersLost) as error:
        _LOGGER.warning(
            "nodes are taken by their packages alone, without a known answer to compare: it cannot "
            "be computed here (%s)",
            str(error).splitlines()[0],
        )
        return None
    return Proof(factory, answer, processor())


_answer = lru_cache(maxsize=8)(answer_of)  # the pools of a run ask for the same one
