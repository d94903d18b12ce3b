"""`drumline resume RUN`."""

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from drumline.commands.command_line import CommandLine, WrongUse

if TYPE_CHECKING:
    from collections.abc import Collection

    from drumline.runs.folder import RunFolder


@dataclasses.dataclass(frozen=True)
class ResumeFlags:
    """Flags of `drumline resume`."""

    total_steps: int | None = None
    """Go on to this many env steps instead; recorded in the run folder."""
    checkpoint: int | None = None
    """Go on from this checkpoint instead of the newest."""
    store: str = ""
    """Copy the run folder to this URL (s3://bucket/prefix) while it trains; by default RUN, if that
    is a URL."""
    out: Path | None = None
    """If RUN is a URL: the new folder that the run is fetched to; by default runs/ and the last
    word of the URL."""
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
    from drumline.training.layout import Layout

    layout, folder = Layout, None
    if line.names:
        from drumline.commands.trusted_code import trust_of
        from drumline.recipes.methods import find_method

        folder = _described(line.name())
        # The method's class says which flags there are.
        trust_of(line, trust_code="--trust-code" in line.words).method(folder)
        method = find_method(folder.document["method"])
        layout = method.layout
        _refuse_settings(line, method.fields - {"total_steps"})
    chosen = line.flags("RUN", {"resume": ResumeFlags(), "layout": layout()})
    flags = chosen["resume"]
    from drumline.api.opened_runs import resumed_config
    from drumline.api.run import resume
    from drumline.commands.closing import display_for, say_finished, say_finished_in_json
    from drumline.commands.trusted_code import trust_of

    folder = folder or _described(line.name())
    trust = trust_of(line, trust_code=flags.trust_code)
    if flags.print_config:
        config = resumed_config(folder, flags.total_steps, trust)
        print(json.dumps(dataclasses.asdict(config), indent=2))
        return 0
    display, store = display_for(quiet=flags.quiet, json=flags.json), flags.store
    if _is_url(line.name()):
        from drumline.runs.folder import RunFolder
        from drumline.stores.fetch import fetched
        from drumline.stores.object_store import ObjectStore

        trust.run(folder)  # before anything is fetched
        url, store = line.name(), store or line.name()
        folder = RunFolder.at(
            fetched(ObjectStore(url), flags.out, update=flags.checkpoint, say=display.message)
        )
    elif flags.out is not None:
        raise WrongUse(f"--out {flags.out} goes with a URL as RUN, which is fetched there")
    run = resume(
        folder,
        chosen["layout"],
        trust=trust,
        total_steps=flags.total_steps,
        checkpoint=flags.checkpoint,
        other_machine=flags.other_machine,
        display=display,
        store=store,
    )
    if flags.json:
        say_finished_in_json(run.folder)
    elif not flags.quiet:
        say_finished(run.folder)
    return 0


def _refuse_settings(line: CommandLine, settings: "Collection[str]") -> None:
    """Raise WrongUse for a setting of the run's config, which no resume changes."""
    for word in line.words:
        name = word.partition("=")[0].removeprefix("--no-").removeprefix("--").replace("-", "_")
        if word.startswith("--") and name in settings:
            raise WrongUse(
                f"{word.partition('=')[0]} is a setting of the run, which keeps its config to the "
                "end: resume takes --total-steps and flags of the layout; for other settings "
                "train a new run (--config RUN/config.json begins with those of this one)"
            )


def _described(name: str) -> "RunFolder":
    """Open a run; of one on a store, its config.json alone."""
    from drumline.runs.folder import RunFolder

    if not _is_url(name):
        return RunFolder.open(name)
    from drumline.stores.fetch import fetched
    from drumline.stores.object_store import ObjectStore

    with tempfile.TemporaryDirectory(prefix="drumline-") as place:
        path = fetched(ObjectStore(name), Path(place) / "run", only=("config.json",))
        folder = RunFolder.open(path)
    folder.shown = name
    return folder


def _is_url(name: str) -> bool:
    return "://" in name
