"""`drumline episode RUN`."""

from dataclasses import dataclass

from drumline.commands.command_line import CommandLine, WrongUse


@dataclass(frozen=True)
class EpisodeFlags:
    """Which episode it is."""

    member: int = 0
    """Member of the generation, or episode of the evaluation."""
    checkpoint: int | None = None
    """The version that the episode belongs to; by default the newest checkpoint."""
    evaluation: bool = False
    """A scheduled evaluation's episode instead of a training episode."""
    stack_seconds: float = 10.0
    """Show where the program stands whenever no step was made for this long."""
    trust_code: bool = False
    """Import the code that the run folder names."""


def command(line: CommandLine) -> int:
    """Run one episode of es, ars or cem alone, to see why it hangs or fails."""
    flags = line.flags("RUN", {"episode": EpisodeFlags()})["episode"]
    if flags.stack_seconds <= 0:
        raise WrongUse(f"--stack-seconds must be above 0, got {flags.stack_seconds}")
    import faulthandler

    from drumline.commands.foreign_code import open_run
    from drumline.commands.lone_episode import LoneEpisode
    from drumline.recipes.blame import named

    folder = open_run(line, trust_code=flags.trust_code)
    lone = LoneEpisode(folder, flags.member, flags.checkpoint, evaluation=flags.evaluation)
    print(f"{named(lone.task)}; Ctrl-C ends it", flush=True)

    def progress(amount: int) -> None:
        # A thread of C's: it shows the stack even if the environment never gives the GIL back.
        faulthandler.dump_traceback_later(flags.stack_seconds, repeat=True)

    progress(0)
    try:
        result = lone.run(progress)
    finally:
        faulthandler.cancel_dump_traceback_later()
    print(f"return {result.episode_return!r}, {result.length} env steps")
    return 0
