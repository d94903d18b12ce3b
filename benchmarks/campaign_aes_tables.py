"""Tables of AES-RL's runs: beside its rivals, over its rules, by kind of individual, over time."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from campaign_tables import (
    Row,
    Rows,
    at_budget,
    evaluations_of,
    interval,
    intervals_apart,
    random_means,
    seeds_in_words,
)
from goals import reached

from drumline.functional.stability import stability
from drumline.functional.statistics import interquartile_mean

FIRST_RELEASE = "td3-first-release"
"""TD3 with the networks (400-300) and the step size (1e-3) of its first release."""
RIVALS = {
    "aes-rl": ("td3", "cem-rl", FIRST_RELEASE),
    "aes-rl-fresh": ("td3", "cem-rl", FIRST_RELEASE),
    "aes-rl-100k": (FIRST_RELEASE, "cem-rl", "p-cem-rl"),
}
GOALS = {"aes-rl": (4, 5), "aes-rl-fresh": (2, 3), "aes-rl-100k": (2, 3)}
"""On how many tasks of how many `aes` is to be ahead of all rivals, and nowhere below 0.9."""
LEAST_SHARE = 0.9
SEEDS_OF_INTERVALS = 5
"""Seeds from which on intervals are told apart: that of three is their span, no 95 % interval."""
TIME_GOAL = 0.6
"""Share of the virtual seconds of `p-cem-rl` within which `aes` is to have its last score."""


class BesideRivals(NamedTuple):
    """`aes` and its rivals on one task, at the env steps that all of their runs have."""

    env: str
    env_steps: int
    seeds: Sequence[int]
    """Those that all methods that have runs there have."""
    scores: Mapping[str, np.ndarray]
    """Method → score by seed."""
    complete: bool
    """Whether all methods have runs, of as many common seeds as on the other tasks."""
    ratio: float = math.nan
    """Interquartile means of `aes` over the best rival, counted from a random policy's return."""
    ahead: bool = False
    apart: bool = False
    """Whether the intervals of these two do not meet."""

    @property
    def share(self) -> float:
        """The ratio, or 1 or 0 where the best rival is not above a random policy."""
        return float(self.ahead) if math.isnan(self.ratio) else self.ratio

    @property
    def verdict(self) -> str:
        """Last cell of the task's row."""
        if not self.complete:
            return "runs are outstanding"
        if self.ahead:
            return "ahead"
        return "within 0.9" if self.ratio >= LEAST_SHARE else "behind"


def compared_with_rivals(part: str, rows: Rows) -> list[BesideRivals]:
    """Return `aes` beside its rivals on each task that has runs."""
    runs = [row for row in rows.runs if row["part"] == part]
    envs = dict.fromkeys(row["env"] for row in runs)
    common = {env: len(_common_seeds(runs, env, RIVALS[part])) for env in envs}
    most = max(1, *common.values()) if common else 1
    return [_compared(part, env, rows, complete=common[env] == most) for env in envs]


def _compared(part: str, env: str, rows: Rows, *, complete: bool) -> BesideRivals:
    runs = [row for row in rows.runs if (row["part"], row["env"]) == (part, env)]
    by_method = {
        method: [row for row in runs if competitor(row) == method]
        for method in ("aes", *RIVALS[part])
    }
    there = {method: mine for method, mine in by_method.items() if mine}
    seeds = set.intersection(*({row["seed"] for row in mine} for mine in there.values()))
    if seeds:  # while runs are outstanding, one method may be seeds ahead of another
        there = {
            method: [row for row in mine if row["seed"] in seeds] for method, mine in there.items()
        }
    steps = min(int(row["env_steps"]) for mine in there.values() for row in mine)
    scores = {method: _scores(rows, mine, steps) for method, mine in there.items()}
    shown = sorted({int(row["seed"]) for mine in there.values() for row in mine})
    found = BesideRivals(env, steps, shown, scores, complete)
    if not complete:
        return found
    zero = random_means().get(env, 0.0)
    middles = {method: interquartile_mean(values) - zero for method, values in scores.items()}
    nearest = max(set(middles) - {"aes"}, key=lambda method: middles[method])
    best = middles[nearest]
    return found._replace(
        ratio=middles["aes"] / best if best > 0.0 else math.nan,
        ahead=bool(middles["aes"] >= best),
        apart=intervals_apart(scores["aes"], scores[nearest]),
    )


