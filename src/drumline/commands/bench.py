"""`drumline bench METHOD…`: a comparison of methods from nothing, one run after the other."""

import dataclasses
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drumline.commands.command_line import CommandLine, WrongUse, refuse_unwritable
from drumline.commands.typed_seeds import seeds_of
from drumline.runs.atomic_files import replace_file
from drumline.runs.folder import as_run
from drumline.runs.run_error import RunError
from drumline.runs.safe_text import visible
from drumline.runs.strict_json import parsed
from drumline.training.stopped import Stopped

PLAN = "bench.json"
_UNITS = {"s": 1, "sec": 1, "min": 60, "h": 3600}
_STOPPED = 128 + signal.SIGTERM
_OURS = {
    "--seed": "--seeds",
    "--seeds": "--seeds",
    "--out": "--out",
    "--env": "--env",
}
"""Flags of `drumline train` that a METHOD may not have, and those of `drumline bench` instead."""
_STATES = ("waiting", "begun", "ended", "out of time", "failed")


@dataclasses.dataclass(frozen=True)
class BenchFlags:
    """Flags of `drumline bench`."""

    env: str = ""
    """Environment of every run, by the preset that each method has for it."""
    seeds: str = "0-4"
    """Seeds of every method: 0-4, or a list as 0,3,7-9."""
    budget: str = ""
    """Env steps of a run, as 200000, or its time, as 90s, 10min, 2h; left out: the preset's."""
    out: Path = Path("bench")
    """Folder of the runs; the same command goes on where it was stopped."""
    trust_code: bool = False
    """Go on with runs whose config.json names code outside of drumline, such as an environment."""
    quiet: bool = False
    """Print only failures and the picture's path."""
    json: bool = False
    """Print one JSON object at the end and nothing else on stdout."""


class Budget:
    """The end of each run: env steps, seconds, or that of its preset."""

    def __init__(self, text: str):
        found = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?) *([a-z]*)", text.strip().lower())
        value = float(found[1]) if found and found[1].count(".") < 2 and found[1] != "." else 0.0
        unit = found[2] if found else ""
        if text and (value <= 0 or (unit and unit not in _UNITS)):
            raise WrongUse(
                f"--budget {text}: give env steps as 200000, or a time as 90s, 10min, 2h"
            )
        self.seconds = value * _UNITS[unit] if unit else None
        self.flags = [] if unit or not text else [f"--total-steps={value:.0f}"]


def command(line: CommandLine) -> int:
    """Train every method with every seed on one environment, then compare the runs."""
    flags = line.flags("METHOD…", {"bench": BenchFlags()})["bench"]
    if not line.names or not flags.env:
        raise WrongUse(
            "give METHODs before the flags, and --env, as in: drumline bench hts ppo "
            "--env CartPole-v1 --seeds 0-4 --budget 10min"
        )
    budget = Budget(flags.budget)
    plan = _plan(line.names, flags)
    _same_as_before(flags.out, plan)
    _check(plan, budget)
    _make(flags.out)
    say = _silent if flags.json or flags.quiet else _printed
    for number, run in enumerate(plan["runs"], start=1):
        place = f"{number} of {len(plan['runs'])}: {run['name']}"
        if run["state"] in ("ended", "out of time"):
            say(f"{place}: there already ({run['state']})")
            continue
        say(f"{place}: drumline {shlex.join(_words(run, flags.env, budget))}")
        run["state"] = "begun"
        _keep(flags.out, plan)
        run["state"] = _run(flags.out / run["name"], run, flags, budget)
        _keep(flags.out, plan)
        if run["state"] == "failed":
            say(f"{place}: failed; its last words are in {_said(flags.out / run['name'])}")
    return _compare(flags, plan, line)


