"""Tables of docs/results.md from a campaign's rows, between the markers of each part."""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from goals import reached

from drumline.functional.statistics import (
    bootstrap_interval,
    interquartile_mean,
    interquartile_mean_along,
)

Row = Mapping[str, str]
RESULTS = Path(__file__).resolve().parent / "results"
PUBLISHED = RESULTS / "published_es_mujoco.csv"
PUBLISHED_GAMES = RESULTS / "published_es_atari.csv"
RANDOM = RESULTS / "random_policies.csv"
RESAMPLES = 9_999
SHARES = (0.25, 0.5, 0.75, 1.0)
_PART = re.compile(r"(<!-- begin ([\w-]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def fill(text: str, runs: Sequence[Row], curves: Sequence[Row]) -> str:
    """Return a page with the tables of its parts made anew; parts without rows say so."""

    tables = {
        "openai-es": published_scores,
        "es-atari": published_games,
        "hts-goals": shares_of_the_baseline,
    }

    def table(match: re.Match[str]) -> str:
        part = match[2]
        make = tables.get(part, scores_at_budgets)
        lines = make([row for row in runs if row["part"] == part], curves)
        return match[1] + "\n".join(lines or ["No run has ended yet."]) + "\n" + match[3]

    return _PART.sub(table, text)


def scores_at_budgets(runs: Sequence[Row], curves: Sequence[Row]) -> list[str]:
    """Return a table: group × shares of its env steps, interquartile means with 95 % intervals."""
    if not runs:
        return []
    lines = ["| runs | seeds | env steps | 25 % | 50 % | 75 % | 100 % |", "|" + "---|" * 7]
    for group in dict.fromkeys(row["group"] for row in runs):
        mine = [row for row in runs if row["group"] == group]
        steps = min(int(row["env_steps"]) for row in mine)
        cells = [
            interval(at_budget(curves, group, [row["seed"] for row in mine], share * steps))
            for share in SHARES
        ]
        seeds = seeds_in_words([int(row["seed"]) for row in mine])
        lines.append(f"| `{group}` | {seeds} | {steps:,} | " + " | ".join(cells) + " |")
    return lines


def shares_of_the_baseline(runs: Sequence[Row], curves: Sequence[Row]) -> list[str]:
    """Return a table: environment × shares of the env steps, `hts` over `ppo`.

    A share is the ratio of their interquartile means, both counted from the mean return of random
    actions, with the 95 % interval of a bootstrap that draws the seeds of both.
    """
    with open(RANDOM, newline="") as lines:
        random = {row["env"]: float(row["mean"]) for row in csv.DictReader(lines)}
    table = ["| task | seeds | env steps | 25 % | 50 % | 75 % | 100 % | |", "|" + "---|" * 8]
    pairs = dict.fromkeys((row["env"], int(row["env_steps"])) for row in runs)
    for env, steps in pairs:
        here = [row for row in runs if (row["env"], int(row["env_steps"])) == (env, steps)]
        ours, theirs = ([row for row in here if row["method"] == one] for one in ("hts", "ppo"))
        if not ours or not theirs:
            continue
        found = [
            ratio(*(_scores(curves, rows, share * steps) - random[env] for rows in (ours, theirs)))
            for share in SHARES
        ]
        met = all(each.middle >= 0.95 and each.low >= 0.8 for each in found)
        seeds = " and ".join(
            seeds_in_words([int(row["seed"]) for row in rows]) for rows in (ours, theirs)
        )
        cells = " | ".join(f"{r.middle:.2f} ({r.low:.2f} … {r.high:.2f})" for r in found)
        table.append(f"| {env} | {seeds} | {steps:,} | {cells} | {'met' if met else 'missed'} |")
    return table if len(table) > 2 else []


class Ratio(NamedTuple):
    """A ratio of interquartile means with its 95 % interval."""

    middle: float
    low: float
    high: float


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


def at_budget(
    curves: Sequence[Row], group: str, seeds: Sequence[str], env_steps: float
) -> np.ndarray:
    """Return each seed's score at its first evaluation at `env_steps` or later."""
    found: list[float] = []
    for seed in seeds:
        mine = [row for row in curves if (row["group"], row["seed"]) == (group, seed)]
        later = [row for row in mine if int(row["env_steps"]) >= env_steps and not row["of"]]
        found.append(float(later[0]["mean"]))
    return np.array(found)


def interval(values: np.ndarray) -> str:
    """Return the interquartile mean with its 95 % interval."""
    middle = _short(interquartile_mean(values))
    if values.size < 3:
        return middle
    low, high = bootstrap_interval(values, seed=0, statistic=interquartile_mean_along)
    return f"{middle} ({_short(low)} … {_short(high)})"


def published_scores(runs: Sequence[Row], curves: Sequence[Row]) -> list[str]:
    """Return OpenAI-ES's table: env steps to shares of TRPO's score, published and ours.

    Ours is the median of the seeds, where more than half of them reach the score; Gym's v1 there
    and Gymnasium's v5 here.
    """
    if not runs:
        return []
    with open(PUBLISHED, newline="") as lines:
        published = list(csv.DictReader(lines))
    table = [
        "| task | score | published env steps | ours, median | seeds (reached) | |",
        "|" + "---|" * 6,
    ]
    for row in published:
        mine = [run for run in runs if run["env"] == f"{row['environment']}-v5"]
        if not mine:
            continue
        score, budget = float(row["trpo_score"]), float(row["es_env_steps"])
        steps = [_reached(curves, run, score) for run in mine]
        there = [each for each in steps if math.isfinite(each)]
        middle = median(steps)
        ours = f"{middle:,.0f}" if math.isfinite(middle) else "not reached"
        verdict = "met" if middle <= budget else "missed"
        task = f"{row['environment']} {row['percent_of_trpo_final']} %"
        seeds = f"{len(steps)} ({len(there)})"
        table.append(f"| {task} | {score:g} | {budget:,.0f} | {ours} | {seeds} | {verdict} |")
    return table


def published_games(runs: Sequence[Row], curves: Sequence[Row]) -> list[str]:
    """Return OpenAI-ES's Atari table: published scores beside ours, with the env steps of ours.

    The published ones are after 250 million env steps (a billion frames); both are the mean of ten
    episodes with up to 30 no-ops at the start. Blank: the paper has no number.
    """
    if not runs:
        return []
    with open(PUBLISHED_GAMES, newline="") as lines:
        published = list(csv.DictReader(lines))
    table = [
        "| game | DQN | A3C, 1 day | ES, 1 hour | ours | seeds | env steps of ours |",
        "|" + "---|" * 7,
    ]
    for row in published:
        mine = [run for run in runs if run["env"] == row["environment"]]
        if not mine:
            continue
        steps = min(int(run["env_steps"]) for run in mine)
        ours = interval(np.array([float(run["final_mean"]) for run in mine]))
        seeds = seeds_in_words([int(run["seed"]) for run in mine])
        cells = [row["game"], row["dqn"], row["a3c_ff_1_day"], row["es_ff_1_hour"], ours, seeds]
        table.append("| " + " | ".join([*cells, f"{steps:,}"]) + " |")
    return table if len(table) > 2 else []


def _reached(curves: Sequence[Row], run: Row, score: float) -> float:
    mine = [row for row in curves if (row["group"], row["seed"]) == (run["group"], run["seed"])]
    found = reached([dict(row) for row in mine], score)
    return float(found["env_steps"]) if found else math.inf


def seeds_in_words(seeds: Sequence[int]) -> str:
    """Return a span where the seeds follow each other, as 0–4, else all of them."""
    ordered = sorted(seeds)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]}–{ordered[-1]}"
    return ", ".join(map(str, ordered))


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
