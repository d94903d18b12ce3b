"""Ours against the peer at each budget: interquartile means, their ratio, pairs ahead."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from drumline.functional.statistics import (
    bootstrap_interval,
    interquartile_mean,
    interquartile_mean_along,
    probability_of_improvement,
)

IQM_GOAL, IMPROVEMENT_GOAL = 0.9, 0.3


def summary(rows: Sequence[Mapping[str, Any]], peer: str) -> list[dict[str, object]]:
    """Return a row for each case, method of ours and budget that both have runs of."""
    table: list[dict[str, object]] = []
    cases = {(row["case"], row["who"]): None for row in rows if row["who"] != peer}
    for case, who in cases:
        budgets = sorted({int(row["env_steps"]) for row in rows if row["case"] == case})
        for budget in budgets:
            ours = _returns(rows, case, who, budget)
            theirs = _returns(rows, case, peer, budget)
            if min(ours.size, theirs.size):
                table.append(
                    {"case": case, "ours": who, "env_steps": budget, **compared(ours, theirs)}
                )
    return table


def compared(ours: np.ndarray, theirs: np.ndarray) -> dict[str, object]:
    """Return the figures of one budget; a ratio has no meaning where the peer's is not positive."""
    mine, other = interquartile_mean(ours), interquartile_mean(theirs)
    improvement = probability_of_improvement(ours, theirs)
    slack = (1 - IQM_GOAL) * abs(other)
    return {
        "runs_ours": ours.size,
        "runs_peer": theirs.size,
        "iqm_ours": f"{mine:.1f}",
        "iqm_ours_interval": _interval(ours),
        "iqm_peer": f"{other:.1f}",
        "iqm_peer_interval": _interval(theirs),
        "ratio": f"{mine / other:.3f}" if other > 0 else "",
        "ratio_interval": _ratio_interval(ours, theirs) if other > 0 else "",
        "probability_of_improvement": f"{improvement:.2f}",
        "goal": "met" if mine >= other - slack and improvement >= IMPROVEMENT_GOAL else "missed",
    }


def _returns(rows: Sequence[Mapping[str, Any]], case: str, who: str, budget: int) -> np.ndarray:
    wanted = (case, who, str(budget))
    return np.array(
        [
            float(row["return_mean"])
            for row in rows
            if (row["case"], row["who"], row["env_steps"]) == wanted
        ]
    )


def _interval(values: np.ndarray) -> str:
    if values.size < 2:
        return ""
    low, high = bootstrap_interval(values, seed=0, statistic=interquartile_mean_along)
    return f"{low:.1f} … {high:.1f}"


def _ratio_interval(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Percentile bootstrap of the ratio: both sides are drawn anew, apart from each other."""
    if min(ours.size, theirs.size) < 2 or theirs.min() <= 0:
        return ""

    def ratio(mine: np.ndarray, other: np.ndarray, axis: int = -1) -> Any:
        return interquartile_mean_along(mine, axis) / interquartile_mean_along(other, axis)

    drawn = stats.bootstrap(
        (ours, theirs), ratio, method="percentile", rng=np.random.default_rng(0)
    )
    return f"{drawn.confidence_interval.low:.3f} … {drawn.confidence_interval.high:.3f}"
