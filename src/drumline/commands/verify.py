"""`drumline verify`: repeat a run on another layout, or compare two runs."""

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from drumline.commands.command_line import CommandLine, WrongUse

if TYPE_CHECKING:
    from drumline.api.foreign_code import CodeTrust
    from drumline.runs.fingerprints import Chain, Difference
    from drumline.runs.folder import RunFolder
    from drumline.training.layout import Layout


QUICK_SECONDS = 60.0
"""Updates of a run's first seconds are repeated unless a number is given."""


@dataclass(frozen=True)
class VerifyFlags:
    """Flags of `drumline verify`."""

    updates: str = ""
    """Updates to repeat: a number or all; by default those of the run's first minute."""
    workers: int = 3
    """Number of workers of the repetition."""
    pool: Literal["process", "inline"] = "process"
    """Run the repetition in worker processes, or in this process."""
    nodes: int = 1
    """Groups of the repetition, for methods whose shards may be on several nodes."""
    trust_code: bool = False
    """Import the code that the run folder names (comparing two runs imports none)."""
    quiet: bool = False
    """Print nothing; the exit code is the answer."""
    json: bool = False
    """Print one JSON object."""


def command(line: CommandLine) -> int:
    """Repeat a run on another layout, or compare two runs; exit code 1 if they differ."""
    flags = line.flags("RUN | A B", {"verification": VerifyFlags()})["verification"]
    if not 1 <= len(line.names) <= 2:
        raise WrongUse("give one run to repeat or two to compare, as in: drumline verify last")
    if flags.updates and flags.updates != "all" and not flags.updates.isdecimal():
        raise WrongUse(f"--updates {flags.updates!r} is neither a number nor all")
    if flags.updates.isdecimal() and not int(flags.updates):
        raise WrongUse("--updates 0 would repeat nothing: give 1 or more, or all")
    if len(line.names) == 2:
        for name in ("updates", "workers", "pool", "nodes"):
            if getattr(flags, name) != getattr(VerifyFlags, name):
                raise WrongUse(
                    f"--{name} is of a repetition, and two runs are compared as they are, over "
                    "the updates that both have: leave it out"
                )
        from drumline.runs.folder import RunFolder

        first, second = (RunFolder.open(name) for name in line.names)
        difference, what = verify_two(first, second), "the updates that both runs have"
    else:
        from drumline.commands.trusted_code import trust_of
        from drumline.runs.folder import RunFolder

        folder, trust = RunFolder.open(line.name()), trust_of(line, trust_code=flags.trust_code)
        count = 10**12 if flags.updates == "all" else int(flags.updates or 0)
        layout = layout_for(folder, flags.workers, trust, flags.pool, flags.nodes)
        done, difference = verify_again(folder, count or None, layout, trust)
        what = f"{done} updates repeated {layout.training_in_words}"
    _answer(flags, difference, what)
    return 0 if difference is None else 1


