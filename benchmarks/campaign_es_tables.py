"""Tables of the studies of OpenAI-ES: subspaces, settings beside the preset's, frame skips."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from campaign_tables import (
    SHARES,
    Row,
    Rows,
    at_budget,
    cell_at,
    evaluations_of,
    interval,
    random_means,
    seeds_in_words,
)

from drumline.functional.statistics import interquartile_mean

_SUBSPACES = "es-subspaces"
_SKIPS = "es-frame-skip"
_SHARE = 0.9


class _Runs(NamedTuple):
    """The runs of one group, up to some env steps."""

    group: str
    seeds: list[str]
    curves: Sequence[Row]

    def at(self, env_steps: float) -> np.ndarray:
        """Return each seed's score then."""
        return at_budget(self.curves, self.group, self.seeds, env_steps)

    def scored_from(self, env_steps: float) -> str:
        """Return the env steps that the scores there are of; a span where evaluations are later."""
        firsts = [evaluations_of(self.curves, self.group, seed)[0] for seed in self.seeds]
        latest = [max(env_steps, int(row["env_steps"])) for row in firsts]
        low, high = f"{min(latest):,.0f}", f"{max(latest):,.0f}"
        return low if low == high else f"{low} … {high}"

    def cell(self, env_steps: float) -> str:
        """Return the interquartile mean then, with its interval; empty without all seeds."""
        return cell_at(self.curves, self.group, self.seeds, env_steps)

    def in_words(self) -> str:
        """Return the seeds."""
        return seeds_in_words(sorted(map(int, self.seeds)))


def subspaces(part: str, rows: Rows) -> list[str]:
    """Return a table: task × dimensions, the last score and its share of the search over all.

    Shares count from the score of random actions. A line for each task names the fewest dimensions
    that have 0.9 of it.
    """
    table = [
        "| task | dimensions | seeds | env steps | score | share of all parameters' |",
        "|" + "---|" * 6,
    ]
    findings: list[str] = []
    for env, groups in _by_task(rows, part):
        steps = _common(groups)
        searches = {dimensions_of(mine[0]): _of(mine, rows) for mine in groups}
        whole = searches.get(None)
        zero = random_means()[env]
        best = interquartile_mean(whole.at(steps)) - zero if whole else np.nan
        enough: list[int] = []
        for dimensions in sorted(searches, key=lambda d: (d is None, d or 0)):
            search = searches[dimensions]
            scores = search.at(steps)
            share = (interquartile_mean(scores) - zero) / best
            if dimensions is not None and share >= _SHARE:
                enough.append(dimensions)
            name = "all" if dimensions is None else f"{dimensions:,}"
            cells = [env, name, search.in_words(), search.scored_from(steps), interval(scores)]
            table.append(f"| {' | '.join(cells)} | {share:.2f} |")
        if whole:
            least = f"with {min(enough):,}" if enough else "in none of these subspaces"
            findings.append(f"{env} has {_SHARE} of the score of all parameters {least}.")
    return [*table, "", *findings] if len(table) > 2 else []


def beside_the_preset(part: str, rows: Rows) -> list[str]:
    """Return a table: task × setting at quarters of the env steps that all runs of the task have.

    The first line of a task is the preset, from the search over all parameters of the subspaces.
    """
    table = ["| task | runs | seeds | env steps | 25 % | 50 % | 75 % | 100 % |", "|" + "---|" * 8]
    presets = {
        env: mine
        for env, groups in _by_task(rows, _SUBSPACES)
        for mine in groups
        if dimensions_of(mine[0]) is None
    }
    for env, groups in _by_task(rows, part):
        steps = _common(groups)
        for mine in [*([presets[env]] if env in presets else []), *groups]:
            runs = _of(mine, rows)
            cells = " | ".join(runs.cell(share * steps) for share in SHARES)
            words = [env, f"`{runs.group}`", runs.in_words(), f"{steps:,}", cells]
            table.append("| " + " | ".join(words) + " |")
    return table if len(table) > 2 else []


def frame_skips(part: str, rows: Rows) -> list[str]:
    """Return a table: frame skip × evaluations after as many updates; the preset's skip is 4."""
    groups = [mine for _, groups in _by_task(rows, part) for mine in groups]
    if not groups:
        return []
    envs = {row["env"] for mine in groups for row in mine}
    preset = [row for row in rows.runs if row["part"] == "es-atari" and row["env"] in envs]
    groups += [preset] if preset else []
    by_skip = {frame_skip_of(mine[0]): _of(mine, rows) for mine in groups}
    head = "| frame skip | env steps of 2 updates | score after 2 updates | after 4 |"
    table = [head, "|" + "---|" * 4]
    for skip in sorted(by_skip):
        runs = by_skip[skip]
        curve = [row for row in runs.curves if row["group"] == runs.group and not row["of"]]
        two, four = curve[:2]
        cells = [str(skip), f"{int(two['env_steps']):,}", two["mean"], four["mean"]]
        table.append("| " + " | ".join(cells) + " |")
    return table


ES_TABLES: Mapping[str, Callable[[str, Rows], list[str]]] = MappingProxyType(
    {
        _SUBSPACES: subspaces,
        "es-initial-weights": beside_the_preset,
        "es-variants": beside_the_preset,
        "es-beside-others": beside_the_preset,
        _SKIPS: frame_skips,
    }
)


def _by_task(rows: Rows, part: str) -> Iterator[tuple[str, list[list[Row]]]]:
    """Yield each task of a part with the runs of its groups, in the order of the file."""
    runs = [row for row in rows.runs if row["part"] == part]
    for env in dict.fromkeys(row["env"] for row in runs):
        here = [row for row in runs if row["env"] == env]
        names = dict.fromkeys(row["group"] for row in here)
        yield env, [[row for row in here if row["group"] == name] for name in names]


def _of(mine: Sequence[Row], rows: Rows) -> _Runs:
    return _Runs(mine[0]["group"], [row["seed"] for row in mine], rows.evaluations)


def _common(groups: Sequence[Sequence[Row]]) -> int:
    return min(int(row["env_steps"]) for mine in groups for row in mine)


def dimensions_of(run: Row) -> int | None:
    """Return the dimensions of a run's subspace; None for the search over all parameters."""
    found = re.search(r"--subspace=(\d+)", run["command"])
    return int(found[1]) if found else None


def frame_skip_of(run: Row) -> int:
    """Return the frames for each env step of a run on Atari; 4 is the presets'."""
    found = re.search(r"--env-kwargs=(\{.*?\})", run["command"].replace("\\", ""))
    return int(json.loads(found[1])["frame_skip"]) if found else 4
