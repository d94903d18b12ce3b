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
    import signal

    from drumline.commands.foreign_code import open_run
    from drumline.commands.lone_episode import LoneEpisode
    from drumline.training.blame import named

    folder = open_run(line, trust_code=flags.trust_code)
    lone = LoneEpisode(folder, flags.member, flags.checkpoint, evaluation=flags.evaluation)
    print(f"{named(lone.task)}; Ctrl-C ends it", flush=True)

    # A handler in C: it shows the stack even if the environment never gives the GIL back. It runs
    # in the thread that it shows; faulthandler's own timer looks on from another one, and crashed
    # when Ctrl-C took the stack down meanwhile.
    faulthandler.register(signal.SIGALRM, all_threads=False)

    def progress(amount: int) -> None:
        signal.setitimer(signal.ITIMER_REAL, flags.stack_seconds, flags.stack_seconds)

    progress(0)
    try:
        result = lone.run(progress)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        faulthandler.unregister(signal.SIGALRM)
    print(f"return {result.episode_return!r}, {result.length} env steps")
    return 0
