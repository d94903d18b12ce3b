"""GroupHost: holds the process of a group on a node of a cluster, and says when it has ended."""

import threading
import time

from drumline.runtime.cluster.group_messages import GroupSpec
from drumline.runtime.cluster.groups import LocalGroup
from drumline.runtime.cluster.node_checks import set_arithmetic_variables

_LOOK_SECONDS = 0.2


class GroupHost:
    """Starts the group in a thread that lives as long, because the kernel ends both together."""

    def __init__(self, spec: GroupSpec):
        self._spec = spec
        self._cause = ""
        self._over = threading.Event()
        threading.Thread(target=self._run, name="drumline-group", daemon=True).start()

    def ended(self) -> str:
        """Return the cause of the group's end, once it has ended."""
        self._over.wait()
        return self._cause

    def _run(self) -> None:
        set_arithmetic_variables(self._spec.variables)
        try:
            group = LocalGroup(self._spec)
            while (cause := group.ended()) is None:
                time.sleep(_LOOK_SECONDS)
            self._cause = cause
        except OSError as error:
            self._cause = f"{type(error).__name__}: {error}"
        self._over.set()
