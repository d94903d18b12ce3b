"""The command line: words to a config, a config to a command. No decisions are made here."""

import difflib
import os
import sys
from typing import Any

COMMANDS = ("train", "resume", "evaluate", "enjoy", "plot", "verify", "episode")

USAGE = """usage: drumline COMMAND …

  train METHOD ENV [flags]     train a policy           (methods: es, ars)
  resume RUN [flags]           go on, bit for bit as if never stopped
  evaluate RUN [flags]         run episodes of a saved policy
  enjoy RUN [flags]            film an episode of a saved policy
  plot RUN… [flags]            draw learning curves
  verify RUN | A B [flags]     repeat a run on another layout, or compare two
  episode RUN [flags]          run one training episode alone, to see why it hangs or fails

RUN is a path, a name under runs/, or `last`. `drumline COMMAND --help` lists the flags.
Exit codes: 0, 1 differs, 2 wrong use, 3 failed run, 130 Ctrl-C, 143 SIGTERM (both resumable).
"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0 if arguments else 2
    command, rest = arguments[0], arguments[1:]
    if command == "--version":
        from importlib.metadata import version

        print(version("drumline"))
        return 0
    if command not in COMMANDS:
        close = difflib.get_close_matches(command, COMMANDS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        print(f"drumline: unknown command {command!r}{hint}", file=sys.stderr)
        return 2
    from drumline.commands.handlers import HANDLERS, guarded

    try:
        return guarded(HANDLERS[command], rest, _parse)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parse(kind: Any, rest: list[str], program: str, default: Any = None) -> Any:
    import tyro

    options: dict[str, Any] = {} if default is None else {"default": default}
    return tyro.cli(
        kind, args=rest, prog=f"drumline {program}", config=(tyro.conf.OmitArgPrefixes,), **options
    )