def beside_rivals(part: str, rows: Rows) -> list[str]:
    """Return a table: task × interquartile means of `aes` and its rivals at equal env steps."""
    methods = ("aes", *RIVALS[part])
    head = ["task", "env steps", "seeds", *(f"`{one}`" for one in methods)]
    table = [f"| {' | '.join([*head, '`aes` / best rival'])} | |", "|" + "---|" * (len(head) + 2)]
    found = compared_with_rivals(part, rows)
    for row in found:
        cells = [interval(row.scores[m]) if m in row.scores else "" for m in methods]
        words = [row.env, f"{row.env_steps:,}", seeds_in_words(row.seeds), *cells]
        words += ["" if math.isnan(row.ratio) else f"{row.ratio:.2f}", row.verdict]
        table.append(f"| {' | '.join(words)} |")
    return [*table, "", f"{goal_of(part, found)}{told_apart(found)}"] if found else []


def at_equal_seconds(part: str, rows: Rows) -> list[str]:
    """Return a table: task × scores when the quickest method has made all of its env steps.

    Seconds are of the clock, evaluations included, beside another run; tasks whose runs were made
    on several kinds of processors are left out.
    """
    compared = part.removesuffix("-seconds")
    methods = ("aes", *RIVALS[compared])
    head = ["task", "seconds", "quickest", *(f"`{method}`" for method in methods)]
    table = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    runs, left = [row for row in rows.runs if row["part"] == compared], list[str]()
    for env in dict.fromkeys(row["env"] for row in runs):
        mine = {m: [r for r in runs if (r["env"], competitor(r)) == (env, m)] for m in methods}
        if not all(mine.values()):
            continue
        if len({run["machine"] for each in mine.values() for run in each}) > 1:
            left.append(env)
            continue
        took = {method: median(_seconds(rows, run) for run in mine[method]) for method in methods}
        quickest = min(took, key=lambda method: took[method])
        cells = [
            interval(
                at_budget(
                    rows.evaluations,
                    mine[method][0]["group"],
                    [run["seed"] for run in mine[method]],
                    took[quickest],
                    "wall_seconds",
                )
            )
            for method in methods
        ]
        table.append(f"| {' | '.join([env, f'{took[quickest]:.0f}', f'`{quickest}`', *cells])} |")
    words = f"Left out, since its runs were made on several kinds of processors: {', '.join(left)}."
    return [*table, *(["", words] if left else [])] if len(table) > 2 else []


def _seconds(rows: Rows, run: Row) -> float:
    """Return the seconds of a run until its last evaluation."""
    last = evaluations_of(rows.evaluations, run["group"], run["seed"])[-1]
    return float(last["wall_seconds"])


def _common_seeds(runs: Sequence[Row], env: str, rivals: Sequence[str]) -> set[str]:
    """Return the seeds that `aes` and all of its rivals have on a task."""
    return set.intersection(
        *(
            {row["seed"] for row in runs if (row["env"], competitor(row)) == (env, method)}
            for method in ("aes", *rivals)
        )
    )


def competitor(run: Row) -> str:
    """Return the name under which a run competes: its method, or TD3's first release."""
    return FIRST_RELEASE if run["group"].endswith("-first-release") else run["method"]


def told_apart(found: Sequence[BesideRivals]) -> str:
    """Return the sentence on how many tasks the intervals of the first two do not meet."""
    complete = [row for row in found if row.complete]
    if not complete or len(complete[0].seeds) < SEEDS_OF_INTERVALS:
        return ""
    apart = sum(row.apart for row in complete)
    where = f"on {apart} of {len(complete)}" if apart else "on none of them"
    return f" The 95 % intervals tell the two apart {where}."


def goal_of(part: str, found: Sequence[BesideRivals]) -> str:
    """Return the sentence with the goal and with what came of it on the tasks that are compared."""
    wanted, of = GOALS[part]
    goal = f"Goal: ahead on {wanted} of {of} tasks, nowhere below {LEAST_SHARE}"
    complete = [row for row in found if row.complete]
    if not complete:
        return f"{goal}; none is compared yet."
    ahead, span = sum(row.ahead for row in complete), span_of(complete)
    if len(complete) < of:
        return f"{goal}; so far ahead on {ahead} of the {len(complete)} that are compared, {span}."
    return f"{goal}: {_word(is_met(part, complete))}, ahead on {ahead}, {span}."


def span_of(complete: Sequence[BesideRivals]) -> str:
    """Return the least and the largest share of the best rival's score, in words."""
    shares = [row.share for row in complete]
    return (
        f"with {min(shares):.2f} to {max(shares):.2f} of the best rival's score, counted from a "
        "random policy's"
    )


def is_met(part: str, complete: Sequence[BesideRivals]) -> bool:
    """Return whether `aes` is ahead on as many tasks as the goal asks for, and near elsewhere."""
    ahead = sum(row.ahead for row in complete)
    return ahead >= GOALS[part][0] and min(row.share for row in complete) >= LEAST_SHARE


