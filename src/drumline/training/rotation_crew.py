"""The crew of executors and actors of a run, or of one of its groups."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drumline.buffers.rollout import RolloutStorage
from drumline.protocols import Learner, Probe, Whereabouts
from drumline.runtime.crews.inline_crew import InlineCrew
from drumline.runtime.crews.process_crew import ProcessCrew
from drumline.training.actor_critic_parts import ActorCriticParts
from drumline.training.course import Course
from drumline.training.layout import Layout
from drumline.training.staff import Staff
from drumline.workers.executor import ExecutorStart
from drumline.workers.one_family import for_own_process


class RotationCrew:
    """Makes a crew, and says where its roles take up their work."""

    def __init__(self, parts: ActorCriticParts, staff: Staff, course: Course, learner: Learner):
        self._parts = parts
        self._staff = staff
        self._course = course
        self._learner = learner
        self._crew: Any = None

    def made(
        self,
        layout: Layout,
        *,
        probe_factory: Callable[[], Probe] | None,
        log: Callable[[str], None],
        tick: Callable[[], None],
        whereabouts: Whereabouts | None = None,
    ) -> Any:
        """Return the crew; ValueError, naming the flags, if its storages do not fit in memory."""
        try:
            self._crew = self._of_staff(layout, probe_factory, log, tick, whereabouts)
        except MemoryError as error:
            config = self._parts.config
            flags = f"--num-envs {config.num_envs} and --alpha {config.alpha}"
            raise ValueError(f"{error}; that is what {flags} need") from error
        return self._crew

    def _of_staff(
        self,
        layout: Layout,
        probe_factory: Callable[[], Probe] | None,
        log: Callable[[str], None],
        tick: Callable[[], None],
        whereabouts: Whereabouts | None,
    ) -> Any:
        staff = self._staff
        plan = staff.crew_plan(self._parts, self._learner, self._start_of, self._place_of)
        if staff.inline:
            return InlineCrew(plan, probe_factory=probe_factory, tick=tick, whereabouts=whereabouts)
        return ProcessCrew(
            replace(plan, executor=for_own_process(plan.executor, self._parts.lanes.environment)),
            hang_seconds=layout.hang_seconds,
            creation_seconds=layout.creation_seconds,
            probe_factory=probe_factory,
            log=log,
        )

    def _start_of(self, role: str, index: int) -> ExecutorStart | None:
        if role != "executor":
            return None
        crew = self._crew
        assert crew is not None, "roles are started by a crew"
        storage = RolloutStorage(self._parts.shape, crew.arrays)
        finished = crew.exchange.finished
        bounds = self._staff.bounds(self._parts.config.num_envs)
        return ExecutorStart(
            [
                self._course.history(environment, int(finished[environment]), storage.read)
                for environment in range(*bounds[index : index + 2])
            ]
        )

    def _place_of(self, role: str, index: int) -> str:
        config = self._parts.config
        staff, environments = self._staff, config.num_envs
        bounds = (staff.bounds if role == "executor" else staff.served)(environments)
        own = slice(*bounds[index : index + 2])
        steps = self._crew.exchange.finished[own].tolist()
        at = min(steps)
        environment = own.start + steps.index(at)
        return (
            f"environment {environment} of {config.env}, env step {at} of that environment "
            f"(interval {at // config.alpha}, t {at % config.alpha}), --seed {config.seed}"
        )