def layout_for(
    folder: "RunFolder",
    workers: int,
    trust: "CodeTrust",
    pool: Literal["process", "inline"] = "process",
    nodes: int = 1,
) -> "Layout":
    """Return the layout of a repetition, with at most one executor per environment."""
    from drumline.recipes.methods import find_method
    from drumline.training.layout import ExecutorLayout, GroupedLayout

    trust.run(folder)
    kind = find_method(folder.document["method"]).layout
    if issubclass(kind, ExecutorLayout):
        workers = min(workers, max(1, folder.document["config"]["num_envs"] // max(1, nodes)))
    if nodes == 1:
        return kind(workers=workers, pool=pool, tensorboard=False)
    if not issubclass(kind, GroupedLayout):
        raise WrongUse(f"--nodes {nodes} goes with hts, ppo and a2c; leave it out here")
    return kind(workers=workers, pool=pool, nodes=nodes, tensorboard=False)


def verify_again(
    folder: "RunFolder", updates: int | None, layout: "Layout", trust: "CodeTrust | None" = None
) -> "tuple[int, Difference | None]":
    """Train the first updates again on `layout`; return their number and the first difference.

    Without `trust`, code that the run folder names is refused.
    """
    from drumline.api.foreign_code import UNTRUSTED, refuse_main_of_another_process
    from drumline.api.run import Run, resume, trained
    from drumline.api.run_document import NO_PROMISE, differences_here
    from drumline.runs.fingerprints import Chain, first_difference, read_chain
    from drumline.runs.folder import RunError
    from drumline.runs.horizons import horizons_of
    from drumline.runs.own_files import is_there
    from drumline.training.stopped import Stopped

    trust = trust or UNTRUSTED
    trust.run(folder)
    run = Run(folder, trust)
    refuse_main_of_another_process(run.config)
    logged = _event_log(run.config, folder)
    if not logged:
        _refuse_no_promise(folder)
    if other := differences_here(folder.document):
        raise RunError(f"{NO_PROMISE}: {folder.shown} was made on another machine ({other})")
    ours = (
        read_chain(folder.fingerprints_csv)
        if is_there(folder.fingerprints_csv)
        else Chain((), None)
    )
    found, quick = _updates_recorded(folder, ours, _events_logged(logged))
    if not found:
        raise RunError(f"{folder.shown} has no updates to verify")
    count = min(found, updates or max(1, quick))
    (_, first), *later = horizons_of(folder)
    small = {"evaluate_every": 0, "evaluate_episodes": 1, "total_steps": first}
    again = replace(run.config, **small, **logged)
    ends = [min(count, update) for update, _ in later] + [count]
    with tempfile.TemporaryDirectory(prefix="drumline-verify-") as place:
        out = Path(place) / "again"
        try:
            second = trained(again, layout, trust, out=out, last_update=ends[0])
            for (update, total), end in zip(later, ends[1:], strict=True):
                if update < count:
                    second = resume(
                        second.folder, layout, trust=trust, total_steps=total, last_update=end
                    )
        except Stopped as stop:
            stop.run = None  # the repetition's folder is deleted, so it cannot be resumed
            raise
        return count, first_difference(ours, read_chain(second.folder.fingerprints_csv))


def _event_log(config: Any, folder: "RunFolder") -> dict[str, str]:
    """Return the flag that repeats a run of `--clock wall` in the order of its event log."""
    log = folder.path / "events.jsonl"
    return {"replay_events": str(log)} if getattr(config, "clock", "") == "wall" else {}


def _events_logged(logged: dict[str, str]) -> int | None:
    """Return the number of events in the log that the run is repeated by; None without one."""
    from drumline.runs.event_log import logged_workers
    from drumline.runs.own_files import is_there

    if not logged:
        return None
    log = Path(logged["replay_events"])
    return sum(1 for _ in logged_workers(log)) if is_there(log) else 0


def _updates_recorded(folder: "RunFolder", chain: "Chain", events: int | None) -> tuple[int, int]:
    """Return the number of updates that can be repeated, and those of the first 60 seconds.

    A full disk may have cut one file only: an update counts with its row in the metrics and in the
    chain and, where there is an event log, with its event.
    """
    from drumline.runs.folder import RunError
    from drumline.runs.own_files import is_there
    from drumline.runs.tables import read_table

    newest = chain.last()
    if newest is None or not is_there(folder.metrics_csv):
        return 0, 0
    table = read_table(folder.metrics_csv)
    names = ("update", "wall_seconds", *(() if events is None else ("event",)))
    for name in names:
        if table.columns and name not in table.columns:
            raise RunError(f"{folder.metrics_csv} is damaged: no {name!r} in a row")
    if not table.columns:
        return 0, 0
    found = quick = 0
    for update, seconds, *event in table.values(names, [float] * len(names)):
        if update <= newest.update and (events is None or event[0] < events):
            found += 1
            quick += seconds <= QUICK_SECONDS
    return found, quick


def verify_two(left: "RunFolder", right: "RunFolder") -> "Difference | None":
    """Compare the fingerprints of two runs over the updates that both have."""
    from drumline.runs.fingerprints import first_difference, read_chain

    for folder in (left, right):
        _refuse_no_promise(folder)
    return first_difference(read_chain(left.fingerprints_csv), read_chain(right.fingerprints_csv))


def _refuse_no_promise(folder: "RunFolder") -> None:
    from drumline.api.run_document import NO_PROMISE
    from drumline.runs.folder import RunError

    promise = folder.stated("promise")
    if promise.startswith(NO_PROMISE):
        raise RunError(f"{promise} ({folder.shown})")


def _answer(flags: VerifyFlags, difference: "Difference | None", what: str) -> None:
    from drumline.runs.safe_text import visible

    if flags.quiet:
        return
    if flags.json:
        update = None if difference is None else difference.update
        column = None if difference is None else difference.column
        answer = {"equal": difference is None, "compared": what, "update": update}
        print(json.dumps({**answer, "column": column}))
    elif difference is None:
        print(f"equal: {what}")
    else:
        print(f"differs first at update {difference.update} in {visible(difference.column)}")
