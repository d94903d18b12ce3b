"""Sampling, mirrored or not: the tasks of a generation, and its results in their order."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, cycle, repeat
from operator import attrgetter
from typing import Any, ClassVar, SupportsFloat

import numpy as np
from jaxtyping import Float32, Float64

from drumline import seeding
from drumline.functional.perturbation import Noise
from drumline.tasks import Evaluate, Evaluation
from drumline.types import maker


@dataclass(frozen=True)
class MirroredSampler:
    """Pairs ±ε: members 2i and 2i + 1 share the noise key of pair i.

    Tasks are a function of (seed, generation, member): a worker draws nothing.
    """

    seed: int
    noise: Noise
    common_seeds: bool = False
    """Whether both halves of a pair run on the same environment seed."""
    obs_stat_probability: float = 0.0
    """Probability that a rollout's observations enter the running moments."""

    MEMBERS_PER_KEY: ClassVar[int] = 2

    def tasks(
        self, generation: int, first: int, count: int, *, std: float, episode_cap: int
    ) -> list[Evaluate]:
        """Return the tasks of members first … first + count − 1."""
        if first % 2 or count % 2 or count <= 0:
            raise ValueError(f"mirrored pairs need an even population_size, got {count}")
        keys = self.noise.keys(generation, first // 2, count // 2)
        seeds = seeding.seeds(self.seed, first + count, "episode", generation)
        contributes = _contributors(self.seed, self.obs_stat_probability, generation, first + count)
        if self.common_seeds:
            seeds = [seeds[member - member % 2] for member in range(first + count)]
        fields = zip(
            repeat(generation),
            range(first, first + count),
            cycle((1, -1)),
            chain.from_iterable(zip(keys, keys, strict=True)),
            seeds[first:],
            repeat(std),
            repeat(episode_cap),
            contributes[first:],
            repeat(True),
        )
        return list(map(maker(Evaluate), fields))


@dataclass(frozen=True)
class IndependentSampler:
    """A perturbation of its own for every member, as in Algorithm 1 without mirroring."""

    seed: int
    noise: Noise
    obs_stat_probability: float = 0.0
    """Probability that a rollout's observations enter the running moments."""

    MEMBERS_PER_KEY: ClassVar[int] = 1

    def tasks(
        self, generation: int, first: int, count: int, *, std: float, episode_cap: int
    ) -> list[Evaluate]:
        """Return the tasks of members first … first + count − 1."""
        if count <= 0:
            raise ValueError(f"a generation needs members, got {count}")
        keys = self.noise.keys(generation, first, count)
        last = first + count
        seeds = seeding.seeds(self.seed, last, "episode", generation)
        contributes = _contributors(self.seed, self.obs_stat_probability, generation, last)
        return [
            Evaluate(
                *(generation, member, 1, key, seeds[member], std, episode_cap),
                contributes=contributes[member],
                training=True,
            )
            for member, key in zip(range(first, last), keys, strict=True)
        ]


def _contributors(seed: int, probability: float, generation: int, count: int) -> list[bool]:
    if probability in (0.0, 1.0):
        return [probability == 1.0] * count
    words = seeding.raw(seed, count, "observation-moments", generation)
    return (words < np.uint64(int(probability * 2.0**64))).tolist()


def in_member_order(
    results: Sequence[Evaluation], generation: int, members_per_key: int
) -> list[Evaluation]:
    """Return a whole generation's results by member; ValueError if one is missing or doubled.

    Where members share noise keys (`members_per_key` 2: mirrored pairs) their number is even.
    """
    ordered = in_order(results, generation)
    if len(ordered) < 2:
        raise ValueError(f"a generation needs 2 results or more, got {len(ordered)}")
    if len(ordered) % members_per_key:
        raise ValueError(f"mirrored pairs need an even number of results, got {len(ordered)}")
    return ordered


def in_order(results: Sequence[Evaluation], generation: int) -> list[Evaluation]:
    """Return the results by member; ValueError unless each of 0 … N − 1 is there exactly once."""
    ordered = sorted(results, key=attrgetter("member"))
    for place, result in enumerate(ordered):
        if result.version != generation:
            raise ValueError(
                f"told a result of generation {result.version} in generation {generation}"
            )
        if result.member != place:
            raise ValueError(
                f"generation {generation} needs members 0 to {len(ordered) - 1} once each; "
                f"member {min(place, result.member)} is missing or told twice"
            )
    return ordered


def finite_fitness(ordered: Sequence[Evaluation]) -> Float64[np.ndarray, " N"]:
    """Return the fitness of each result; ValueError if one is not finite."""
    fitness = np.array([result.fitness for result in ordered])
    if not np.isfinite(fitness).all():
        member = int(np.flatnonzero(~np.isfinite(fitness))[0])
        raise ValueError(f"fitness of member {member} is {fitness[member]}")
    return fitness


def one_vector(parameters: Any) -> Float32[np.ndarray, " P"]:
    """Return the first parameters `[P]` of a user's own loop; ValueError for another shape."""
    start = np.asarray(parameters, dtype=np.float32)
    if start.ndim != 1:
        raise ValueError(f"parameters is one vector, got shape {start.shape}: ravel() it first")
    return start


def answer(task: Evaluate, fitness: SupportsFloat, length: int = 1) -> Evaluation:
    """Return the result of a task that was evaluated outside Drumline's runtime.

    Raises TypeError for a fitness that is no number.

    >>> task = Evaluate(0, 3, -1, 64, 7, 0.1, 0, False, True)
    >>> answer(task, 2.5).fitness
    2.5
    """
    try:
        number = float(getattr(fitness, "detach", lambda: fitness)())  # a tensor without its graph
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the fitness of member {task.member} is a {type(fitness).__name__}, not one number"
        ) from error
    return Evaluation(
        version=task.version,
        member=task.member,
        sign=task.sign,
        noise_key=task.noise_key,
        std=task.std,
        fitness=number,
        episode_return=number,
        length=length,
        moments=None,
        digest=b"",
    )
