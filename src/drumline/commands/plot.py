"""`drumline plot RUN…`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from drumline.commands.command_line import CommandLine, WrongUse, refuse_unwritable

if TYPE_CHECKING:
    from drumline.display.contributions import Individuals


@dataclass(frozen=True)
class PlotFlags:
    """Flags of `drumline plot`."""

    out: Path = Path("curve.png")
    """Write the picture to this file."""
    x: Literal["env_steps", "wall_seconds"] = "env_steps"
    """Horizontal axis of the curves."""
    title: str = ""
    """Title of the picture; by default the run's name."""
    contributions: bool = False
    """Of aes runs: draw the contributions of either kind of individual (ES, RL) to the mean."""
    json: bool = False
    """Print one JSON object; with --contributions it has the numbers of each run."""


def command(line: CommandLine) -> int:
    """Draw learning curves; imports no code that a run folder names."""
    flags = line.flags("RUN…", {"plot": PlotFlags()})["plot"]
    if not line.names:
        raise WrongUse("give at least one RUN before the flags, as in: drumline plot last")
    refuse_unwritable(flags.out)
    from drumline.runs.folder import RunFolder

    folders = [folder.path for folder in RunFolder.open_each(line.names)]
    if flags.contributions:
        from drumline.display.contributions import draw_contributions, read_individuals

        individuals = [read_individuals(path) for path in folders]
        draw_contributions(individuals, flags.out, x=flags.x, title=flags.title)
        answer = {"runs": [_numbers(each) for each in individuals]}
    else:
        from drumline.display.plots import plot_runs
        from drumline.display.run_data import read_run

        curves = [read_run(path) for path in folders]
        plot_runs(curves, flags.out, x=flags.x, title=flags.title)
        answer = {"runs": [{"run": curve.label} for curve in curves]}
    print(json.dumps({**answer, "picture": str(flags.out)}) if flags.json else flags.out)
    return 0


def _numbers(individuals: "Individuals") -> dict[str, Any]:
    from drumline.display.contributions import KINDS, contribution

    found = {kind: contribution(individuals, kind)._asdict() for kind in KINDS}
    # The mean of no individuals is nan, which JSON does not have.
    known = {
        kind: {name: None if value != value else value for name, value in numbers.items()}
        for kind, numbers in found.items()
    }
    return {"run": individuals.label, **known}
