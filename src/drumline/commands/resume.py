"""`drumline resume RUN`."""

import dataclasses
import json

from drumline.commands.command_line import CommandLine


@dataclasses.dataclass(frozen=True)
class ResumeFlags:
    """Flags of `drumline resume`."""

    total_steps: int | None = None
    """Go on to this many env steps instead; recorded in the run folder."""
    checkpoint: int | None = None
    """Go on from this checkpoint instead of the newest."""
    other_machine: bool = False
    """Go on although versions or the processor differ; the run then has no promise any more."""
    trust_code: bool = False
    """Import the code that the run folder names."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print one JSON object per line and nothing else on stdout."""
    print_config: bool = False
    """Print the resolved config as JSON and stop."""


def command(line: CommandLine) -> int:
    """Go on with a run, bit for bit as an uninterrupted run."""
    from drumline.runs.folder import RunFolder
    from drumline.training.layout import Layout

    layout = Layout
    if line.names:
        from drumline.commands.foreign_code import trust_of
        from drumline.recipes.methods import find_method

        folder = RunFolder.open(line.name())
        # The method's class says which flags there are.
        trust_of(line, trust_code="--trust-code" in line.words).method(folder)
        layout = find_method(folder.document["method"]).layout
    chosen = line.flags("RUN", {"resume": ResumeFlags(), "layout": layout()})
    flags = chosen["resume"]
    from drumline.commands.closing import display_for, say_finished, say_finished_in_json
    from drumline.commands.foreign_code import trust_of
    from drumline.commands.run import resume, resumed_config

    folder, trust = RunFolder.open(line.name()), trust_of(line, trust_code=flags.trust_code)
    if flags.print_config:
        config = resumed_config(folder, flags.total_steps, trust)
        print(json.dumps(dataclasses.asdict(config), indent=2))
        return 0
    run = resume(
        folder,
        chosen["layout"],
        trust=trust,
        total_steps=flags.total_steps,
        checkpoint=flags.checkpoint,
        other_machine=flags.other_machine,
        display=display_for(quiet=flags.quiet, json=flags.json),
    )
    if flags.json:
        say_finished_in_json(run.folder)
    elif not flags.quiet:
        say_finished(run.folder)
    return 0
