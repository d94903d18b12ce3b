"""Choices that a campaign makes by a rule fixed before its runs: flags of the reported runs.

Tuning groups with one `choice` and the same flags, apart from those of evaluations, are a
candidate, on one task or on several. Its score on a task is the mean, over four shares of the env
steps, of the interquartile mean of its seeds, counted from random actions and divided by the
largest magnitude of the candidates; its score is the mean over the tasks. The flags of the best
candidate, or of the next ones by `place`, go before those of every group with that name as
`chosen`. A seed's score at some env steps is that of its newest evaluation by then: so the choices
were made, and so they stay, though the tables are on the line between evaluations since.

A choice can have two stages: groups of the second have a `choice` of their own, and their flags
are what the first has `chosen`. They are scored together with their runs of the first stage.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from campaign_queue import Group, Run
from campaign_tables import LATE, SHARES, evaluations_of, random_means

from drumline.functional.statistics import interquartile_mean

Row = Mapping[str, str]


def resolved(
    groups: Sequence[Group],
    rows: Sequence[Row],
    curves: Sequence[Row],
    failed: Callable[[Run], bool],
) -> list[Group]:
    """Return the groups with the flags of each choice whose runs have all ended."""
    found = list(groups)
    for name in choices(groups):
        order = ranking(name, found, rows, curves, failed)
        found = [
            replace(group, flags=(*order[group.place - 1], *group.flags), chosen="")
            if group.chosen == name and group.place <= len(order)
            else group
            for group in found
        ]
    return found


def candidate(group: Group) -> tuple[str, ...]:
    """Return a group's flags without those of evaluations, which change nothing that is learned."""
    return tuple(flag for flag in group.flags if not flag.startswith("--evaluate-"))


def choices(groups: Sequence[Group]) -> list[str]:
    """Return the names of all choices."""
    return list(dict.fromkeys(group.choice for group in groups if group.choice))


def ranking(
    name: str,
    groups: Sequence[Group],
    rows: Sequence[Row],
    curves: Sequence[Row],
    failed: Callable[[Run], bool],
) -> list[tuple[str, ...]]:
    """Return the flags of a choice's candidates, best first; nothing while runs are outstanding.

    Those of evaluations are of a candidate's first group.
    """
    mine = [group for group in groups if group.choice == name]
    if any(group.chosen for group in mine):
        return []
    rows = of_these_commands(groups, rows)
    ended = {(row["group"], row["seed"]) for row in rows}
    runs = [Run(group, seed) for group in mine for seed in group.seeds]
    if not all((run.group.name, str(run.seed)) in ended or failed(run) for run in runs):
        return []
    lost = {candidate(run.group) for run in runs if (run.group.name, str(run.seed)) not in ended}
    left = [group for group in mine if candidate(group) not in lost]
    tasks = {(group.env, candidate(group)) for group in left}
    names = choices(groups)
    earlier = [
        group
        for group in groups
        if group.choice in names[: names.index(name)] and (group.env, candidate(group)) in tasks
    ]
    found = scores([*left, *earlier], rows, curves)
    first: dict[tuple[str, ...], tuple[str, ...]] = {}
    for group in mine:
        first.setdefault(candidate(group), group.flags)
    return [first[one] for one in sorted(found, key=lambda one: found[one], reverse=True)]


def of_these_commands(groups: Sequence[Group], rows: Sequence[Row]) -> list[Row]:
    """Return the rows without those that a group's runs made before its flags were changed."""
    own = {
        (group.name, str(seed)): Run(group, seed).command_line
        for group in groups
        for seed in group.seeds
    }
    found: list[Row] = []
    for row in rows:
        command = own.get((row["group"], row["seed"]))
        if command is None or row.get("command", command) == command:
            found.append(row)
    return found


def scores(
    groups: Sequence[Group], rows: Sequence[Row], curves: Sequence[Row]
) -> dict[tuple[str, ...], float]:
    """Return each candidate's score, by its flags; groups with equal flags share their seeds."""
    random = random_means()
    alike: dict[tuple[str, tuple[str, ...]], list[Group]] = {}
    for group in groups:
        alike.setdefault((group.env, candidate(group)), []).append(group)
    of_task: dict[str, dict[tuple[str, ...], float]] = {}
    for (env, flags), equal in alike.items():
        mine = {group.name: [row for row in rows if row["group"] == group.name] for group in equal}
        seeds = {name: [row["seed"] for row in own] for name, own in mine.items()}
        steps = min(int(row["env_steps"]) for own in mine.values() for row in own)
        means = [
            interquartile_mean(
                np.concatenate(
                    [_newest(curves, name, own, share * steps) for name, own in seeds.items()]
                )
            )
            for share in SHARES
        ]
        of_task.setdefault(env, {})[flags] = sum(means) / len(means) - random[env]
    every = dict.fromkeys(candidate(group) for group in groups)
    complete = [flags for flags in every if all(flags in task for task in of_task.values())]
    largest = {env: max(map(abs, task.values())) or 1.0 for env, task in of_task.items()}
    return {
        flags: sum(task[flags] / largest[env] for env, task in of_task.items()) / len(of_task)
        for flags in complete
    }


def _newest(
    curves: Sequence[Row], group: str, seeds: Sequence[str], env_steps: float
) -> np.ndarray:
    """Return each seed's score at its newest evaluation by `env_steps`; else at its first."""
    scores: list[float] = []
    for seed in seeds:
        mine = evaluations_of(curves, group, seed)
        there = [row for row in mine if int(row["env_steps"]) <= LATE * env_steps]
        scores.append(float((there[-1] if there else mine[0])["mean"]))
    return np.array(scores)


def choice_table(
    groups: Sequence[Group],
    rows: Sequence[Row],
    curves: Sequence[Row],
    failed: Callable[[Run], bool],
) -> list[str]:
    """Return what the choices among the groups of a part came to."""
    lines = ["| choice | candidates | chosen |", "|---|---|---|"]
    for name in choices(groups):
        mine = [group for group in groups if group.choice == name]
        count = len({(candidate(group), group.place) for group in mine})
        order = ranking(name, groups, rows, curves, failed)
        words = f"`{' '.join(order[0])}`" if order else "runs are outstanding"
        lines.append(f"| {name} | {count} | {words} |")
    return lines if len(lines) > 2 else []
