"""Layout: processes, threads and pools of a run. None of it changes a result."""

from dataclasses import dataclass
from typing import Literal

from drumline.runtime.cores import available_cores
from drumline.training.value_kinds import refuse_other_kinds


@dataclass(frozen=True)
class Layout:
    """Flags that change speed and never a bit of the result."""

    workers: int = 0
    """Processes that do work; 0 for one per available core."""
    pool: Literal["process", "inline", "ray"] = "process"
    """Run tasks in worker processes, in this one, or on the nodes of a Ray cluster."""
    ray_address: str = ""
    """With --pool ray: the cluster's host:port, or auto for that of this machine; empty: start a
    cluster on this machine for this run."""
    hang_seconds: float = 60.0
    """Seconds for which a worker's progress may stand still before it is killed and replaced."""
    creation_seconds: float = 300.0
    """Seconds for which the making of an environment, its first reset and step, or one step of its
    restore may take before the worker is killed and replaced; at least --hang-seconds. A restore as
    a whole may last longer."""
    checkpoint_minutes: float = 2.0
    """Minutes between checkpoints; one is always written at the start and at the end."""
    tensorboard: bool = True
    """Write TensorBoard events beside the CSV files."""
    grace_seconds: float = 25.0
    """With --store: seconds after a signal to stop within which the last checkpoint is uploaded."""

    def __post_init__(self) -> None:
        refuse_other_kinds(self)
        if self.workers < 0:
            raise ValueError(f"--workers must be 1 or more (0: one per core), got {self.workers}")
        if self.ray_address and self.pool != "ray":
            raise ValueError(f"--ray-address {self.ray_address} goes with --pool ray")
        for name in ("hang_seconds", "creation_seconds", "checkpoint_minutes", "grace_seconds"):
            if not (value := getattr(self, name)) > 0:  # rejects NaN, too; infinity means never
                raise ValueError(f"--{name.replace('_', '-')} must be above 0, got {value}")

    @property
    def worker_count(self) -> int:
        """Return the number of workers, resolved; 0: one for each core of a cluster."""
        if self.pool == "ray":
            return self.workers
        return 1 if self.pool == "inline" else self.workers or available_cores()

    @property
    def workers_in_words(self) -> str:
        """Return the number of workers with its noun."""
        count = f"{self.worker_count} workers" if self.worker_count else "a worker per core"
        return f"{count} of a Ray cluster" if self.pool == "ray" else count

    @property
    def training_in_words(self) -> str:
        """Return the place of the training itself, as the end of a sentence about it."""
        return f"on {self.workers_in_words}"

    def processes_for(self, concurrency: int) -> int:
        """Return the number of processes for so many logical workers and a critic, resolved."""
        if self.pool == "inline":
            return 1
        return self.workers or min(available_cores(), concurrency + 1)


@dataclass(frozen=True)
class StreamLayout(Layout):
    """The layout of methods whose environment is stepped in the learner's own process."""

    workers: int = 0
    """Processes that run the episodes of evaluations; 0 for one per available core. Training itself
    is done in this process."""
    pool: Literal["process", "inline", "ray"] = "process"
    """Run evaluations in worker processes, in this one, or on the nodes of a Ray cluster."""

    @property
    def training_in_words(self) -> str:
        """Return the place of the training itself: workers run evaluations only."""
        return "in one process"


