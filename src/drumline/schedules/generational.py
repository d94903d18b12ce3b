"""Generations: members are asked, evaluated in any order, folded by index and told.

    publish θ_g ─ submit generation g (and the evaluation of version g) ─ record generation g − 1
    while the workers run ─ collect ─ tell ─ publish θ_{g+1} …

The recording of a generation costs no waiting: it happens between submitting and collecting.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from drumline.protocols import Completed, GenerationStrategy, WorkerPool
from drumline.schedules.asked_tasks import refuse_wrong
from drumline.schedules.rehearsals import Rehearsals
from drumline.tasks import Evaluate, Evaluation, Rehearsal
from drumline.types import Metrics


@dataclass(frozen=True)
class GenerationPlan:
    """Settings that stay constant for all generations of a run."""

    population_size: int
    minimum_env_steps: int = 0
    """Add blocks of `population_size` members until they have made this many env steps."""
    rehearse: bool = True
    """Run the first task twice more in each of two workers, after other tasks; ImpureEnvironment
    if bits differ."""
    objective: str = ""
    """Name of the objective that is called; empty: tasks are episodes."""
    members_per_call: int = 1
    """Above 1 a member's bits are those of its group, and a rehearsal is of one member alone."""

    def __post_init__(self) -> None:
        if self.population_size < 1:
            raise ValueError(f"population_size must be at least 1, got {self.population_size}")


@dataclass(frozen=True)
class Generation:
    """One finished generation; `update` counts the tells, this one included."""

    update: int
    members: Sequence[Evaluation]
    """Results by member; members after the last counted block are left out."""
    evaluated: Sequence[Evaluation]
    """The scheduled evaluation of version `update − 1`, by episode; empty if none was due."""
    metrics: Metrics
    env_steps: int
    env_steps_discarded: int
    """Env steps of uncounted members and of rehearsals; depends on the layout, like wall time."""
    generation_seconds: float
    update_seconds: float
    update_core_seconds: float


def generational(
    strategy: GenerationStrategy,
    pool: WorkerPool,
    plan: GenerationPlan,
    *,
    first_version: int,
    evaluation: Callable[[int], Sequence[Evaluate]],
    finished: Callable[[int, int], bool],
    before_tell: Callable[[Sequence[Evaluation]], None] = lambda evaluated: None,
    env_steps: int = 0,
    name: str = "",
) -> Iterator[Generation]:
    """Yield generations until `finished(update, env_steps)`; the consumer may stop at any yield.

    At a yield, the strategy's learned state is that after `update` tells, while workers already run
    the next generation. Its tasks are pure functions, so they can be run again. `before_tell` sees
    an evaluation while the strategy still holds the evaluated version. `name`: the strategy's name
    in errors; that of its class, if none is given.
    """
    version, previous = first_version, None
    name = name or type(strategy).__name__
    rehearse = plan.rehearse
    while not finished(version, env_steps):
        began = time.perf_counter()
        pool.publish(version, strategy.published())
        collector = _Collector(strategy, pool, plan, version, name)
        collector.begin(evaluation(version), rehearse=rehearse)
        rehearse = False
        if previous is not None:
            yield previous
        collector.collect()
        before_tell(collector.evaluated())
        tell_began, cpu_began = time.perf_counter(), time.process_time()
        members = collector.members()
        metrics = strategy.tell(members)
        tell_seconds = time.perf_counter() - tell_began
        version += 1
        steps = sum(member.length for member in members)
        env_steps += steps
        previous = Generation(
            update=version,
            members=members,
            evaluated=collector.evaluated(),
            metrics=metrics,
            env_steps=steps,
            env_steps_discarded=collector.steps_seen - steps,
            generation_seconds=time.perf_counter() - began,
            update_seconds=tell_seconds,
            update_core_seconds=time.process_time() - cpu_began,
        )
    if previous is not None:
        yield previous


