"""Choices that a campaign makes by a rule fixed before its runs: flags of the reported runs.

Tuning groups with one `choice` and the same flags are a candidate, on one task or on several. Its
score on a task is the mean, over four shares of the env steps, of the interquartile mean of its
seeds, counted from random actions and divided by the best candidate's; its score is the mean over
the tasks. The best candidate's flags go before those of every group with that name as `chosen`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from campaign_queue import Group, Run
from campaign_tables import SHARES, at_budget, random_means

from drumline.functional.statistics import interquartile_mean

Row = Mapping[str, str]


def resolved(
    groups: Sequence[Group],
    rows: Sequence[Row],
    curves: Sequence[Row],
    failed: Callable[[Run], bool],
) -> list[Group]:
    """Return the groups with the flags of each choice whose runs have all ended."""
    flags = {name: best(name, groups, rows, curves, failed) for name in choices(groups)}
    return [
        replace(group, flags=(*flags[group.chosen], *group.flags), chosen="")
        if flags.get(group.chosen)
        else group
        for group in groups
    ]


def choices(groups: Sequence[Group]) -> list[str]:
    """Return the names of all choices."""
    return list(dict.fromkeys(group.choice for group in groups if group.choice))


def best(
    name: str,
    groups: Sequence[Group],
    rows: Sequence[Row],
    curves: Sequence[Row],
    failed: Callable[[Run], bool],
) -> tuple[str, ...]:
    """Return the flags of a choice's best candidate; nothing while runs are outstanding."""
    mine = [group for group in groups if group.choice == name]
    ended = {(row["group"], row["seed"]) for row in rows}
    runs = [Run(group, seed) for group in mine for seed in group.seeds]
    if not all((run.group.name, str(run.seed)) in ended or failed(run) for run in runs):
        return ()
    lost = {run.group.flags for run in runs if (run.group.name, str(run.seed)) not in ended}
    found = scores([group for group in mine if group.flags not in lost], rows, curves)
    return max(found, key=lambda flags: found[flags]) if found else ()


def scores(
    groups: Sequence[Group], rows: Sequence[Row], curves: Sequence[Row]
) -> dict[tuple[str, ...], float]:
    """Return each candidate's score, by its flags."""
    random = random_means()
    of_task: dict[str, dict[tuple[str, ...], float]] = {}
    for group in groups:
        mine = [row for row in rows if row["group"] == group.name]
        steps, seeds = min(int(row["env_steps"]) for row in mine), [row["seed"] for row in mine]
        means = [
            interquartile_mean(at_budget(curves, group.name, seeds, share * steps))
            for share in SHARES
        ]
        gain = sum(means) / len(means) - random[group.env]
        of_task.setdefault(group.env, {})[group.flags] = gain
    every = dict.fromkeys(group.flags for group in groups)
    complete = [flags for flags in every if all(flags in task for task in of_task.values())]
    return {
        flags: sum(task[flags] / max(task.values()) for task in of_task.values()) / len(of_task)
        for flags in complete
    }


def choice_table(
    groups: Sequence[Group],
    rows: Sequence[Row],
    curves: Sequence[Row],
    failed: Callable[[Run], bool],
) -> list[str]:
    """Return what the choices among the groups of a part came to."""
    lines = ["| choice | candidates | chosen |", "|---|---|---|"]
    for name in choices(groups):
        count = len({group.flags for group in groups if group.choice == name})
        flags = best(name, groups, rows, curves, failed)
        words = f"`{' '.join(flags)}`" if flags else "runs are outstanding"
        lines.append(f"| {name} | {count} | {words} |")
    return lines if len(lines) > 2 else []
