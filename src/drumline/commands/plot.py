"""`drumline plot RUN…`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from drumline.commands.command_line import CommandLine, WrongUse


@dataclass(frozen=True)
class PlotFlags:
    """What is drawn."""

    out: Path = Path("curve.png")
    """The picture."""
    x: Literal["env_steps", "wall_seconds"] = "env_steps"
    """What the curves are drawn against."""
    contributions: bool = False
    """Of aes runs: draw what the individuals of either kind (ES, RL) did for the mean."""


def command(line: CommandLine) -> int:
    """Draw learning curves; runs no code that a run folder names."""
    flags = line.flags("RUN…", {"plot": PlotFlags()})["plot"]
    if not line.names:
        raise WrongUse("give at least one RUN before the flags, as in: drumline plot last")
    from drumline.runs.folder import RunFolder

    folders = [RunFolder.open(name).path for name in line.names]
    if flags.contributions:
        from drumline.display.contributions import draw_contributions, read_individuals

        draw_contributions([read_individuals(path) for path in folders], flags.out, x=flags.x)
    else:
        from drumline.display.plots import plot_runs
        from drumline.display.run_data import read_run

        plot_runs([read_run(path) for path in folders], flags.out, x=flags.x)
    print(flags.out)
    return 0
