"""Tables of HTS-RL: `hts` beside its rivals at equal env steps, and in seconds to a score."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from campaign_tables import (
    RESAMPLES,
    SHARES,
    Row,
    Rows,
    at_budget,
    interval,
    of_runs,
    random_means,
    scores_at_budgets,
    seeds_in_words,
)
from scipy import stats

from drumline.functional.statistics import interquartile_mean, interquartile_mean_along

BOUND_SHARE = 0.95
"""Share of the ratio of the sum bounds of `hts` and a rival that is to be gained."""
SECONDS_GOALS = {"ppo": 1.4, "stable-baselines3-ppo": 2.5}
"""Multiples of the seconds of `hts` that these are to take: learning does not fill the cores."""


class Ratio(NamedTuple):
    """A ratio of interquartile means with its 95 % interval."""

    middle: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """The ratio and its interval, as a cell of a table."""
        return f"{self.middle:.2f} ({self.low:.2f} … {self.high:.2f})"


RATIO_GOALS = {
    "ppo": Ratio(0.95, 0.8, math.inf),
    "stable-baselines3-ppo": Ratio(0.9, -math.inf, math.inf),
}
"""Least ratio of `hts` to a rival, and least lower end of its interval."""


class Beside(NamedTuple):
    """`hts` beside a rival on one task: ratios at shares of the env steps."""

    env: str
    rival: str
    seeds: tuple[tuple[int, ...], tuple[int, ...]]
    """Of `hts` and of the rival."""
    env_steps: int
    ratios: Sequence[Ratio]

    @property
    def complete(self) -> bool:
        """Whether the rival has as many seeds: the interval of one score is a point."""
        ours, theirs = self.seeds
        return len(theirs) >= len(ours)

    @property
    def verdict(self) -> str:
        """Return met, missed, or open while seeds of the rival are to come.

        Each ratio, and the lower end of its interval, is to be as large as the goal's.
        """
        if not self.complete:
            return "open"
        goal = RATIO_GOALS[self.rival]
        met = all(each.middle >= goal.middle and each.low >= goal.low for each in self.ratios)
        return "met" if met else "missed"


def beside_baselines(runs: Sequence[Row], curves: Sequence[Row]) -> list[Beside]:
    """Return `hts` over `ppo` and over a peer, on each task and for each number of env steps.

    A ratio is of their interquartile means, both counted from the mean return of random actions,
    with the 95 % interval of a bootstrap that draws the seeds of both.
    """
    random, found = random_means(), list[Beside]()
    pairs = dict.fromkeys((row["env"], int(row["env_steps"])) for row in runs)
    for (env, steps), rival in product(pairs, RATIO_GOALS):
        here = [row for row in runs if (row["env"], int(row["env_steps"])) == (env, steps)]
        ours, theirs = ([row for row in here if row["method"] == one] for one in ("hts", rival))
        if not ours or not theirs:
            continue
        ratios = [
            ratio(*(_scores(curves, rows, share * steps) - random[env] for rows in (ours, theirs)))
            for share in SHARES
        ]
        seeds = tuple(int(row["seed"]) for row in ours), tuple(int(row["seed"]) for row in theirs)
        found.append(Beside(env, rival, seeds, steps, ratios))
    return found


def shares_of_the_baselines(runs: Sequence[Row], curves: Sequence[Row]) -> list[str]:
    """Return a table: environment × shares of the env steps, `hts` over `ppo` and over a peer."""
    head = "| task | beside | seeds | env steps | 25 % | 50 % | 75 % | 100 % | |"
    table = [head, "|" + "---|" * 9]
    for row in beside_baselines(runs, curves):
        seeds = " and ".join(map(seeds_in_words, row.seeds))
        cells = " | ".join(each.words for each in row.ratios)
        words = [row.env, f"`{row.rival}`", seeds, f"{row.env_steps:,}", cells]
        table.append(f"| {' | '.join(words)} | {row.verdict} |")
    return table if len(table) > 2 else []


def ratio(ours: np.ndarray, theirs: np.ndarray) -> Ratio:
    """Return IQM(ours) / IQM(theirs); the bootstrap draws the values of both."""
    rng = np.random.default_rng(0)
    drawn = [
        interquartile_mean_along(rng.choice(values, (RESAMPLES, values.size)))
        for values in (ours, theirs)
    ]
    ratios = np.where(drawn[1] > 0.0, drawn[0] / drawn[1], np.inf)
    low, high = np.quantile(ratios, (0.025, 0.975), method="inverted_cdf")  # some may be infinite
    below = interquartile_mean(theirs)
    middle = interquartile_mean(ours) / below if below > 0.0 else math.inf
    return Ratio(middle, float(low), float(high))


def _scores(curves: Sequence[Row], runs: Sequence[Row], env_steps: float) -> np.ndarray:
    (group,) = {row["group"] for row in runs}
    return at_budget(curves, group, [row["seed"] for row in runs], env_steps)


def _shown(seconds: float) -> str:
    """Return seconds in words, with a decimal where there are few.

    >>> _shown(3.57), _shown(1234.5), _shown(math.inf)
    ('3.6', '1,234', 'not reached')
    """
    if not math.isfinite(seconds):
        return "not reached"
    return f"{seconds:.1f}" if seconds < 100 else f"{seconds:,.0f}"


def required_times(part: str, rows: Rows) -> list[str]:
    """Return a table: task × method, seconds to a score, and how many times those of `hts`."""
    found = rows.scripts.get("required_time.csv", ())
    if not found:
        return []
    table = [
        "| task | score | method | seeds (reached) | env steps | seconds | times `hts` | goal | |",
        "|" + "---|" * 9,
    ]
    for env, score in dict.fromkeys((row["env"], row["score"]) for row in found):
        here = [row for row in found if (row["env"], row["score"]) == (env, score)]
        ours = _seconds([row for row in here if row["method"] == "hts"])
        for method in dict.fromkeys(row["method"] for row in here):
            mine = [row for row in here if row["method"] == method]
            seconds = _seconds(mine)
            steps = median([float(row["reached_env_steps"] or "inf") for row in mine])
            times, verdict, goal = "", "", _goal(method, here)
            if method != "hts" and ours.size:
                least, times = _times(seconds, ours)
                if goal:  # two seeds without a ratio decide nothing
                    decided = times or seconds.size > 2
                    verdict = ("met" if least >= goal else "missed") if decided else "open"
            cells = [
                env,
                score,
                f"`{method}`",
                f"{seconds.size} ({np.isfinite(seconds).sum()})",
                f"{steps:,.0f}" if math.isfinite(steps) else "not reached",
                _shown(median(seconds)),
                times,
                f"≥ {goal:.3g}" if goal else "",
                verdict,
            ]
            table.append("| " + " | ".join(cells) + " |")
    busiest = max(float(row["other_busy_cores"]) for row in found)
    remark = f"At most {busiest:.2f} cores were busy with other work during a run."
    return [*table, "", remark]


def _goal(method: str, runs: Sequence[Row]) -> float:
    """Return how many times the seconds of `hts` a method is to take; 0 where there is no goal.

    Where sum bounds were measured, learning fills the cores: only their ratio can be gained.
    """
    column = "sum_bound_env_steps_per_second"
    bounds = {
        one: [float(row[column]) for row in runs if row["method"] == one and row[column]]
        for one in ("hts", method)
    }
    if not bounds["hts"]:
        return SECONDS_GOALS.get(method, 0.0)
    if not bounds[method] or method == "hts":
        return 0.0
    return BOUND_SHARE * median(bounds["hts"]) / median(bounds[method])


def _seconds(runs: Sequence[Row]) -> np.ndarray:
    return np.array([float(row["reached_seconds"] or "inf") for row in runs])


def _times(theirs: np.ndarray, ours: np.ndarray) -> tuple[float, str]:
    """Return the ratio of medians, with its interval where every seed reached the score."""
    middles = float(np.median(theirs)), float(np.median(ours))
    if not math.isfinite(middles[1]):
        return 0.0, ""
    if not math.isfinite(middles[0]):
        return math.inf, "not reached"
    least = middles[0] / middles[1]
    if not np.isfinite([*theirs, *ours]).all() or min(theirs.size, ours.size) < 3:
        return least, f"{least:.2f}"
    rng = np.random.default_rng(0)
    drawn = [np.median(rng.choice(own, (RESAMPLES, own.size)), 1) for own in (theirs, ours)]
    low, high = np.quantile(drawn[0] / drawn[1], (0.025, 0.975))
    return least, f"{least:.2f} ({low:.2f} … {high:.2f})"


POOLS = {
    "`hts`": ("goal-hts-{}", "hts-{}-more"),
    "`ppo`": ("goal-ppo-{}", "ppo-{}-renewed"),
    "`ppo`, never renewed": ("ppo-{}-never-renewed",),
    "`ppo` on Gymnasium": ("ppo-{}-gymnasium",),
    "Stable-Baselines3": ("goal-sb3-{}", "sb3-{}-more"),
}
"""Groups that differ in their seeds alone, by what their runs are called; `{}` is a task."""
POOLED_TASKS = ("Hopper", "Walker2d")
PEER = "Stable-Baselines3"


def scores_of_all_seeds(part: str, rows: Rows) -> list[str]:
    """Return a part's scores, and below them last scores of the same flags with all their seeds.

    The ratio is of interquartile means counted from random actions. p: the share of 9,999 random
    exchanges of runs between both samples that set their interquartile means as far apart or
    further (a two-sided permutation test).
    """
    mine = [row for row in rows.runs if row["part"] == part]
    if not mine:
        return []
    table = [
        "| task | runs | seeds | last score | of Stable-Baselines3 | p |",
        "|" + "---|" * 6,
    ]
    for task in POOLED_TASKS:
        pools = {name: _pool(rows, [one.format(task) for one in POOLS[name]]) for name in POOLS}
        peers, zero = pools[PEER].scores, random_means()[f"{task}-v5"]
        for name, pool in pools.items():
            if not pool.seeds:
                continue
            cells = [f"{task}-v5", name, seeds_in_words(pool.seeds), interval(pool.scores), "", ""]
            if name != PEER and peers.size:
                cells[4] = ratio(pool.scores - zero, peers - zero).words
                cells[5] = f"{chance(pool.scores, peers):.2g}"
            table.append(f"| {' | '.join(cells)} |")
    return [*scores_at_budgets(mine, rows.evaluations), "", *table]


class Pool(NamedTuple):
    """Last scores of several groups' runs."""

    seeds: list[int]
    scores: np.ndarray


