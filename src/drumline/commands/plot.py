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


def command(line: CommandLine) -> int:
    """Draw learning curves; runs no code that a run folder names."""
    flags = line.flags("RUN…", {"plot": PlotFlags()})["plot"]
    if not line.names:
        raise WrongUse("give at least one RUN before the flags, as in: drumline plot last")
    from drumline.display.plots import plot_runs
    from drumline.display.run_data import read_run
    from drumline.runs.folder import RunFolder

    curves = [read_run(RunFolder.open(name).path) for name in line.names]
    plot_runs(curves, flags.out, x=flags.x)
    print(flags.out)
    return 0
