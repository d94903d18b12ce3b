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
        from drumline.commands.foreign_code import refuse_untrusted
        from drumline.recipes.methods import find_method

        folder = RunFolder.open(line.name())
        method: str = folder.document["method"]
        own = [method] if ":" in method else []  # its class says which flags there are
        refuse_untrusted(line, folder.path, own, trust_code="--trust-code" in line.words)
        layout = find_method(method).layout
    chosen = line.flags("RUN", {"resume": ResumeFlags(), "layout": layout()})
    flags = chosen["resume"]
    from drumline.commands.closing import display_for, say_finished
    from drumline.commands.foreign_code import open_run
    from drumline.commands.run import resume, resumed_config

    if flags.print_config:
        config = resumed_config(RunFolder.open(line.name()), flags.total_steps)
        print(json.dumps(dataclasses.asdict(config), indent=2))
        return 0
    run = resume(
        open_run(line, trust_code=flags.trust_code),
        chosen["layout"],
        total_steps=flags.total_steps,
        checkpoint=flags.checkpoint,
        other_machine=flags.other_machine,
        display=display_for(quiet=flags.quiet, json=flags.json),
    )
    if not (flags.quiet or flags.json):
        say_finished(run.folder)
    return 0
