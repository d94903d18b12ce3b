"""Names of AES-RL's update rules, turned into the rules: the only place that knows them by name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from drumline.algorithms.confirmed_move import ConfirmedMove
from drumline.algorithms.distribution_rules import (
    MeanRule,
    OneFifthVariance,
    PartialMove,
    RankMove,
    RankVariance,
    SpreadMove,
    VarianceRule,
    WelfordVariance,
)
from drumline.functional.mean_updates import (
    absolute_baseline,
    fixed_linear,
    fixed_sigmoid,
    full_move,
    relative_baseline,
)
from drumline.functional.variance_updates import release_sample_count, strict_sample_count


@dataclass(frozen=True)
class RuleNumbers:
    """Numbers of the update rules; each rule reads those that it uses."""

    fitness_range: float
    """r of relative, linear and sigmoid."""
    fitness_baseline: float
    """b of absolute."""
    range_spread: float = 0.0
    """relative, linear, sigmoid: r in standard deviations of recent returns; 0: fitness_range."""
    negative_ratio: float = 0.0
    """linear: step of the mean away from a worse individual."""
    welford_samples: float = 10.0
    """n of welford-fixed."""
    strict_welford: bool = False
    """welford-adaptive: n = 1/p instead of the release's max(1/p - 1, 1)."""
    archive_size: int = 10
    """λ of rank: individuals that are ranked."""
    elites: int = 5
    """K of rank: best individuals, which make the next distribution."""
    damp: float = 1e-3
    """ε at the start, added to rank's variance."""
    damp_limit: float = 1e-5
    """ε at the end."""
    damp_decay: float = 0.9
    """Decay of ε per archive; its λ-th root per individual."""
    divide_by_elites: bool = True
    """Divide rank's variance by K once more, as CEM-RL's code does and its paper does not."""
    success_window: int = 10
    """Individuals over which one-fifth counts successes."""


class UpdateRules(NamedTuple):
    """The rules for mean and variance, and the archive that they need."""

    mean: MeanRule
    variance: VarianceRule
    archive_size: int


RANGED_RULES = ("relative", "linear", "sigmoid")
"""Mean rules with a range r."""

READ_BY = {
    "fitness_range": ("mean_rule", RANGED_RULES),
    "fitness_baseline": ("mean_rule", ("absolute",)),
    "negative_ratio": ("mean_rule", ("linear",)),
    "welford_samples": ("variance_rule", ("welford-fixed",)),
    "strict_welford": ("variance_rule", ("welford-adaptive",)),
}
"""Number of a config → the field of the rules that may read it, and those that do."""


def _ranged(step_size: Callable[..., float], numbers: RuleNumbers) -> MeanRule:
    r = numbers.fitness_range
    if numbers.range_spread:
        return SpreadMove(step_size, multiple=numbers.range_spread, fallback=r)
    return PartialMove(partial(step_size, fitness_range=r))


_MEAN_RULES: dict[str, Callable[[RuleNumbers], MeanRule]] = {
    "relative": lambda n: _ranged(relative_baseline, n),
    "absolute": lambda n: PartialMove(partial(absolute_baseline, baseline=n.fitness_baseline)),
    "linear": lambda n: _ranged(partial(fixed_linear, negative_ratio=n.negative_ratio), n),
    "sigmoid": lambda n: _ranged(fixed_sigmoid, n),
    "full-move": lambda n: PartialMove(full_move),
    "confirmed-move": lambda n: ConfirmedMove(),
    "rank": lambda n: RankMove(n.elites),
}
_VARIANCE_RULES: dict[str, Callable[[RuleNumbers], VarianceRule]] = {
    "welford-adaptive": lambda n: WelfordVariance(
        strict_sample_count if n.strict_welford else release_sample_count
    ),
    "welford-fixed": lambda n: WelfordVariance(lambda step_size: n.welford_samples),
    "one-fifth": lambda n: OneFifthVariance(window=n.success_window),
    "rank": lambda n: RankVariance(
        n.elites,
        damp=n.damp,
        damp_limit=n.damp_limit,
        damp_decay=n.damp_decay ** (1.0 / n.archive_size),
        divide_by_elites=n.divide_by_elites,
    ),
}
MEAN_RULES = tuple(_MEAN_RULES)
VARIANCE_RULES = tuple(_VARIANCE_RULES)


def make_update_rules(mean_rule: str, variance_rule: str, numbers: RuleNumbers) -> UpdateRules:
    """Return the rules of two names; raises where a name or the pair is illegal."""
    if mean_rule not in _MEAN_RULES:
        raise ValueError(f"--mean-rule must be one of {', '.join(MEAN_RULES)}; got {mean_rule!r}")
    if variance_rule not in _VARIANCE_RULES:
        legal = ", ".join(VARIANCE_RULES)
        raise ValueError(f"--variance-rule must be one of {legal}; got {variance_rule!r}")
    if numbers.range_spread and mean_rule not in RANGED_RULES:
        raise ValueError(
            f"--range-spread goes with --mean-rule {', '.join(RANGED_RULES)}: "
            f"{mean_rule!r} has no range r"
        )
    if mean_rule == "rank" and variance_rule.startswith("welford-"):
        legal = ", ".join(name for name in VARIANCE_RULES if not name.startswith("welford-"))
        raise ValueError(
            f"--variance-rule {variance_rule!r} weighs by the step size p, which --mean-rule "
            f"'rank' has none of; with 'rank' it must be one of {legal}"
        )
    if variance_rule == "welford-fixed" and not numbers.welford_samples >= 1.0:
        raise ValueError(f"--welford-samples must be at least 1, got {numbers.welford_samples}")
    ranked = "rank" in (mean_rule, variance_rule)
    if ranked and not 1 <= numbers.elites <= numbers.archive_size:
        raise ValueError(
            f"elites must be 1 to archive_size {numbers.archive_size}, got {numbers.elites}"
        )
    return UpdateRules(
        _MEAN_RULES[mean_rule](numbers),
        _VARIANCE_RULES[variance_rule](numbers),
        numbers.archive_size if ranked else 0,
    )
