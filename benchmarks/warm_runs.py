"""A process that imports once what starts slowly, and runs `drumline` commands in forks of itself.

It reads one order a line from stdin and answers each with one line on stdout, both JSON. The first
line that it writes says which checkout's drumline it has imported.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

SLOW_IMPORTS = (
    "numpy",
    "torch",
    "tyro",
    "gymnasium.envs.mujoco.inverted_pendulum_v5",
    "envpool",
    "drumline.commands.train",
    "drumline.recipes.methods",
)
"""Modules that a run may import; one that is not there, or not any more, is left out."""

TIMED_OUT = 124


def main() -> None:
    import drumline

    for name in SLOW_IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page
    answers = os.fdopen(os.dup(1), "w")
    print(json.dumps({"drumline": drumline.__file__}), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(_carry_out(order)), file=answers, flush=True)


def _carry_out(order: dict[str, Any]) -> dict[str, float]:
    """Run the order's words in its place; returns the exit code, and what it and its workers took.

    The exit code is 124 if it took too long.
    """
    child = os.fork()
    if child == 0:
        try:
            code = _become(order)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException:  # noqa: BLE001 - the fork must not go on as its parent
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # to free torch's modules one by one takes longer than most runs
    deadline = time.perf_counter() + order["seconds"]
    while time.perf_counter() < deadline:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            seconds = round(usage.ru_utime + usage.ru_stime, 2)
            return {"code": os.waitstatus_to_exitcode(status), "core_seconds": seconds}
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # its workers too
    os.waitpid(child, 0)
    return {"code": TIMED_OUT, "core_seconds": order["seconds"]}


def _become(order: dict[str, Any]) -> int:
    """Be the command: a session of its own, in its folder, with its output in a file."""
    from drumline import cli

    os.setsid()
    os.chdir(order["place"])
    with Path("output.txt").open("a") as output, Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    return cli.run(order["words"])


if __name__ == "__main__":
    main()