def _plan(methods: Sequence[str], flags: BenchFlags) -> dict[str, Any]:
    names = _names(methods)
    runs = [
        {"name": f"{name}-seed{seed}", "words": words, "seed": seed, "state": "waiting"}
        for seed in seeds_of(flags.seeds)  # a comparison that is cut short has whole seeds
        for name, words in zip(names, methods, strict=True)
    ]
    return {"env": flags.env, "budget": flags.budget, "runs": runs}


def _names(methods: Sequence[str]) -> list[str]:
    """Return a name of a folder for each method with its flags.

    >>> _names(["hts", "hts --alpha 16"])
    ['hts', 'hts-alpha-16']
    """
    split = [tuple(_split(words)) for words in methods]
    if len(set(split)) < len(split):
        raise WrongUse(f"give each METHOD once, got {' '.join(methods)}")
    names = [re.sub(r"[^A-Za-z0-9.]+", "-", words).strip("-") for words in methods]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        alike = [words for name, words in zip(names, methods, strict=True) if name == twice]
        raise WrongUse(
            f"{' and '.join(map(repr, alike))} would both have the folder {twice}: compare them in "
            "calls of their own, with another --out"
        )
    return names


def _words(run: dict[str, Any], env: str, budget: Budget) -> list[str]:
    method, *flags = _split(run["words"])
    for flag in (word.partition("=")[0].replace("_", "-") for word in flags):
        if flag in _OURS or (budget.flags and flag == "--total-steps"):
            ours = _OURS.get(flag, "--budget")
            raise WrongUse(f"METHOD {run['words']!r} has {flag}, which bench gives by its {ours}")
    if re.search(r"--start[-_]from[ =]last(?= |$)", " ".join(flags)):
        raise WrongUse(
            f"METHOD {run['words']!r} starts from the last run, which is another one for each "
            "training: name the run"
        )
    return ["train", method, env, *flags, f"--seed={run['seed']}", *budget.flags]


def _split(words: str) -> list[str]:
    """Return a METHOD and its flags; WrongUse if there is none, or a quote is not closed."""
    try:
        found = shlex.split(words)
    except ValueError as error:
        raise WrongUse(f"METHOD {words!r} cannot be read: {error}") from None
    if not found or not found[0]:
        raise WrongUse(f"METHOD {words!r} is empty: give one as hts, or with flags as 'es --std 1'")
    return found


