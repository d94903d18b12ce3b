"""`--noise low-rank:R` in a config: its rank, its checks, and the matrices that it is about."""

from typing import TYPE_CHECKING

from drumline.functional.low_rank import LowRank
from drumline.policies.build import tensor_shapes
from drumline.policies.spec import PolicySpec
from drumline.recipes.families import Searching
from drumline.workers.objective import Objective

if TYPE_CHECKING:
    from drumline.recipes.es import ES

_FULL_RANK = ("auto", "table", "counter")
_PREFIX = "low-rank:"


def noise_rank(noise: str) -> int:
    """Return R of `low-rank:R`; 0 for noise of full rank.

    >>> noise_rank("low-rank:4")
    4
    """
    if noise in _FULL_RANK:
        return 0
    rank = noise.removeprefix(_PREFIX)
    if noise.startswith(_PREFIX) and rank.isascii() and rank.isdigit() and int(rank):
        return int(rank)
    raise ValueError(
        f"--noise {noise!r} is none of {', '.join(_FULL_RANK)} and low-rank:R with a whole number "
        "R of 1 or more"
    )


def check_noise(config: "ES") -> None:
    """Refuse noise of low rank where there is nothing that it could be about."""
    members = config.members_per_call
    if not 1 <= members <= config.population_size:
        raise ValueError(
            f"--members-per-call must be 1 to --population-size {config.population_size}, "
            f"got {members}"
        )
    if members > 1 and not (noise_rank(config.noise) and config.objective):
        raise ValueError(
            f"--members-per-call {members} goes with --objective and --noise low-rank:R: only then "
            "members share the products of a module"
        )
    if not noise_rank(config.noise):
        return
    for flag, value in (("subset", config.subset), ("subspace", config.subspace)):
        if value not in ("none", 0):
            raise ValueError(
                f"--noise {config.noise} and --{flag} {value} contradict each other: that noise "
                "has full rank"
            )
    if config.objective and ":" not in config.policy:
        raise ValueError(
            f"--noise {config.noise} is about matrices, and a vector has none: give --policy "
            "package.module:Class of a torch.nn.Module, or leave it out"
        )


def low_rank_of(config: Searching, searched: object, policy: PolicySpec | None) -> LowRank | None:
    """Return the layout of noise of low rank over what is searched; None for full rank."""
    rank = noise_rank(config.noise)
    if not rank:
        return None
    if policy is not None:
        return LowRank(rank, tensor_shapes(policy))
    assert isinstance(searched, Objective), "without a policy there is an objective"
    return LowRank(rank, tuple(shape for _, shape in searched.tensors))
