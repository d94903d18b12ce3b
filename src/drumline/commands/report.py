"""`drumline report RUN…`."""

import shlex
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumline.commands.command_line import CommandLine, WrongUse, refuse_unwritable

if TYPE_CHECKING:
    from drumline.display.report import Check
    from drumline.runs.folder import RunFolder


@dataclass(frozen=True)
class ReportFlags:
    """Flags of `drumline report`."""

    out: Path = Path("report.html")
    """Write the page to this file."""
    verify: int = 0
    """Repeat this many updates of each run on another layout (3 workers) and report the result."""
    trust_code: bool = False
    """With --verify: import the code that a run folder names."""


def command(line: CommandLine) -> int:
    """Write one page about runs; without --verify it imports no code that a run folder names."""
    flags = line.flags("RUN…", {"report": ReportFlags()})["report"]
    if not line.names:
        raise WrongUse("give at least one RUN before the flags, as in: drumline report last")
    if flags.verify < 0:
        raise WrongUse(f"--verify must be 0 (no repetition) or more updates, got {flags.verify}")
    refuse_unwritable(flags.out)
    from drumline.commands.without_updates import with_updates
    from drumline.display.report import ReportedRun, report_page
    from drumline.recipes.methods import with_late_settings
    from drumline.runs.atomic_files import replace_file
    from drumline.runs.folder import RunFolder
    from drumline.runs.typed_paths import typed

    folders = with_updates(RunFolder.open_each(line.names))
    checks = [[_chain(folder), *_policies(folder)] for folder in folders]
    for (first, one), (second, other) in combinations(zip(folders, checks, strict=True), 2):
        if (same := _same_bits(first, second)) is not None:
            one.append(same)
            other.append(_same_bits(second, first) or same)
    for folder, own in zip(folders, checks, strict=True):
        own.append(_repeated(line, folder, flags))
    runs = [
        ReportedRun(folder, with_late_settings(folder.document), tuple(own), same_again(folder))
        for folder, own in zip(folders, checks, strict=True)
    ]
    page = report_page(runs, line.again())
    replace_file(typed(flags.out), page.encode())
    print(flags.out)
    return 0


def same_again(folder: "RunFolder") -> str:
    """Return the command that begins the same run; empty for a method from outside.

    A run that was prolonged begins with its first `total_steps`, which its step sizes may depend
    on; a line for each later one says how it goes on.
    """
    from drumline.recipes.methods import METHODS, with_late_settings
    from drumline.runs.next_commands import by_path
    from drumline.runs.problem import has_objective

    document = with_late_settings(folder.document)
    if document["method"] not in METHODS:
        return ""
    name, config = document["method"], dict(document["config"])
    horizons = document.get("horizons", [])
    if horizons:
        config["total_steps"] = horizons[0][1]
    method = METHODS[name]
    if has_objective(config):
        objective = str(config["objective"])
        usual = defaults = asdict(method.made_for(objective))
        words = ["drumline", "train", name, "--objective", objective]
    else:
        defaults = asdict(method.config(env=config["env"]))
        plain = {**defaults, **method.preset(config["env"])}
        usual = {**defaults, **method.preset(config["env"], beside=config)}
        # These are typed where the preset has others: they bring their own preset with them.
        usual |= {field: plain[field] for field in method.deciding}
        words = ["drumline", "train", name, config["env"]]
    for field, value in config.items():
        if field in defaults and field != "env" and value != _plain(usual[field]):
            words += _flag(field.replace("_", "-"), value)
    prolonged = [
        f"{by_path(folder, 'resume', '--total-steps', str(total))}  # after update {update:,}"
        for update, total in horizons[1:]
    ]
    return "\n".join([shlex.join(words), *prolonged])


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _flag(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    values = value if isinstance(value, list) else [value]
    return [f"--{name}", *map(str, values)]


def _chain(folder: "RunFolder") -> "Check":
    """Return a sentence: whether every row of the hash chain follows from the one before it."""
    from drumline.display.report import Check
    from drumline.runs.fingerprints import read_chain
    from drumline.runs.folder import RunError

    try:
        count, head = 0, ""
        for row in read_chain(folder.fingerprints_csv).rows():
            count, head = count + 1, row.chained
    except RunError as error:
        return Check(False, str(error))
    if not count:
        return Check(None, "the hash chain has no updates yet")
    return Check(True, f"the hash chain holds over {count:,} updates and ends in {head}")


def _policies(folder: "RunFolder") -> "list[Check]":
    """Return a sentence: whether the policy files hold the bytes that were written."""
    from drumline.display.report import Check
    from drumline.runs.folder import RunError
    from drumline.runs.own_files import is_there
    from drumline.runs.policy_files import NAMES, read_policy

    found: list[Check] = []
    for name in NAMES:
        if is_there(folder.policy_tensors(name)):
            try:
                read_policy(folder, name)
            except RunError as error:
                found.append(Check(False, str(error)))
            else:
                found.append(Check(True, f"policy-{name} holds the bytes that were written"))
    return found


def _same_bits(folder: "RunFolder", other: "RunFolder") -> "Check | None":
    """Compare two runs of one config and seed; None if they need not be equal."""
    from drumline.commands.verify import verify_two
    from drumline.display.report import Check
    from drumline.recipes.methods import with_late_settings
    from drumline.runs.folder import RunError

    one, two = with_late_settings(folder.document), with_late_settings(other.document)
    if any(one[key] != two[key] for key in ("method", "config")):
        return None
    try:
        difference = verify_two(folder, other)
    except RunError as error:
        return Check(None, f"not compared with {other.path.name}: {error}")
    if difference is None:
        return Check(True, f"the same bits as {other.path.name} in the updates that both have")
    return Check(
        False,
        f"differs from {other.path.name}, of the same config and seed, first at update "
        f"{difference.update} in {difference.column}",
    )


def _repeated(line: CommandLine, folder: "RunFolder", flags: ReportFlags) -> "Check":
    """Repeat the run's first updates, or name the command that does it."""
    from drumline.display.report import Check
    from drumline.runs.folder import RunError
    from drumline.runs.next_commands import by_path

    if not flags.verify:
        return Check(None, f"not repeated for this page; to repeat it: {by_path(folder, 'verify')}")
    from drumline.commands.trusted_code import trust_of
    from drumline.commands.verify import layout_for, verify_again

    trust = trust_of(line, trust_code=flags.trust_code)
    trust.run(folder)
    layout = layout_for(folder, 3, trust)
    try:
        done, difference = verify_again(folder, flags.verify, layout, trust)
    except (RunError, ValueError) as error:
        return Check(None, f"not repeated: {error}")
    words = f"{done:,} updates repeated {layout.training_in_words}"
    if difference is None:
        return Check(True, f"{words}: the same bits")
    return Check(
        False, f"{words}: differs first at update {difference.update} in {difference.column}"
    )