def _pool(rows: Rows, groups: Sequence[str]) -> Pool:
    seeds, scores = list[int](), [np.empty(0)]
    for group in groups:
        runs = [row for row in rows.runs if row["group"] == group]
        if not runs:
            continue
        seeds += [int(row["seed"]) for row in runs]
        steps = min(int(row["env_steps"]) for row in runs)
        scores.append(_scores(rows.evaluations, runs, steps))
    return Pool(seeds, np.concatenate(scores))


def chance(one: np.ndarray, other: np.ndarray) -> float:
    """Return p of a two-sided permutation test of equal interquartile means.

    `alternative="two-sided"` of scipy is twice the smaller tail, which is another one where the
    samples differ in size.
    """

    def apart(x: np.ndarray, y: np.ndarray, axis: int) -> Any:
        return np.abs(interquartile_mean_along(x, axis) - interquartile_mean_along(y, axis))

    test: Any = stats.permutation_test  # scipy has no stubs
    rng = np.random.default_rng(0)
    found = test((one, other), apart, n_resamples=RESAMPLES, rng=rng, alternative="greater")
    return float(found.pvalue)


HTS_TABLES: Mapping[str, Callable[[str, Rows], list[str]]] = MappingProxyType(
    {
        "hts-goals": of_runs(shares_of_the_baselines),
        "hts-engines": scores_of_all_seeds,
        "required-time": required_times,
    }
)