def steadiness(part: str, rows: Rows) -> list[str]:
    """Return a table: group × last score, worst seed, largest fall and virtual seconds.

    The more evaluations a run has, the larger a fall is found: their number stands beside it.
    """
    return _steadiness([row for row in rows.runs if row["part"] == part], rows)


def steadiness_beside_rivals(part: str, rows: Rows) -> list[str]:
    """Return the same of all runs that `aes` and its rivals are compared by."""
    return _steadiness([row for row in rows.runs if row["part"] in RIVALS], rows)


def _steadiness(runs: Sequence[Row], rows: Rows) -> list[str]:
    if not runs:
        return []
    table = [
        "| runs | seeds | env steps | last | worst seed | evaluations | largest fall "
        "| virtual seconds |",
        "|" + "---|" * 8,
    ]
    for group in dict.fromkeys(row["group"] for row in runs):
        mine = [row for row in runs if row["group"] == group]
        curves = [_curve(rows, row) for row in mine]
        last = np.array([float(curve[-1]["mean"]) for curve in curves])
        falls = [
            stability(np.array([float(each["mean"]) for each in curve])).largest_drawdown
            for curve in curves
        ]
        virtual = [float(curve[-1]["virtual_seconds"] or "nan") for curve in curves]
        cells = [
            f"`{group}`",
            seeds_in_words([int(row["seed"]) for row in mine]),
            f"{min(int(row['env_steps']) for row in mine):,}",
            interval(last),
            f"{last.min():.4g}",
            _span([len(curve) for curve in curves]),
            f"{np.mean(falls):.4g}",
            "" if np.isnan(virtual).any() else f"{np.mean(virtual):.4g}",
        ]
        table.append("| " + " | ".join(cells) + " |")
    return table


def _span(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least}" if least == most else f"{least}–{most}"


def contributions(part: str, rows: Rows) -> list[str]:
    """Return a table: group × what refined (RL) and sampled (ES) individuals did for the mean."""
    runs = [row for row in rows.individuals if row["part"] in (*RIVALS, "aes-others")]
    if not runs:
        return []
    table = [
        "| runs | task | seeds | RL individuals | share of the path, RL | share of the gain, RL "
        "| fitness above the mean's: ES, RL | p: ES, RL |",
        "|" + "---|" * 8,
    ]
    for first, mine in _groups(runs):
        told = _mean(mine, "es_individuals") + _mean(mine, "rl_individuals")
        cells = [
            *first,
            f"{_mean(mine, 'rl_individuals') / told:.0%}",
            *(_percent(_mean(mine, f"rl_{name}_share")) for name in ("path", "gain")),
            _pair(mine, "improvement_over_mean"),
            _pair(mine, "step_size"),
        ]
        table.append("| " + " | ".join(cells) + " |")
    return table


def followed(part: str, rows: Rows) -> list[str]:
    """Return a table: tuned rules × what moved the mean, and what came of its largest moves."""
    runs = [row for row in rows.individuals if row["part"] == "aes-tuning"]
    if not runs:
        return []
    table = [
        "| runs | task | seeds | share of the path from worse individuals: ES, RL "
        "| sampling std: first, last | gain kept after the fittest tenth: ES, RL |",
        "|" + "---|" * 6,
    ]
    for first, mine in _groups(runs):
        shares = [_mean(mine, f"{kind}_worse_path_share") for kind in ("es", "rl")]
        stds = [_mean(mine, f"{end}_sampling_std") for end in ("first", "last")]
        cells = [
            *first,
            ", ".join(_percent(share) or "–" for share in shares),
            ", ".join("–" if math.isnan(std) else f"{std:.3g}" for std in stds),
            _pair(mine, "kept_gain"),
        ]
        table.append("| " + " | ".join(cells) + " |")
    return table


def virtual_times(part: str, rows: Rows) -> list[str]:
    """Return a table: task × virtual seconds in which `aes` has the last score of `p-cem-rl`."""
    return _times(part, rows, "virtual_seconds", "virtual seconds")


def wall_times(part: str, rows: Rows) -> list[str]:
    """Return the same in seconds of two cores that did nothing else."""
    return _times(part, rows, "wall_seconds", "seconds")


