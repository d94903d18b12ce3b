"""`drumline episode RUN`."""

from dataclasses import dataclass

from drumline.commands.command_line import CommandLine, WrongUse


@dataclass(frozen=True)
class EpisodeFlags:
    """Flags of `drumline episode`."""

    member: int = 0
    """Member of the generation, or number of the evaluation's episode, from 0."""
    checkpoint: int | None = None
    """Version of the parameters, by its checkpoint; by default the newest checkpoint."""
    evaluation: bool = False
    """A scheduled evaluation's episode instead of a training episode."""
    stack_seconds: float = 10.0
    """Print the program's stack whenever no env step was made for this many seconds."""
    trust_code: bool = False
    """Import the code that the run folder names."""


_LONGEST = 1e6


def command(line: CommandLine) -> int:
    """Run one episode of es, ars or cem alone, to find out why it hangs or fails."""
    flags = line.flags("RUN", {"episode": EpisodeFlags()})["episode"]
    if not 0 < flags.stack_seconds <= _LONGEST:
        raise WrongUse(
            f"--stack-seconds must be above 0 and at most {_LONGEST:,.0f}, got "
            f"{flags.stack_seconds}"
        )
    import faulthandler
    import signal

    from drumline.api.lone_episode import LoneEpisode
    from drumline.commands.trusted_code import trust_of
    from drumline.runs.folder import RunFolder
    from drumline.runs.problem import words_of
    from drumline.training.blame import named

    folder, trust = RunFolder.open(line.name()), trust_of(line, trust_code=flags.trust_code)
    lone = LoneEpisode(folder, flags.member, flags.checkpoint, trust, evaluation=flags.evaluation)
    print(f"{named(lone.task)}; Ctrl-C ends it", flush=True)

    # faulthandler is written in C, so it prints the stack even if the environment never releases
    # the GIL. The signal's handler runs in the thread that it prints. faulthandler's own timer
    # reads the stack from another thread, and crashed when Ctrl-C unwound the stack meanwhile.
    faulthandler.register(signal.SIGALRM, all_threads=False)

    def progress(amount: int) -> None:
        signal.setitimer(signal.ITIMER_REAL, flags.stack_seconds, flags.stack_seconds)

    progress(0)
    try:
        result = lone.run(progress)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        faulthandler.unregister(signal.SIGALRM)
    words = words_of(folder.document["config"])
    print(f"{words.value} {result.episode_return!r}, {result.length} {words.steps}")
    return 0
