"""The cluster of a run with `--pool ray`, joined before its first pool is made."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import Any

from drumline.errors import TaskKilledWorkers, WorkerError, WorkersLost
from drumline.runtime.cores import available_cores
from drumline.runtime.node_checks import answer_of, processor
from drumline.runtime.node_messages import Nodes, Proof
from drumline.runtime.portable import by_reference
from drumline.training.layout import Layout
from drumline.workers.objective import ObjectiveSpec
from drumline.workers.proof import ProofSpec


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


def proof_of(worker: Any, layout: Layout) -> Proof | None:
    """Return the known answer for nodes that run such workers.

    None if it cannot be computed here: the run itself then says what is wrong.
    """
    if isinstance(worker, ObjectiveSpec):
        spec = worker.proof()
    else:
        spec = ProofSpec(worker.environment, worker.policy, getattr(worker, "low_rank", None))
    factory = by_reference(spec, "the proof of a node")
    try:
        answer = _answer(factory, layout.creation_seconds, layout.hang_seconds)
    except (WorkerError, TaskKilledWorkers, WorkersLost):
        return None
    return Proof(factory, answer, processor())


_answer = lru_cache(maxsize=8)(answer_of)  # the pools of a run ask for the same one
