"""Request to run a recipe, and the ledger and pools that every run makes from it."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from drumline.display.dashboard import Display
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.make import known_limit
from drumline.policies.spec import LATE_FIELDS, PolicySpec
from drumline.protocols import (
    Probe,
    PublishedLayout,
    Unwatched,
    Whereabouts,
    WorkerFactory,
    WorkerPool,
)
from drumline.runs.checkpoint import Checkpoint
from drumline.runs.folder import RunFolder
from drumline.runs.problem import problem_of, words_of
from drumline.runtime.cluster.group_messages import Places
from drumline.runtime.cluster.groups import ThisMachine
from drumline.runtime.cluster.node_checks import versions_of
from drumline.runtime.cluster.node_messages import Nodes, Proof
from drumline.runtime.cluster.node_pool import NodePool
from drumline.runtime.cluster.replicas import UpdateLog
from drumline.runtime.cluster.traffic import Traffic
from drumline.runtime.cores import usable_cores
from drumline.runtime.inline_pool import InlinePool
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.published import SLOTS
from drumline.runtime.shared_arrays import SharedArrays
from drumline.stores.mirror import Mirror
from drumline.training.callbacks import CallbackQueue
from drumline.training.cluster import proof_of
from drumline.training.layout import Layout
from drumline.training.ledger import Ledger
from drumline.training.run_identity import RunIdentity
from drumline.types import EvaluationRow
from drumline.workers.objective import Objective
from drumline.workers.one_family import for_own_process


def described(searched: EnvironmentSpec | Objective, policy: Any) -> dict[str, dict[str, Any]]:
    """Return the parts of a policy file's description from which a policy is evaluated again."""
    if isinstance(searched, Objective):
        objective = dataclasses.asdict(searched)
        if searched.members_per_call == 1:
            del objective["members_per_call"]
        return {"objective": objective}
    fields = dataclasses.asdict(policy)
    if isinstance(policy, PolicySpec) and not policy.convolutions:
        fields = {name: value for name, value in fields.items() if value or name not in LATE_FIELDS}
    return {"environment": dataclasses.asdict(searched), "policy": fields}


class RunConfig(Protocol):
    """Fields of a method's config that a run reads, whatever the method."""

    @property
    def env(self) -> str:
        """Gymnasium id, EnvPool id, or module:factory."""
        ...

    @property
    def seed(self) -> int:
        """Root of every random stream."""
        ...

    @property
    def total_steps(self) -> int:
        """Env steps of training after which the run ends."""
        ...

    @property
    def evaluate_every(self) -> int:
        """Updates between evaluations; 0: only at the end."""
        ...

    @property
    def evaluate_episodes(self) -> int:
        """Episodes of each evaluation."""
        ...

    @property
    def promise(self) -> bool:
        """Whether the run's first steps are repeated, and refused if their bits differ."""
        ...


class Run(Protocol):
    """A run that is assembled and has not begun."""

    def run(self) -> EvaluationRow | None:
        """Train to `total_steps`; returns the final evaluation. `Stopped` leaves a checkpoint."""
        ...


class Recipe(Protocol):
    """Result of a method's `build`: parts derived from its config, and the run for them."""

    def opened(self, request: "RunRequest") -> Run:
        """Return the run that trains with these parts."""
        ...


@dataclass(frozen=True)
class RunRequest:
    """Settings of one run of a recipe: its folder, layout and display, and its resume state."""

    folder: RunFolder
    layout: Layout
    display: Display
    resumed_from: Checkpoint | None = None
    probe_factory: Callable[[], Probe] | None = None
    whereabouts: Whereabouts = dataclasses.field(default_factory=Unwatched)
    """Note of the environment that the driver itself steps."""
    nodes: Nodes | None = None
    """The cluster of `--pool ray`."""
    mirror: Mirror | None = None
    """Copy of the run folder on an object store."""
    last_update: int | None = None
    """Update after which the run ends early; earlier updates do not change."""
    callbacks: CallbackQueue = dataclasses.field(default_factory=CallbackQueue)
    """Code of the user's own that is told what is recorded."""

    @property
    def inline(self) -> bool:
        """Whether tasks run in the driver's process."""
        return self.layout.pool == "inline"

    def ledger(
        self,
        config: RunConfig,
        searched: EnvironmentSpec | Objective,
        policy: Any,
        words: str,
        critics: Mapping[str, Any] | None = None,
    ) -> Ledger:
        """Return the run's ledger; `words` name the processes of a layout that is not inline.

        Where fewer cores than the machine's may be used, the title says by which bound.
        `searched` and `policy`, which an objective has none of, are dataclasses that the policy
        files hold field by field. `critics` describes those in the files, if there are some.
        """
        cores = usable_cores()
        processes = "inline" if self.inline else words
        identity = RunIdentity(
            method=self.folder.document["method"],
            env_id=problem_of(self.folder.document["config"]),
            seed=config.seed,
            total_steps=config.total_steps,
            words=words_of(self.folder.document["config"]),
            described={
                **described(searched, policy),
                **({} if critics is None else {"critics": dict(critics)}),
            },
            layout_words=f"{processes}; cores: {cores}" if cores.bound else processes,
            limited=isinstance(searched, Objective) or bool(known_limit(searched)),
        )
        parts = (identity, self.folder, self.layout, self.display, self.resumed_from)
        return Ledger(*parts, callbacks=self.callbacks, mirror=self.mirror)

    def _proof(self, worker: WorkerFactory) -> Proof | None:
        promised = self.folder.document["config"].get("promise")  # none where a class fixes it
        return proof_of(worker, self.layout) if promised else None

    def places(self) -> Places:
        """Return the machines for the run's groups."""
        return ThisMachine() if self.nodes is None else self.nodes.places()

    def pool(
        self,
        worker: WorkerFactory,
        published: PublishedLayout,
        *,
        size: int,
        role: str = "worker",
        versions: int = SLOTS,
        shared: SharedArrays | None = None,
        one_task_leases: bool = False,
        probed: bool = True,
        here: bool = False,
        updates: UpdateLog | None = None,
        traffic: Traffic | None = None,
    ) -> WorkerPool:
        """Return a pool of `size` processes, or of none; `probed`: faults may be planted in it.

        A size of 0 takes every core of a cluster. `here`: on this machine, also of a cluster.
        `updates` and `traffic` concern the nodes of a cluster.
        """
        probe_factory = self.probe_factory if probed else None
        if self.inline:
            return InlinePool(
                worker,
                published=published,
                versions=versions,
                shared=shared,
                probe_factory=probe_factory,
                role=role,
                whereabouts=self.whereabouts,
                where=problem_of(self.folder.document["config"]),
            )
        make = ProcessPool
        if self.nodes is not None and not here:
            make = partial(
                NodePool,
                nodes=self.nodes,
                claims_cores=role == "worker",  # evaluators share the cores of the rest
                proof=self._proof(worker),
                packages=versions_of(["drumline", *self.folder.document["computed_by"]]),
                updates=updates,
                traffic=traffic,
            )
        return make(
            for_own_process(worker, getattr(worker, "environment", None)),
            size=size,
            published=published,
            versions=versions,
            shared=shared,
            hang_seconds=self.layout.hang_seconds,
            creation_seconds=self.layout.creation_seconds,
            one_task_leases=one_task_leases,
            probe_factory=probe_factory,
            role=role,
            log=self.display.message,
        )
