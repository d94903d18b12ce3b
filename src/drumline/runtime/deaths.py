"""Judgement of a worker's death: tasks to issue again, and the task or worker to blame."""

from collections import Counter
from typing import Any, NamedTuple

from drumline.errors import TaskKilledWorkers, WorkersLost, about_hangs
from drumline.runtime.board import ANSWERING, CREATING, RUNNING, Status
from drumline.runtime.worker_process import WorkerProcess

STRIKES = 3
_LONGEST_NAME = 200


class Verdict(NamedTuple):
    """The verdict on one death."""

    again: list[tuple[int, Any]]
    """Unfinished tasks with their serials."""
    condemned: TaskKilledWorkers | None
    hopeless: WorkersLost | None
    line: str
    """Line for the log."""


class Deaths:
    """Memory of deaths: by task, and by worker index without an answered lease in between."""

    def __init__(self, role: str):
        self._role = role
        self._causes: dict[int, list[str]] = {}
        self._in_vain: Counter[int] = Counter()

    def worked(self, index: int) -> None:
        """Note that the worker with this index has answered a lease."""
        self._in_vain[index] = 0

    def judge(
        self, worker: WorkerProcess, cause: str, status: Status, withdrawn_below: int
    ) -> Verdict:
        """Return the verdict on a death; only the running (or last) task is to blame."""
        unfinished = {
            serial: task
            for lease in worker.leases
            for serial, task in zip(lease.serials, lease.tasks, strict=True)
            if serial >= withdrawn_below
        }
        condemned: TaskKilledWorkers | None = None
        hopeless: WorkersLost | None = None
        # A worker has leases once it is built: then a task builds, or opens an environment.
        created = status.phase == CREATING and not worker.leases
        busy = status.phase in (RUNNING, ANSWERING) or (status.phase == CREATING and not created)
        doing = "building its worker" if created else "waiting"
        if busy and status.serial in unfinished:
            task = unfinished[status.serial]
            doing = f"running {_short(task)}"
            causes = self._causes.setdefault(status.serial, [])
            causes.append(cause)
            if len(causes) == STRIKES:
                condemned = TaskKilledWorkers(unfinished.pop(status.serial), causes)
        # A worker that dies idle has failed at no task.
        if created or (unfinished and not busy):
            self._in_vain[worker.index] += 1
            if self._in_vain[worker.index] == STRIKES:
                hopeless = WorkersLost(
                    f"{self._role} {worker.index} ended {STRIKES} times in a row without "
                    f"finishing a task, the last time by {cause} while {doing}; "
                    f"its standard error output may say why{about_hangs([cause])}"
                )
        line = (
            f"{self._role} {worker.index} (pid {worker.pid}) ended by {cause} while {doing}; "
            f"{len(unfinished)} tasks issued again"
        )
        return Verdict(list(unfinished.items()), condemned, hopeless, line)


def _short(task: object) -> str:
    name = repr(task)
    return name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"