class _Collector:
    """Collector of one generation: arrived blocks, and the blocks to begin ahead of time."""

    def __init__(
        self,
        strategy: GenerationStrategy,
        pool: WorkerPool,
        plan: GenerationPlan,
        version: int,
        name: str,
    ):
        self._strategy = strategy
        self._name = name
        self._pool = pool
        self._plan = plan
        self._version = version
        self._training: dict[int, Evaluation] = {}
        self._evaluated: dict[int, Evaluation] = {}
        self._asked = 0
        self._waiting_evaluations = 0
        self._rehearsals: Rehearsals | None = None
        self._first_member = 0
        self._unbroken = 0
        """Members 0 … `_unbroken` − 1 have arrived."""
        self._blocks_counted = 0
        self._steps_counted = 0
        self._steps_known = 0
        self.steps_seen = 0

    def begin(self, evaluation: Sequence[Evaluate], *, rehearse: bool) -> None:
        """Submit the first block, then the evaluation, whose long episodes share the tail."""
        self._waiting_evaluations = len(evaluation)
        self._pool.submit(evaluation)
        first = self._ask_block()
        if rehearse:
            between = first[min(1, len(first) - 1)]
            self._rehearsals = Rehearsals(self._pool, first[0], between, self._plan.objective)
            self._rehearsals.begin()
            self._first_member = first[0].member

    def collect(self) -> None:
        """Wait until the generation and all tasks submitted beside it have arrived."""
        while not self._complete():
            if self._hungry():
                self._ask_block()
            self._take(self._pool.completed())
        if self._asked > self._blocks_counted * self._plan.population_size:
            self._pool.withdraw()
        if self._rehearsals is not None and self._plan.members_per_call == 1:
            self._rehearsals.compare_first(self._training[self._first_member])

    def members(self) -> list[Evaluation]:
        """Return the members of the counted blocks, by index."""
        count = self._blocks_counted * self._plan.population_size
        return [self._training[member] for member in range(count)]

    def evaluated(self) -> list[Evaluation]:
        """Return the evaluation's episodes, by index."""
        return [self._evaluated[episode] for episode in range(len(self._evaluated))]

    def _ask_block(self) -> Sequence[Evaluate]:
        count, asked = self._plan.population_size, self._asked
        tasks = self._strategy.ask(count)
        members = range(asked, asked + count)
        refuse_wrong(self._name, tasks, version=self._version, members=members)
        self._asked += count
        self._pool.submit(tasks)
        return tasks

    def _take(self, finished: Sequence[Completed]) -> None:
        version, training, steps = self._version, self._training, 0
        for done in finished:
            task, result, withdrawn, _, _ = done
            ours = type(result) is Evaluation and not withdrawn
            if ours and task.training and task.version == version:
                training[result.member] = result
                steps += result.length
            else:
                self._take_other(done)
        self.steps_seen += steps
        self._steps_known += steps

    def _take_other(self, done: Completed) -> None:
        """Take anything but a member of this generation."""
        result = done.result
        if isinstance(result, Rehearsal):
            assert self._rehearsals is not None, "only a rehearsing generation submits them"
            self.steps_seen += self._rehearsals.take(done)
            return
        if not isinstance(result, Evaluation):
            return
        if done.withdrawn or done.task.version != self._version:
            self.steps_seen += result.length
            return
        self._evaluated[result.member] = result

    def _complete(self) -> bool:
        """Count whole blocks in index order up to the first that reaches the minimum."""
        size = self._plan.population_size
        while self._unbroken in self._training:
            self._unbroken += 1
        while not self._enough():
            block = range(self._blocks_counted * size, (self._blocks_counted + 1) * size)
            if self._unbroken < block.stop:
                return False
            self._blocks_counted += 1
            self._steps_counted += sum(self._training[member].length for member in block)
        rehearsals = self._rehearsals
        if rehearsals is not None and not rehearsals.ended:
            return False
        return len(self._evaluated) == self._waiting_evaluations

    def _enough(self) -> bool:
        return self._blocks_counted > 0 and self._steps_counted >= self._plan.minimum_env_steps

    def _hungry(self) -> bool:
        """Whether workers would idle although the submitted blocks may not be enough."""
        missing = self._steps_known < self._plan.minimum_env_steps
        return missing and self._asked - len(self._training) < 2 * self._pool.size