@dataclass(frozen=True)
class SearchLayout(Layout):
    """The layout of methods whose update is a sum over noise, a tile of parameters at a time."""

    update_threads: int = 0
    """Threads that the update's parameter tiles are spread over; 0 for one per core."""
    keep_scalars: bool = False
    """Log what every generation was told, so that `drumline rebuild` can make its parameters again:
    24 bytes for each episode, and 16 · observation size for each that enters the moments."""

    parameters: Literal["broadcast", "replicas"] = "broadcast"
    """With --pool ray: send every node the parameters of each generation, or what the search was
    told, from which a replica of the search on each node makes the same parameters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.update_threads < 0:
            raise ValueError(f"--update-threads must be 0 or more, got {self.update_threads}")
        if self.parameters == "replicas" and self.pool != "ray":
            raise ValueError(
                "--parameters replicas goes with --pool ray: the processes of one machine share "
                "the parameters"
            )

    @property
    def update_thread_count(self) -> int:
        """Return the number of update threads, resolved."""
        return self.update_threads or available_cores()


@dataclass(frozen=True)
class ExecutorLayout(Layout):
    """The layout of methods whose environments are stepped by executors."""

    pool: Literal["process", "inline"] = "process"
    """Step environments in executor processes, or in this one."""
    workers: int = 0
    """Processes that step environments: short for --executors; 0 for one for each core that the
    learner leaves, at least one."""
    executors: int = 0
    """Processes that step environments; 0 for --workers, or else one for each core that the learner
    leaves, at least one (hts: one for each core where steps are known to take much longer, or where
    a network for images is on a GPU)."""
    engine_threads: int = 0
    """Threads of the EnvPool of each process that steps environments; 0: the measured default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.executors < 0:
            raise ValueError(f"--executors must be 0 or more, got {self.executors}")
        if self.engine_threads < 0:
            raise ValueError(f"--engine-threads must be 0 or more, got {self.engine_threads}")

    @property
    def cores(self) -> int:
        """Return the cores for the processes of this machine, or of a group on it."""
        return available_cores()

    def executors_for(self, environments: int) -> int:
        """Return the number of executors, resolved."""
        return self._asked(environments) or min(max(1, self.cores - 1), environments)

    def executors_on_all_cores(self, environments: int) -> int:
        """Return the number of executors where the learner shares a core with one."""
        return self._asked(environments) or min(self.cores, environments)

    def engine_threads_beside(self, learner: str, executors: int) -> int:
        """Return the threads of an executor's EnvPool while `learner` learns, resolved.

        A2C's one pass is shorter than the simulation, whose threads then find cores free; PPO's
        epochs are longer, and a thread more takes from them (docs/measured/hts-rl.md).
        """
        share = max(1, self.cores // executors) if learner == "a2c" else 1
        return self.engine_threads or share

    def _asked(self, environments: int) -> int:
        asked = self.executors or self.workers
        if asked > environments:
            flag = "executors" if self.executors else "workers"
            raise ValueError(
                f"--{flag} {asked} is more than the {environments} environments: "
                "raise --num-envs or ask for fewer"
            )
        return asked


@dataclass(frozen=True)
class ActorLayout(ExecutorLayout):
    """The layout of methods with executors, and with actors that may run the policy for them."""

    actors: int = 0
    """Processes that run the policy for the executors; 0: each executor runs it itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.actors < 0:
            raise ValueError(f"--actors must be 0 or more, got {self.actors}")


@dataclass(frozen=True)
class GroupedLayout(ExecutorLayout):
    """The layout of methods that may learn on several nodes, each with whole shards."""

    pool: Literal["process", "inline", "ray"] = "process"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Step environments in executor processes, or in this one; ray: as process, and the groups of
    --nodes are placed on the nodes of a Ray cluster."""
    nodes: int = 1
    """Groups that each step an equal part of the environments and learn from its shards; it must
    divide --learners. Executors, workers and actors are counted in each group."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes < 1:
            raise ValueError(f"--nodes must be 1 or more, got {self.nodes}")
        if self.nodes > 1 and self.pool == "inline":
            raise ValueError(f"--nodes {self.nodes} needs processes: leave --pool inline out")
        if self.nodes == 1 and self.pool == "ray":
            raise ValueError("--pool ray needs --nodes 2 or more here: one group for each node")

    @property
    def cores(self) -> int:
        """Return the cores for one group: groups of --pool process share this machine."""
        shared = self.nodes if self.pool == "process" else 1
        return max(1, available_cores() // shared)

    def environments_of_a_group(self, environments: int, learners: int) -> int:
        """Return the number of environments of one group; ValueError if shards would be cut."""
        if learners % self.nodes:
            raise ValueError(
                f"--nodes {self.nodes} must divide --learners {learners}, because a node owns "
                f"whole shards (a new run may have --learners {self.nodes})"
            )
        return environments // self.nodes

    def in_words(self, one: str) -> str:
        """Return the description of the groups' processes; `one` is that of one group's."""
        if self.nodes == 1:
            return one
        where = "of a Ray cluster" if self.pool == "ray" else "on this machine"
        return f"{self.nodes} groups {where}, each {one}"


@dataclass(frozen=True)
class RotationLayout(GroupedLayout, ActorLayout):  # pyright: ignore[reportIncompatibleVariableOverride]
    """The layout of HTS-RL."""

    barrier: Literal["sliding", "hard"] = "sliding"
    """Start of an environment's next interval: when the new policy is published, or (the paper's)
    when all environments have also finished this one."""


@dataclass(frozen=True)
class LockstepLayout(GroupedLayout):
    """The layout of methods that step all environments together."""

    workers: int = 0
    """Processes that step environments: short for --executors; 0 for none, this process steps them
    itself."""
    executors: int = 0
    """Processes that step environments; 0 for --workers, or else none: this process steps them
    itself (EnvPool's on a thread per core), which is faster unless one step takes long."""
    halves: Literal[1, 2] = 1
    """With executors: 2 steps one half of the environments while the driver answers the other."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.halves == 2 and not (self.executors or self.workers):
            raise ValueError(
                "--halves 2 goes with --executors (or --workers): without them this process steps "
                "all environments together"
            )

    def executors_for(self, environments: int) -> int:
        """Return the number of executor processes, resolved; 0: this process."""
        return self._asked(environments)


@dataclass(frozen=True)
class SteadyLayout(Layout):
    """The layout of methods whose logical workers run on a pool of processes."""

    workers: int = 0
    """Processes that do work; 0: one per logical worker and one for the critic, which take turns
    where there are fewer cores."""

    def processes_for(self, concurrency: int) -> int:
        """Return the number of processes, resolved."""
        return 1 if self.pool == "inline" else self.workers or concurrency + 1