def _check(plan: dict[str, Any], budget: Budget) -> None:
    """Resolve the config of every method that is to be trained before the first run begins."""
    seen: set[str] = set()
    for run in plan["runs"]:
        if run["words"] not in seen and run["state"] not in ("ended", "out of time"):
            seen.add(run["words"])
            words = _words(run, plan["env"], budget)
            done = subprocess.run(
                [*_DRUMLINE, *words, "--print-config"], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise WrongUse(f"{run['words']}: {_sentence(done.stderr)}")


def _sentence(said: str) -> str:
    """Return the last words of a command in one line, without the frame around them."""
    framed = [line.strip("│ ") for line in said.splitlines() if line.startswith("│")]
    words = " ".join(line for line in framed if line.strip("─ ")) or said
    return " ".join(words.split()).removeprefix("drumline: ")


_DRUMLINE = (sys.executable, "-m", "drumline")


def _same_as_before(out: Path, plan: dict[str, Any]) -> None:
    """Take over the states of a comparison that was stopped; WrongUse if it is another one."""
    path = out / PLAN
    if not path.exists():
        if out.is_dir() and any(out.iterdir()):
            raise WrongUse(f"{out} is not empty and has no {PLAN}: give another --out")
        return
    try:
        before = parsed(path.read_bytes())
        states = {run["name"]: run["state"] for run in before["runs"]}
        trained = {run["name"]: _split(run["words"]) for run in before["runs"]}
        same = (before["env"], before["budget"]) == (plan["env"], plan["budget"])
        if not set(states.values()) <= set(_STATES):
            raise ValueError("a state that there is not")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise RunError(f"{path} is damaged: {error}; give another --out") from error
    if not same:
        raise WrongUse(
            f"{out} has a comparison on {before['env']} with the budget "
            f"{before['budget'] or 'of the presets'}: give another --out"
        )
    for run in plan["runs"]:
        if trained.get(run["name"], _split(run["words"])) != _split(run["words"]):
            raise WrongUse(
                f"{out / run['name']} was trained with other flags "
                f"({shlex.join(trained[run['name']])}): give another --out"
            )
    for run in plan["runs"]:  # more methods and more seeds may join
        run["state"] = states.get(run["name"], "waiting")


def _make(out: Path) -> None:
    """Make the folder of the runs; WrongUse if nothing can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise WrongUse(f"cannot write to {out} ({reason}); give a folder with --out") from error
    refuse_unwritable(out / PLAN)


def _keep(out: Path, plan: dict[str, Any]) -> None:
    replace_file(out / PLAN, (json.dumps(plan, indent=2) + "\n").encode())


def _said(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.txt")


def _run(folder: Path, run: dict[str, Any], flags: BenchFlags, budget: Budget) -> str:
    """Train, or go on; return the state that the run is in then."""
    used = 0.0
    words = [*_words(run, flags.env, budget), f"--out={folder}"]
    trust = ["--trust-code"] if flags.trust_code else []
    if (folder / "checkpoints").is_dir():
        used = _seconds(folder)
        words = ["resume", as_run(folder), *trust]
    elif folder.exists():
        shutil.rmtree(folder)  # stopped before its first checkpoint: there is nothing to go on from
    if budget.seconds is not None and used >= budget.seconds:
        return "out of time"
    with open(_said(folder), "ab") as said:
        child = subprocess.Popen(
            [*_DRUMLINE, *words, "--quiet"], stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        try:
            code = _waited(child, None if budget.seconds is None else budget.seconds - used)
        except BaseException as stop:
            _end(child, stop)
            raise
    if code == _STOPPED and budget.seconds is not None and (folder / "checkpoints").is_dir():
        return "out of time"
    return "failed" if code else "ended"


def _waited(child: "subprocess.Popen[bytes]", seconds: float | None) -> int:
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGTERM)  # a checkpoint and whole files, as after Ctrl-C
        return child.wait()


def _end(child: "subprocess.Popen[bytes]", stop: BaseException) -> None:
    """Stop the run in order; a terminal's Ctrl-C has reached it already."""
    if not (isinstance(stop, Stopped) and stop.signal_number == signal.SIGINT):
        child.send_signal(signal.SIGTERM)
    try:
        child.wait(60)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _seconds(folder: Path) -> float:
    """Return the seconds that a run has trained already; 0 before its first update."""
    from drumline.display.run_data import read_run

    try:
        return float(read_run(folder).wall_seconds[-1])
    except ValueError:
        return 0.0


def _compare(flags: BenchFlags, plan: dict[str, Any], line: CommandLine) -> int:
    from drumline.commands import compare

    failed = [run["name"] for run in plan["runs"] if run["state"] == "failed"]
    late = [
        run["name"]
        for run in plan["runs"]
        if run["state"] == "out of time" and not _seconds(flags.out / run["name"])
    ]
    names = [run["name"] for run in plan["runs"] if run["name"] not in (*failed, *late)]
    done = [as_run(flags.out / name) for name in names]
    if failed:
        again = "the same command tries them again"
        print(f"drumline: failed: {visible(', '.join(failed))}; {again}", file=sys.stderr)
    if late:
        reason = "no update within the budget; give a longer one and another --out"
        print(f"drumline: left out: {visible(', '.join(late))}; {reason}", file=sys.stderr)
    if done:
        as_asked = [f"--{name}" for name in ("quiet", "json") if getattr(flags, name)]
        words = [*done, f"--out={flags.out / 'compare.png'}", *as_asked]
        sys.stdout.flush()
        compare.command(dataclasses.replace(line, command="compare", words=words))
    return 3 if failed or not done else 0


def _printed(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {visible(text)}", flush=True)


def _silent(text: str) -> None:
    del text
