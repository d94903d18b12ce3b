"""Tables of docs/ from a campaign's rows, between the markers of each part.

Below each table stands what of its runs has no row yet.
"""

import csv
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from campaign_queue import Group, Home, Run
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
SINGLE_ACTIONS = RESULTS / "constant_actions.csv"
RESAMPLES = 9_999
LISTED = 16
"""Groups that a sentence names; of more it gives the number."""
SHARES = (0.25, 0.5, 0.75, 1.0)
LATE = 1.03
"""Share of some env steps by which an evaluation there may be late: it stands behind an update."""
_PART = re.compile(r"(<!-- begin ([\w-]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


class Rows(NamedTuple):
    """Rows of all files of a campaign's results."""

    runs: Sequence[Row]
    evaluations: Sequence[Row] = ()
    individuals: Sequence[Row] = ()
    scripts: Mapping[str, Sequence[Row]] = MappingProxyType({})
    """By the file's name."""


def fill(text: str, rows: Rows, groups: Sequence[Group] = (), home: Home | None = None) -> str:
    """Return a page with the tables of its parts made anew; parts without rows say so."""
    from campaign_aes_tables import AES_TABLES  # it takes its parts from here
    from campaign_choice import choice_table
    from campaign_curves import curves_line
    from campaign_es_tables import ES_TABLES
    from campaign_headlines import headlines
    from campaign_hts_tables import HTS_TABLES

    made: Mapping[str, Callable[[str, Rows], list[str]]] = {
        "openai-es": of_runs(published_scores),
        "es-atari": of_runs(published_games),
        "hts-atari": of_runs(last_scores),
        "hts-football": of_runs(last_scores),
        **AES_TABLES,
        **ES_TABLES,
        **HTS_TABLES,
        "headlines": headlines,
    }

    def table(match: re.Match[str]) -> str:
        part = match[2]
        lines = made.get(part, of_runs(scores_at_budgets))(part, rows)
        paragraphs = [lines or ["No run has ended yet."]]
        paragraphs.append(curves_line(part) if lines else [])
        if home is not None:
            own = [group for group in groups if group.part == part]
            failed = partial(_failed, home)
            paragraphs.append(choice_table(own, rows.runs, rows.evaluations, failed))
            paragraphs.append(outstanding(own, rows, home))
        words = "\n\n".join("\n".join(each) for each in paragraphs if each)
        return match[1] + words + "\n" + match[3]

    return _PART.sub(table, text)


def _failed(home: Home, run: Run) -> bool:
    return home.state(run) == "failed"


def of_runs(
    make: Callable[[Sequence[Row], Sequence[Row]], list[str]],
) -> Callable[[str, Rows], list[str]]:
    """Return a maker of a part's table from its runs and all evaluations."""
    return lambda part, rows: make(
        [row for row in rows.runs if row["part"] == part], rows.evaluations
    )


def outstanding(groups: Sequence[Group], rows: Rows, home: Home) -> list[str]:
    """Return a sentence with the runs of a part that have no row yet, and why if there is more."""
    every = [*rows.runs, *(row for table in rows.scripts.values() for row in table)]
    ended = {(row["group"], row["seed"]) for row in every}
    words: list[str] = []
    for group in groups:
        left = [seed for seed in group.seeds if (group.name, str(seed)) not in ended]
        if not left:
            continue
        some = len(left) < len(group.seeds)
        notes = [f"seed{'s' if len(left) > 1 else ''} {seeds_in_words(left)}"] if some else []
        if reason := home.reason(group):
            notes.append(f"skipped: {reason}" if not group.chosen else f"waits {reason}")
        words.append(f"`{group.name}`" + (f" ({'; '.join(notes)})" if notes else ""))
    if not words:
        return []
    more = f" and {len(words) - LISTED} more" if len(words) > LISTED else ""
    return [f"Not run yet: {', '.join(words[:LISTED])}{more}."]


def scores_at_budgets(runs: Sequence[Row], curves: Sequence[Row]) -> list[str]:
    """Return a table: group × shares of its env steps, interquartile means with 95 % intervals."""
    if not runs:
        return []
    lines = ["| runs | seeds | env steps | 25 % | 50 % | 75 % | 100 % |", "|" + "---|" * 7]
    for group in dict.fromkeys(row["group"] for row in runs):
        mine = [row for row in runs if row["group"] == group]
        steps = min(int(row["env_steps"]) for row in mine)
        own = [row["seed"] for row in mine]
        cells = [cell_at(curves, group, own, share * steps) for share in SHARES]
        seeds = seeds_in_words([int(seed) for seed in own])
        lines.append(f"| `{group}` | {seeds} | {steps:,} | " + " | ".join(cells) + " |")
    return lines


def random_means() -> dict[str, float]:
    """Return the mean return of random actions in each environment."""
    with open(RANDOM, newline="") as lines:
        return {row["env"]: float(row["mean"]) for row in csv.DictReader(lines)}


def at_budget(
    curves: Sequence[Row],
    group: str,
    seeds: Sequence[str],
    budget: float,
    axis: str = "env_steps",
) -> np.ndarray:
    """Return each seed's score at a budget of `axis`, on the line between its evaluations there.

    The newest one by then would be of fewer env steps, and the next one of more, by as many as a
    method's updates are long. Before the first evaluation it is that one's score, behind the last
    one that one's.
    """
    scores: list[float] = []
    for seed in seeds:
        mine = evaluations_of(curves, group, seed)
        places, means = ([float(row[name]) for row in mine] for name in (axis, "mean"))
        scores.append(float(np.interp(budget, places, means)))
    return np.array(scores)


def cell_at(curves: Sequence[Row], group: str, seeds: Sequence[str], env_steps: float) -> str:
    """Return the interquartile mean at `env_steps`; empty before a seed's first evaluation."""
    first = [int(evaluations_of(curves, group, seed)[0]["env_steps"]) for seed in seeds]
    if max(first) > LATE * env_steps:
        return ""
    return interval(at_budget(curves, group, seeds, env_steps))


def evaluations_of(curves: Sequence[Row], group: str, seed: str) -> list[Row]:
    """Return a run's evaluations, in their order."""
    return _by_run(_Same(curves))[group, seed]


class _Same:
    """A sequence of rows as a key: equal to itself alone. It is not changed once it is read."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def __hash__(self) -> int:
        return id(self.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.rows is other.rows


@lru_cache(maxsize=2)
def _by_run(curves: _Same) -> dict[tuple[str, str], list[Row]]:
    """Return the evaluations of each group and seed; a page asks for thousands of scores."""
    found = defaultdict[tuple[str, str], list[Row]](list)
    for row in curves.rows:
        if not row["of"]:
            found[row["group"], row["seed"]].append(row)
    return dict(found)


def interval(values: np.ndarray) -> str:
    """Return the interquartile mean with its 95 % interval; of three values that is their span."""
    middle = _short(interquartile_mean(values))
    if values.size < 3:
        return middle
    low, high = bootstrap_interval(values, seed=0, statistic=interquartile_mean_along)
    return f"{middle} ({_short(low)} … {_short(high)})"


def intervals_apart(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether the 95 % intervals of two interquartile means do not overlap."""
    if min(one.size, other.size) < 3:
        return False
    (low, high), (least, most) = (
        bootstrap_interval(values, seed=0, statistic=interquartile_mean_along)
        for values in (one, other)
    )
    return high < least or most < low


class PublishedRow(NamedTuple):
    """A row of OpenAI-ES's table: a score, and the env steps to it, published and of our seeds."""

    task: str
    score: float
    budget: float
    steps: Sequence[float]
    """Infinite for a seed that does not reach the score; none where no run is long enough."""
    begun: bool
    """Whether there are runs, if only shorter ones."""

    @property
    def met(self) -> bool:
        """Whether the median seed reaches the score within the published env steps."""
        return bool(self.steps) and median(self.steps) <= self.budget


def published_rows(runs: Sequence[Row], curves: Sequence[Row]) -> list[PublishedRow]:
    """Return OpenAI-ES's table; of the runs of a task those count that are as long as published.

    Of each seed it is the shortest of them. Shorter ones count where all of them have reached the
    score: their length has no part in it then.
    """
    with open(PUBLISHED, newline="") as lines:
        published = list(csv.DictReader(lines))
    found: list[PublishedRow] = []
    for row in published:
        score, budget = float(row["trpo_score"]), float(row["es_env_steps"])
        task = f"{row['environment']} {row['percent_of_trpo_final']} %"
        here = [run for run in runs if run["env"] == f"{row['environment']}-v5"]
        mine = _long_enough(here, budget)
        steps = [_reached(curves, run, score) for run in mine]
        steps += _reached_by_shorter(here, mine, curves, score)
        found.append(PublishedRow(task, score, budget, steps, bool(here)))
    return found


def published_scores(runs: Sequence[Row], curves: Sequence[Row]) -> list[str]:
    """Return OpenAI-ES's table: env steps to shares of TRPO's score, published and ours.

    Ours is the median of the seeds, where more than half of them reach the score; Gym's v1 there
    and Gymnasium's v5 here.
    """
    if not runs:
        return []
    table = [
        "| task | score | published env steps | ours, median | seeds (reached) | |",
        "|" + "---|" * 6,
    ]
    rows = published_rows(runs, curves)
    for row in rows:
        begin = f"| {row.task} | {row.score:g} | {row.budget:,.0f} |"
        if not row.steps:
            table.append(f"{begin} | | {'runs are too short' if row.begun else 'not run'} |")
            continue
        middle, there = median(row.steps), sum(map(math.isfinite, row.steps))
        ours = f"{middle:,.0f}" if math.isfinite(middle) else "not reached"
        verdict = "met" if row.met else "missed"
        table.append(f"{begin} {ours} | {len(row.steps)} ({there}) | {verdict} |")
    met, made = sum(row.met for row in rows), sum(bool(row.steps) for row in rows)
    return [*table, "", f"Met: {met} of the {made} rows that were run, of {len(rows)} in all."]


def _long_enough(runs: Sequence[Row], budget: float) -> list[Row]:
    """Return the shortest run of each seed among those that reach a budget."""
    there = [run for run in runs if int(run["env_steps"]) >= 0.99 * budget]
    longest_first = sorted(there, key=lambda run: -int(run["env_steps"]))
    return list({run["seed"]: run for run in longest_first}.values())


def _reached_by_shorter(
    runs: Sequence[Row], long: Sequence[Row], curves: Sequence[Row], score: float
) -> list[float]:
    """Return the env steps of the other seeds to a score; none where one of them has not got it."""
    others = {run["seed"] for run in runs} - {run["seed"] for run in long}
    steps = [
        min(_reached(curves, run, score) for run in runs if run["seed"] == seed)
        for seed in sorted(others)
    ]
    return steps if all(map(math.isfinite, steps)) else []


def published_games(runs: Sequence[Row], curves: Sequence[Row]) -> list[str]:
    """Return OpenAI-ES's Atari table: published scores beside ours, with the env steps of ours.

    ES's published ones are after 250 million env steps (a billion frames), A3C's and A2C's after
    320 million frames; all are the mean of ten episodes with up to 30 no-ops at the start. Blank:
    the paper has no number, or random actions and single ones were not measured. ±: our source of
    the paper's table has lost the sign.
    """
    if not runs:
        return []
    with open(PUBLISHED_GAMES, newline="") as lines:
        published = list(csv.DictReader(lines))
    table = [
        "| game | random actions | best single action | DQN | A3C, 1 day | HyperNEAT | ES, 1 hour "
        "| A2C | ours | seeds | env steps of ours |",
        "|" + "---|" * 11,
    ]
    by_action = _scores_of_actions()
    for row in published:
        mine = [run for run in runs if run["env"] == row["environment"]]
        if not mine:
            continue
        steps = min(int(run["env_steps"]) for run in mine)
        ours = interval(np.array([float(run["final_mean"]) for run in mine]))
        seeds = seeds_in_words([int(run["seed"]) for run in mine])
        simple = by_action.get(row["environment"], {})
        single = [score for action, score in simple.items() if action != "random"]
        least = [
            _short(simple["random"]) if "random" in simple else "",
            _short(max(single)) if single else "",
        ]
        published = [re.sub(r"^\|(.*)\|$", r"±\1", row[name]) for name in _PUBLISHED_COLUMNS]
        cells = [row["game"], *least, *published, ours, seeds]
        table.append("| " + " | ".join([*cells, f"{steps:,}"]) + " |")
    return table if len(table) > 2 else []


_PUBLISHED_COLUMNS = ("dqn", "a3c_ff_1_day", "hyperneat", "es_ff_1_hour", "a2c_ff")


def _scores_of_actions() -> dict[str, dict[str, float]]:
    """Return the mean return of random actions and of each action alone, by game."""
    found: dict[str, dict[str, float]] = {}
    with open(SINGLE_ACTIONS, newline="") as lines:
        for row in csv.DictReader(lines):
            found.setdefault(row["env"], {})[row["action"]] = float(row["mean"])
    return found


def last_scores(runs: Sequence[Row], curves: Sequence[Row]) -> list[str]:
    """Return a table: group × last and best evaluation, each seed's in turn."""
    if not runs:
        return []
    table = [
        "| task | method | runs | seeds | env steps | last scores | best scores |",
        "|" + "---|" * 7,
    ]
    for group in dict.fromkeys(row["group"] for row in runs):
        mine = sorted((row for row in runs if row["group"] == group), key=lambda r: int(r["seed"]))
        steps = min(int(row["env_steps"]) for row in mine)
        seeds = seeds_in_words([int(row["seed"]) for row in mine])
        last, best = (
            ", ".join(_short(float(row[column])) for row in mine)
            for column in ("final_mean", "best_mean")
        )
        words = [mine[0]["env"], f"`{mine[0]['method']}`", f"`{group}`", seeds, f"{steps:,}"]
        table.append("| " + " | ".join([*words, last, best]) + " |")
    return table


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
