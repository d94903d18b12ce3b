"""The work of a group that is not the head: the head's loop without run folder and evaluations."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# (threadpoolctl has no annotations)

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from drumline.protocols import Probe
from drumline.runtime.cluster.group_child import GroupContext, GroupFinished
from drumline.runtime.cluster.group_messages import Built
from drumline.runtime.cluster.node_checks import processor, versions_of
from drumline.training.attended_crew import AttendedCrew
from drumline.training.gathered_intervals import GatheredStorage, shards_of
from drumline.training.known_answers import known_answers
from drumline.training.layout import Layout
from drumline.training.rotation_crew import RotationCrew
from drumline.training.stop_signals import StopSignals
from drumline.types import ProcessActivity, Span


@dataclass(frozen=True)
class GroupWork:
    """Steps the environments of a group and learns from its shards, update by update."""

    config: Any
    layout: Layout
    last_update: int
    probe_factory: Callable[[], Probe] | None = None

    def __call__(self, context: GroupContext) -> None:
        """Work until the head ends this group; it raises GroupFinished then."""
        with threadpool_limits(1, "blas"):
            self._work(context)

    def _work(self, context: GroupContext) -> None:
        recipe = self.config.build(self.layout).of_group(context.index)
        staff, swap = recipe.staff, context.mesh.swap
        parts = dataclasses.replace(
            recipe.parts, shards=shards_of(self.config.learners, staff, swap)
        )
        learner = recipe.learner(parts, context.look, staff.acting_threads)
        course = recipe.course(parts, staff, self.last_update, learner)
        order = context.begin(known_answer())
        learner.load(order.state)
        course.load(order.state, list(learner.published()))
        crew = RotationCrew(parts, staff, course, learner).made(
            self.layout, probe_factory=self.probe_factory, log=context.say, tick=context.look
        )
        began = staff.own(self.config.num_envs).start
        own = _Learner(context.index)

        def rows() -> list[ProcessActivity]:
            found: list[ProcessActivity] = crew.activity()
            return [*(row._replace(index=began + row.index) for row in found), own.row()]

        context.activity, context.on_look = rows, crew.look
        try:
            course.begin(crew, order.update)
            crew.start()
            storage = GatheredStorage(parts.shape, crew.arrays, staff, swap, learner.published)
            attended = AttendedCrew(crew, StopSignals(), context.look)
            for interval, _ in course.updates(attended, storage, order.update):
                course.tally.take()  # the head records them
                own.learned(interval.update_began, interval.update_ended)
            context.wait()
        except GroupFinished:
            crew.close()
            spans = [span._replace(index=began + span.index) for span in crew.timeline()]
            context.last_words(rows(), [*spans, *own.spans])
            raise
        finally:
            crew.close()


def differing(built: Built) -> str:
    """Return in words why a group's machine could get other bits than this; empty if it cannot."""
    others = [
        f"{name} {built.packages[name]} instead of {version}"
        for name, version in versions_of(built.packages).items()
        if built.packages[name] != version
    ]
    if others:
        return f"it has {', '.join(others)}: install the versions of group 0 there"
    if built.processor != processor():
        return (
            f"its processor ({built.processor}) may give other bits than that of group 0 "
            f"({processor()}); --no-promise takes it"
        )
    if built.answer != known_answer():
        return (
            "its NumPy or torch computes other bits than that of group 0: a variable by which they "
            "choose their kernels, such as OPENBLAS_CORETYPE or ATEN_CPU_CAPABILITY, differs "
            "there, or was changed here after they had been imported"
        )
    return ""


def known_answer() -> str:
    """Return the known answer of the libraries with which a group learns."""
    return " ".join(known_answers(("numpy", "torch")).values())


class _Learner:
    """A group's own row: its work as a learner."""

    def __init__(self, group: int):
        self._group = group
        self._updates = 0
        self._seconds = 0.0
        self.spans: list[Span] = []

    def learned(self, began: float, ended: float) -> None:
        self._updates += 1
        self._seconds += ended - began
        self.spans.append(Span("learner", self._group, began, ended, 1))
        del self.spans[:-_SPANS_KEPT]

    def row(self) -> ProcessActivity:
        done = self._updates
        return ProcessActivity("learner", self._group, os.getpid(), done, done, self._seconds, 0)


_SPANS_KEPT = 10_000
