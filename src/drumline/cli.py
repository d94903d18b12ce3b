"""The command line: words to a config, a config to a command, without decisions of its own."""

import dataclasses
import difflib
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from drumline.commands.command_line import CommandLine

COMMANDS = (
    "doctor",
    "check-env",
    "train",
    "resume",
    "evaluate",
    "enjoy",
    "export",
    "plot",
    "compare",
    "bench",
    "list",
    "report",
    "verify",
    "episode",
    "rebuild",
    "fetch",
)

USAGE = """usage: drumline COMMAND …

  doctor [ENV] [flags]         list this machine's parts and predict the speed of ENV
  check-env ENV [flags]        check an environment of your own before training
  train METHOD ENV [flags]     train a policy           (drumline train --help lists them)
  resume RUN [flags]           go on, bit for bit as an uninterrupted run
  evaluate RUN [flags]         run episodes of a saved policy
  enjoy RUN [flags]            show a saved policy: a window, or an mp4 without a display
  export RUN [flags]           write a saved policy as ONNX or for torch.export
  plot RUN… [flags]            draw learning curves
  compare RUN… [flags]         compare groups of seeds, with intervals
  bench METHOD… --env ENV      train several methods and seeds, and compare them
  list [FOLDER…] [flags]       a table of runs: method, environment, steps, score, state
  report RUN… [flags]          one HTML page: outcome, curves, promise, settings, machine
  verify RUN | A B [flags]     repeat a run on another layout, or compare two runs
  episode RUN [flags]          run one episode of es, ars or cem alone, to find a fault
  rebuild RUN [flags]          make the parameters of any generation of es or ars again
  fetch URL [flags]            make a local copy of a run that train --store has copied

RUN is a path, a name under runs/, or `last`; resume takes a URL (s3://bucket/prefix), too.
`drumline COMMAND --help` lists the flags.
Exit codes: 0, 1 differs, 2 wrong use, 3 failed run; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP
(a closed terminal), 141 closed output pipe (a run can be resumed after these four).
"""


_WHOLE: tuple[Any, ...] = (int, int | None, "int", "int | None")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by a daemon, which wants no words
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - to the end
    if arguments is None:
        _begin_as_children_do()
        from drumline.commands.own_output import print_apart

        print_apart()
    code = run(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        from drumline.commands.outcome import keep_code

        keep_code(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    from drumline.commands.command_line import CommandLine
    from drumline.commands.outcome import ended

    command, *rest = arguments or [""]
    return ended(_command, CommandLine(command, rest, _parse))


def _command(line: "CommandLine") -> int:
    """Run the command that the first word names, or print the usage or the version."""
    from drumline.commands.command_line import WrongUse

    if line.command in ("", "-h", "--help", "help"):
        print(USAGE, end="")
        return 0 if line.command else 2
    if line.command == "--version":
        from importlib.metadata import version

        print(version("drumline"))
        return 0
    if line.command not in COMMANDS:
        close = difflib.get_close_matches(line.command, COMMANDS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise WrongUse(f"unknown command {line.command!r}{hint}")
    from importlib import import_module

    module = import_module(f"drumline.commands.{line.command.replace('-', '_')}")
    return module.command(line)


_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS")


def _begin_as_children_do() -> None:
    """Restart this process with fixed string hashes, UTF-8 names and one thread for BLAS.

    Environments that this process steps (TD3's, `--pool inline`) may iterate over sets. The order
    of a set follows the hashes, so they must equal those of earlier runs and of the worker
    processes. In a locale without UTF-8, paths such as `run-ü` could not be written into files.
    A BLAS reads its number of threads when it is loaded, by an environment perhaps.
    """
    if sys.flags.ignore_environment:
        return
    wanted: dict[str, str] = {}
    if sys.flags.hash_randomization:
        wanted["PYTHONHASHSEED"] = "0"
    if sys.getfilesystemencoding() != "utf-8":
        wanted["PYTHONUTF8"] = "1"
    if any(os.environ.get(name) == value for name, value in wanted.items()):
        print("drumline: leave out Python's options -R and -X utf8=0", file=sys.stderr)
        sys.exit(2)
    wanted |= {name: "1" for name in _BLAS_THREADS if os.environ.get(name) != "1"}
    if wanted:
        os.environ |= {"PYTHONHASHSEED": "0", **wanted}
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _parse(
    parts: Mapping[str, Any], words: Sequence[str], program: str, hidden: Collection[str] = ()
) -> dict[str, Any]:
    """Return `parts` with the typed flags; `--help` and misspelt flags exit here."""
    if os.environ.get("NO_COLOR"):
        os.environ.setdefault("PYTHON_TYRO_ANSI_CODES", "False")  # read when tyro is imported
    import tyro

    from drumline.commands.other_words import in_our_words

    kinds = {
        field.name.replace("_", "-"): field.type
        for part in parts.values()
        for field in dataclasses.fields(part)
    }
    whole_numbers = {name for name, kind in kinds.items() if kind in _WHOLE}
    words = in_our_words(words, kinds, whole_numbers)
    if hidden and {"-h", "--help"} & set(words):
        parts = {heading: _shown(part, hidden) for heading, part in parts.items()}
    flags = dataclasses.make_dataclass(
        "Flags", [(heading, _switched(type(part))) for heading, part in parts.items()], frozen=True
    )
    chosen = tyro.cli(
        flags,
        args=words,
        prog=f"drumline {program}",
        description="",
        default=flags(**parts),
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.DisallowNone),
    )
    return {heading: getattr(chosen, heading) for heading in parts}


def _shown(part: Any, hidden: Collection[str]) -> Any:
    """Return a part for the page of its flags, from which `hidden` fields are left out."""
    import tyro

    fields = [
        (field.name, Annotated[field.type, tyro.conf.Suppress], getattr(part, field.name))
        for field in dataclasses.fields(part)
        if field.name in hidden
    ]
    if not fields:
        return part
    place = {"__module__": type(part).__module__}
    kind = dataclasses.make_dataclass(
        type(part).__name__, fields, bases=(type(part),), namespace=place, frozen=True
    )
    return kind(**{field.name: getattr(part, field.name) for field in dataclasses.fields(part)})


def _switched(kind: type) -> Any:
    """Return the type of a part's flags, with the form of its switches.

    A command's own switches have one form, `--x`. A method's switches keep both `--x` and `--no-x`,
    because the default of a switch differs between presets.
    """
    import tyro

    if not kind.__module__.startswith("drumline.commands."):
        return kind
    return Annotated[kind, tyro.conf.FlagCreatePairsOff]