def _times(part: str, rows: Rows, clock: str, words: str) -> list[str]:
    runs = [row for row in rows.runs if row["part"] == part]
    table = [
        f"| task | seeds | last score of `p-cem-rl` | its {words} | first with it after "
        "| `aes` reaches it after | share of its whole time | |",
        "|" + "---|" * 8,
    ]
    for env in dict.fromkeys(row["env"] for row in runs):
        ours, theirs = (
            [_curve(rows, row) for row in runs if (row["env"], row["method"]) == (env, method)]
            for method in ("aes", "p-cem-rl")
        )
        if not ours or not theirs:
            continue
        score = interquartile_mean(np.array([float(curve[-1]["mean"]) for curve in theirs]))
        first = interquartile_mean(np.array([float(curve[0]["mean"]) for curve in theirs]))
        seconds = float(np.mean([float(curve[-1][clock]) for curve in theirs]))
        learned = score > max(first, random_means().get(env, -math.inf))
        again = [_again(rows, r) for r in runs if (r["env"], r["method"]) == (env, "aes")]
        after = _when(ours, score, clock, again) if learned else math.nan
        share = after / seconds
        its_first = min(_when(theirs, score, clock), seconds)
        cells = [
            env,
            f"{len(ours)} and {len(theirs)}",
            f"{score:.4g}",
            f"{seconds:.4g}",
            f"{its_first:.4g}" if learned else "",
            f"{after:.4g}" if math.isfinite(after) else "not reached" if learned else "",
            f"{share:.2f}" if math.isfinite(share) else "",
            _word(share <= TIME_GOAL) if learned else "not compared: `p-cem-rl` learned nothing",
        ]
        table.append("| " + " | ".join(cells) + " |")
    return table if len(table) > 2 else []


def _when(
    curves: Sequence[Sequence[Row]], score: float, clock: str, again: Sequence[float] = ()
) -> float:
    """Return the first seconds at which the interquartile mean of the seeds reaches a score.

    As in the other tables, the next one is short of it by a tenth at most; that of the last ones is
    `again`, of one more evaluation of each last policy.
    """
    times = sorted({float(row[clock]) for curve in curves for row in curve})
    middles: list[dict[str, str]] = []
    for at in times:
        newest = [
            [float(row["mean"]) for row in curve if float(row[clock]) <= at] for curve in curves
        ]
        if all(newest):
            middle = interquartile_mean(np.array([means[-1] for means in newest]))
            middles.append({"at": repr(at), "mean": repr(float(middle))})
    if middles and again and not any(map(math.isnan, again)):
        middles.append({"at": "inf", "mean": repr(float(interquartile_mean(np.array(again))))})
    found = reached(middles, score)
    return float(found["at"]) if found else math.inf


def _groups(runs: Sequence[Row]) -> Iterator[tuple[list[str], list[Row]]]:
    """Yield each group's first cells (its name, task and seeds) with its rows."""
    for group in dict.fromkeys(row["group"] for row in runs):
        mine = [row for row in runs if row["group"] == group]
        seeds = seeds_in_words([int(row["seed"]) for row in mine])
        yield [f"`{group}`", mine[0]["env"], seeds], mine


def _curve(rows: Rows, run: Row) -> list[Row]:
    key = (run["group"], run["seed"])
    mine = [row for row in rows.evaluations if (row["group"], row["seed"]) == key]
    return [row for row in mine if not row["of"]]


def _again(rows: Rows, run: Row) -> float:
    """Return the mean of one more evaluation of a run's last policy; NaN where there is none."""
    key = (run["group"], run["seed"], "last again")
    means = [r["mean"] for r in rows.evaluations if (r["group"], r["seed"], r["of"]) == key]
    return float(means[0]) if means else math.nan


def _scores(rows: Rows, runs: Sequence[Row], env_steps: float) -> np.ndarray:
    (group,) = {row["group"] for row in runs}
    return at_budget(rows.evaluations, group, [row["seed"] for row in runs], env_steps)


def _mean(rows: Sequence[Row], column: str) -> float:
    known = [float(row[column]) for row in rows if row[column]]
    return sum(known) / len(known) if known else math.nan


def _percent(share: float) -> str:
    return "" if math.isnan(share) else f"{share:.0%}"


def _pair(rows: Sequence[Row], name: str) -> str:
    values = [_mean(rows, f"{kind}_{name}") for kind in ("es", "rl")]
    return ", ".join("–" if math.isnan(value) else f"{value:.3g}" for value in values)


def _word(met: bool) -> str:
    return "met" if met else "missed"


AES_TABLES: Mapping[str, Callable[[str, Rows], list[str]]] = MappingProxyType(
    {
        "aes-rl": beside_rivals,
        "aes-rl-seconds": at_equal_seconds,
        "aes-rl-fresh": beside_rivals,
        "aes-rl-100k": beside_rivals,
        "aes-virtual": virtual_times,
        "aes-two-cores": wall_times,
        "aes-contributions": contributions,
        "aes-followed": followed,
        "aes-steadiness": steadiness_beside_rivals,
        "aes-ablation": steadiness,
        "aes-others": steadiness,
    }
)
