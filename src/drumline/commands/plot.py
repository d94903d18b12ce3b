"""`drumline plot RUN…`."""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from drumline.commands.command_line import (
    CommandLine,
    WrongUse,
    refuse_other_pictures,
    refuse_unwritable,
)

if TYPE_CHECKING:
    from drumline.display.comparison import Group
    from drumline.display.contributions import Individuals
    from drumline.display.run_data import RunCurve
    from drumline.runs.folder import RunFolder


@dataclass(frozen=True)
class PlotFlags:
    """Flags of `drumline plot`."""

    out: Path = Path("curve.png")
    """Write the picture to this file: a .png, or a .pdf or .svg for papers."""
    x: Literal["env_steps", "wall_seconds"] = "env_steps"
    """Horizontal axis of the curves."""
    y: str = "episode_return_mean"
    """Column of metrics.csv to draw, as in --y approximate_kl_nats."""
    title: str = ""
    """Title of the picture; by default the run's name, or how many runs there are."""
    contributions: bool = False
    """Draw the contributions of either kind of individual (ES, RL) to the mean, for runs of aes."""
    json: bool = False
    """Print one JSON object; with --contributions it has the numbers of each run."""


def command(line: CommandLine) -> int:
    """Draw learning curves; imports no code that a run folder names."""
    flags = line.flags("RUN…", {"plot": PlotFlags()})["plot"]
    if not line.names:
        raise WrongUse("give at least one RUN before the flags, as in: drumline plot last")
    refuse_unwritable(flags.out)
    refuse_other_pictures(flags.out)
    from drumline.runs.folder import RunFolder

    opened = RunFolder.open_each(line.names)
    if flags.contributions:
        from drumline.display.contributions import draw_contributions, read_individuals

        individuals = [read_individuals(Path(folder.shown)) for folder in opened]
        draw_contributions(individuals, flags.out, x=flags.x, title=flags.title)
        answer = {"runs": [_numbers(each) for each in individuals]}
    else:
        answer = _draw(opened, flags)
    print(json.dumps({**answer, "picture": str(flags.out)}) if flags.json else flags.out)
    return 0


def _draw(folders: "Sequence[RunFolder]", flags: PlotFlags) -> dict[str, Any]:
    """Draw curves: runs of one config with several seeds as a group, with what differs as name."""
    from drumline.commands.without_updates import with_updates
    from drumline.display.comparison import grouped, seeds_figure
    from drumline.display.plots import curves_figure, write_picture
    from drumline.display.run_data import column_names, read_run
    from drumline.recipes.methods import with_late_settings

    folders = with_updates(folders)
    for folder in folders:
        columns = column_names(Path(folder.shown))
        if flags.y not in columns:
            close = difflib.get_close_matches(flags.y, columns, n=1)
            there = f"; did you mean {close[0]}?" if close else f": it has {', '.join(columns)}"
            raise WrongUse(f"--y {flags.y}: {folder.shown} has no such column{there}")
    curves = [read_run(Path(each.shown), y=flags.y) for each in folders]
    documents = [with_late_settings(folder.document) for folder in folders]
    groups = grouped(list(zip(documents, curves, strict=True)))
    if len(groups) < len(curves):
        figure = seeds_figure(groups, x=flags.x, title=flags.title)
    else:
        figure = curves_figure(_named(groups), x=flags.x, title=flags.title)
    write_picture(figure, flags.out)
    return {
        "runs": [{"run": curve.label} for curve in curves],
        "groups": [
            {"group": group.label, "runs": [run.label for run in group.runs]} for group in groups
        ],
    }


def _named(groups: "Sequence[Group]") -> "list[RunCurve]":
    """Return the curves of groups of one run; several are named by the settings that differ."""
    if len(groups) == 1:
        return list(groups[0].runs)
    return [replace(group.runs[0], label=group.label) for group in groups]


def _numbers(individuals: "Individuals") -> dict[str, Any]:
    from drumline.display.contributions import KINDS, contribution

    found = {kind: contribution(individuals, kind)._asdict() for kind in KINDS}
    # The mean of no individuals is nan, which JSON does not have.
    known = {
        kind: {name: None if value != value else value for name, value in numbers.items()}
        for kind, numbers in found.items()
    }
    return {"run": individuals.label, **known}
