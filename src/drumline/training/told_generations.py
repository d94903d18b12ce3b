"""Generations as a search was told them: as a log's record, and as results again."""

from collections.abc import Sequence

from drumline.protocols import GenerationStrategy
from drumline.runs.scalar_log import ToldGeneration, ToldMember
from drumline.tasks import Evaluation


def told_of(generation: int, members: Sequence[Evaluation]) -> ToldGeneration:
    """Return the record of a generation for `tell`; `members` are its results by index."""
    told = (ToldMember(m.fitness, m.episode_return, m.length, m.moments) for m in members)
    return ToldGeneration(generation, tuple(told))


def results_of(strategy: GenerationStrategy, told: ToldGeneration) -> list[Evaluation]:
    """Return a logged generation as the results of the tasks that the strategy asks for it."""
    return [
        Evaluation(
            task.version,
            task.member,
            task.sign,
            task.noise_key,
            task.std,
            *member[:3],
            member.moments,
            b"",
        )
        for task, member in zip(strategy.ask(len(told.members)), told.members, strict=True)
    ]
