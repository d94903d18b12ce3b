"""Tables of AES-RL's runs: beside its rivals, over its rules, by kind of individual, over time."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from campaign_tables import (
    Row,
    Rows,
    at_budget,
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


def beside_rivals(part: str, rows: Rows) -> list[str]:
    """Return a table: task × interquartile means of `aes` and its rivals at equal env steps.

    The seeds are those that all methods of a task have. A task counts once it has as many of them
    as the other tasks have. The share of the best rival is counted from a random policy's return.
    """
    runs = [row for row in rows.runs if row["part"] == part]
    rivals = RIVALS[part]
    table = ["| task | env steps | seeds | `aes` | " + " | ".join(f"`{one}`" for one in rivals)]
    table[0] += " | `aes` / best rival | |"
    table.append("|" + "---|" * (6 + len(rivals)))
    found: list[float] = []
    apart = 0
    envs = dict.fromkeys(row["env"] for row in runs)
    complete = {env: len(_common_seeds(runs, env, rivals)) for env in envs}
    for env in envs:
        by_method = {
            method: [row for row in runs if (row["env"], competitor(row)) == (env, method)]
            for method in ("aes", *rivals)
        }
        there = {method: mine for method, mine in by_method.items() if mine}
        common = set.intersection(*({row["seed"] for row in mine} for mine in there.values()))
        if common:  # while runs are outstanding, one method may be seeds ahead of another
            there = {
                method: [row for row in mine if row["seed"] in common]
                for method, mine in there.items()
            }
        steps = min(int(row["env_steps"]) for mine in there.values() for row in mine)
        scores = {method: _scores(rows, mine, steps) for method, mine in there.items()}
        share, verdict = math.nan, ""
        if complete[env] < max(1, *complete.values()):
            verdict = "runs are outstanding"
        else:
            zero = random_means().get(env, 0.0)
            middles = {m: interquartile_mean(values) - zero for m, values in scores.items()}
            nearest = max(set(middles) - {"aes"}, key=lambda method: middles[method])
            best = middles[nearest]
            apart += intervals_apart(scores["aes"], scores[nearest])
            share = middles["aes"] / best if best > 0.0 else math.nan
            ahead = middles["aes"] >= best
            verdict = "ahead" if ahead else "within 0.9" if share >= LEAST_SHARE else "behind"
            found.append(share if best > 0.0 else (1.0 if ahead else 0.0))
        seeds = {int(row["seed"]) for mine in there.values() for row in mine}
        cells = [interval(scores[m]) if m in scores else "" for m in ("aes", *rivals)]
        words = [env, f"{steps:,}", seeds_in_words(sorted(seeds)), *cells]
        words += ["" if math.isnan(share) else f"{share:.2f}", verdict]
        table.append("| " + " | ".join(words) + " |")
    if len(table) == 2:
        return []
    told = _told_apart(apart, len(found)) if max(complete.values()) >= SEEDS_OF_INTERVALS else ""
    return [*table, "", f"{_goal(part, found)}{told}"]


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


def _told_apart(apart: int, of: int) -> str:
    if not of:
        return ""
    where = f"on {apart} of {of}" if apart else "on none of them"
    return f" The 95 % intervals tell the two apart {where}."


def _goal(part: str, shares: Sequence[float]) -> str:
    """Return the sentence with the goal and with what came of it on the tasks that are compared."""
    wanted, of = GOALS[part]
    goal = f"Goal: ahead on {wanted} of {of} tasks, nowhere below {LEAST_SHARE}"
    ahead = sum(share >= 1.0 for share in shares)
    if not shares:
        return f"{goal}; none is compared yet."
    span = (
        f"with {min(shares):.2f} to {max(shares):.2f} of the best rival's score, counted from a "
        "random policy's"
    )
    if len(shares) < of:
        return f"{goal}; so far ahead on {ahead} of the {len(shares)} that are compared, {span}."
    met = ahead >= wanted and min(shares) >= LEAST_SHARE
    return f"{goal}: {_word(met)}, ahead on {ahead}, {span}."


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
        after = _when(ours, score, clock) if learned else math.nan
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


def _when(curves: Sequence[Sequence[Row]], score: float, clock: str) -> float:
    """Return the first seconds at which the interquartile mean of the seeds reaches a score.

    As in the other tables, the next one is short of it by a tenth at most.
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
