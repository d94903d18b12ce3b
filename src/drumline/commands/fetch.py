"""`drumline fetch URL`."""

from dataclasses import dataclass
from pathlib import Path

from drumline.commands.command_line import CommandLine, WrongUse


@dataclass(frozen=True)
class FetchFlags:
    """Flags of `drumline fetch`."""

    out: Path | None = None
    """The new folder; by default runs/ and the last word of the URL."""
    checkpoint: int | None = None
    """Fetch the state of this checkpoint instead of the newest."""
    quiet: bool = False
    """Print nothing but errors."""


def command(line: CommandLine) -> int:
    """Make a local copy of a run on an object store, for every command that takes a RUN."""
    flags = line.flags("URL", {"fetching": FetchFlags()})["fetching"]
    if len(line.names) != 1:
        raise WrongUse("give one URL before the flags, as in: drumline fetch s3://bucket/prefix")
    from drumline.commands.closing import display_for
    from drumline.runs.folder import RunFolder
    from drumline.runs.next_commands import by_path
    from drumline.stores.fetch import fetched
    from drumline.stores.object_store import ObjectStore

    display = display_for(quiet=flags.quiet, json=False)
    store = ObjectStore(line.names[0])
    path = fetched(store, flags.out, update=flags.checkpoint, say=display.message)
    display.close()
    if not flags.quiet:
        folder = RunFolder.at(path)
        print(folder.shown)
        print(f"next: {by_path(folder, 'report')}")
    return 0
