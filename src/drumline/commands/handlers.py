"""What each command does with its words: parse flags, call, print, return an exit code."""

import dataclasses
import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Parse = Callable[..., Any]
"""(dataclass, words, program, default) → an instance: the command line's own parser."""

Handler = Callable[[list[str], Parse], int]


class WrongUse(Exception):
    """One sentence about what was typed."""


def guarded(handler: Handler, rest: list[str], parse: Parse) -> int:
    """Run a handler; every failure becomes one message and an exit code."""
    from drumline.protocols import RoleKilled, TaskKilledWorkers, WorkerError, WorkersLost
    from drumline.recipes.attended_pool import Stopped
    from drumline.runs.folder import RunError
    from drumline.runs.recorder import RecordingFailed
    from drumline.schedules.generational import ImpureEnvironment

    try:
        return handler(rest, parse)
    except WorkerError as error:
        return complain(f"{error.error}\n{error.traceback.rstrip()}{_notes(error)}", 3)
    except TaskKilledWorkers as error:
        how = ", ".join(error.causes)
        return complain(
            f"an episode ended its worker {len(error.causes)} times ({how}){_notes(error)}", 3
        )
    except (
        ImpureEnvironment,
        RecordingFailed,
        RoleKilled,
        WorkersLost,
        FloatingPointError,
    ) as error:
        return complain(str(error), 3)
    except (WrongUse, RunError, ValueError) as error:
        return complain(str(error), 2)
    except Stopped as stop:
        print("stopped; continue with: drumline resume last", file=sys.stderr)
        return 128 + stop.signal_number
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno not in _DISK:
            raise
        return complain(f"cannot write {error.filename or 'a file'} ({error.strerror})", 3)


_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


def _notes(error: BaseException) -> str:
    return "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))


def complain(text: str, code: int) -> int:
    """Print one message on stderr and return the exit code."""
    print(f"drumline: {text}", file=sys.stderr)
    return code


@dataclasses.dataclass(frozen=True)
class Output:
    """Where a run goes and what is shown of it."""

    out: str | None = None
    """The run folder itself; must be empty or not exist."""
    quiet: bool = False
    """Show nothing but errors."""
    json: bool = False
    """One JSON object per line on stdout and nothing else there."""
    print_config: bool = False
    """Print the resolved config as JSON and stop."""


def _names(rest: list[str], wanted: int, what: str) -> tuple[list[str], list[str]]:
    names: list[str] = []
    while rest and not rest[0].startswith("-") and len(names) < wanted:
        names.append(rest[0])
        rest = rest[1:]
    if len(names) < wanted and not {"-h", "--help"} & set(rest):
        raise WrongUse(f"give {what}, as in: drumline {what}")
    return names, rest


def train_command(rest: list[str], parse: Parse) -> int:
    """Run `drumline train`."""
    from drumline.commands.run import importable_cwd, train
    from drumline.recipes.methods import find_method

    names, rest = _names(rest, 2, "train METHOD ENV")
    importable_cwd()
    # Only `--help` comes this far without both names.
    name, env = [*names, *("es", "ENV")[len(names) :]]
    method = find_method(name)
    config = method.config(env=env, **method.preset(env))
    flags = dataclasses.make_dataclass(
        "Flags",
        [("config", method.config), ("layout", method.layout), ("output", Output)],
        frozen=True,
    )
    chosen = parse(flags, rest, f"train {name} {env}", flags(config, method.layout(), Output()))
    if chosen.output.print_config:
        print(json.dumps(dataclasses.asdict(chosen.config), indent=2))
        return 0
    out = chosen.output
    display = _display(out.quiet, out.json)
    run = train(chosen.config, out=out.out, layout=chosen.layout, display=display)
    _closing(run, out.quiet or out.json)
    return 0


def _display(quiet: bool, as_json: bool) -> Any:
    from drumline.display.dashboard import choose_display

    return choose_display(sys.stdout, quiet=quiet, json=as_json, environ=os.environ)


def _closing(run: Any, quiet: bool) -> None:
    if quiet:
        return
    result = _last_evaluation(run)
    print(f"{run.path}")
    if result:
        print(result)
    print("next: drumline plot last · drumline enjoy last · drumline verify last")


def _last_evaluation(run: Any) -> str:
    import csv

    from drumline.functional.statistics import mean_interval

    with open(run.folder.evaluations_csv, newline="") as lines:
        rows = list(csv.DictReader(lines))
    if not rows:
        return ""
    returns = [float(value) for value in rows[-1]["returns"].split(";")]
    return _mean_line(returns, mean_interval)


def _mean_line(returns: list[float], mean_interval: Callable[..., Any]) -> str:
    import numpy as np

    mean = sum(returns) / len(returns)
    interval = mean_interval(np.array(returns))
    return (
        f"return {mean:.1f}, 95 % interval {interval.low:.1f} to {interval.high:.1f}, "
        f"{len(returns)} episodes"
    )


def _open(name: str, trust: bool) -> Any:
    from drumline.commands.run import importable_cwd
    from drumline.runs.folder import RunError, RunFolder

    folder = RunFolder.open(name)
    config = folder.document["config"]
    named = [str(config.get(field, "")) for field in ("env", "policy", "network")]
    foreign = [value for value in named if ":" in value]
    if foreign and not trust:
        raise RunError(
            f"{folder.path} names code to import ({', '.join(foreign)}): if you trust it, repeat "
            f"with --trust-code: drumline {' '.join(sys.argv[1:])} --trust-code"
        )
    if foreign:
        importable_cwd()
    return folder


@dataclasses.dataclass(frozen=True)
class ResumeFlags:
    """Flags of `resume`."""

    total_steps: int | None = None
    """Go on to this many env steps instead (recorded)."""
    checkpoint: int | None = None
    """Go on from this checkpoint instead of the newest."""
    trust_code: bool = False
    """Import names that the run folder gives."""
    quiet: bool = False
    """Show nothing but errors."""
    json: bool = False
    """One JSON object per line on stdout and nothing else there."""


def resume_command(rest: list[str], parse: Parse) -> int:
    """Run `drumline resume`."""
    from drumline.commands.run import resume
    from drumline.recipes.layout import Layout
    from drumline.recipes.methods import find_method
    from drumline.runs.folder import RunFolder

    names, rest = _names(rest, 1, "resume RUN")
    # Only `--help` comes this far without a run.
    layout = find_method(RunFolder.open(names[0]).document["method"]).layout if names else Layout
    flags = dataclasses.make_dataclass(
        "Flags", [("resume", ResumeFlags), ("layout", layout)], frozen=True
    )
    chosen = parse(flags, rest, "resume RUN", flags(ResumeFlags(), layout()))
    options = chosen.resume
    folder = _open(names[0], options.trust_code)
    run = resume(
        folder,
        chosen.layout,
        total_steps=options.total_steps,
        checkpoint=options.checkpoint,
        display=_display(options.quiet, options.json),
    )
    _closing(run, options.quiet or options.json)
    return 0


@dataclasses.dataclass(frozen=True)
class EvaluateFlags:
    """Flags of `evaluate`."""

    policy: str = "best"
    """best or last."""
    episodes: int = 20
    """How many episodes."""
    seed: int = 0
    """Root of the episodes' seeds."""
    json: bool = False
    """Print one JSON object."""
    trust_code: bool = False
    """Import names that the run folder gives."""


def evaluate_command(rest: list[str], parse: Parse) -> int:
    """Run `drumline evaluate`."""
    from drumline.commands.run import evaluate_policy
    from drumline.functional.statistics import mean_interval

    names, rest = _names(rest, 1, "evaluate RUN")
    options = parse(EvaluateFlags, rest, "evaluate RUN")
    folder = _open(names[0], options.trust_code)
    result = evaluate_policy(folder, options.policy, options.episodes, options.seed)
    if options.json:
        print(json.dumps({"returns": result.returns, "lengths": result.lengths}))
    else:
        print(_mean_line(list(result.returns), mean_interval))
    return 0


@dataclasses.dataclass(frozen=True)
class EnjoyFlags:
    """Flags of `enjoy`."""

    policy: str = "best"
    """best or last."""
    seed: int = 0
    """The episode's seed."""
    max_steps: int = 1000
    """Stop filming after this many env steps."""
    out: Path | None = None
    """The film; by default episode.mp4 in the run folder."""
    trust_code: bool = False
    """Import names that the run folder gives."""


def enjoy_command(rest: list[str], parse: Parse) -> int:
    """Run `drumline enjoy`."""
    from drumline.display.video import choose_offscreen_backend

    choose_offscreen_backend(os.environ)
    names, rest = _names(rest, 1, "enjoy RUN")
    options = parse(EnjoyFlags, rest, "enjoy RUN")
    folder = _open(names[0], options.trust_code)
    from drumline.commands.run import load_policy
    from drumline.display.video import VideoError, record_episode
    from drumline.envs.make import make_environment

    policy, spec = load_policy(folder, options.policy)
    made = make_environment(spec, render_mode="rgb_array")
    out = options.out or folder.path / "episode.mp4"
    limit = min(n for n in (options.max_steps, made.limit) if n)
    print(f"filming up to {limit} env steps without a display …", flush=True)
    try:
        film = record_episode(made.environment, policy.act, options.seed, out, max_steps=limit)
    except VideoError as error:
        raise WrongUse(str(error)) from error
    finally:
        made.environment.close()
    print(f"{out}: {film.frames} frames, return {film.episode_return:.1f}, {film.length} env steps")
    return 0


@dataclasses.dataclass(frozen=True)
class PlotFlags:
    """Flags of `plot`."""

    out: Path = Path("curve.png")
    """The picture."""
    x: str = "env_steps"
    """env_steps or wall_seconds."""


def plot_command(rest: list[str], parse: Parse) -> int:
    """Run `drumline plot`."""
    from drumline.display.plots import plot_runs
    from drumline.display.run_data import read_run
    from drumline.runs.folder import RunFolder

    names: list[str] = []
    while rest and not rest[0].startswith("-"):
        names.append(rest.pop(0))
    options = parse(PlotFlags, rest, "plot RUN…")
    if not names:
        raise WrongUse("give at least one run, as in: drumline plot last")
    if options.x not in ("env_steps", "wall_seconds"):
        raise WrongUse(f"--x {options.x!r} is neither env_steps nor wall_seconds")
    curves = [read_run(RunFolder.open(name).path) for name in names]
    plot_runs(curves, options.out, x=options.x)
    print(options.out)
    return 0


@dataclasses.dataclass(frozen=True)
class VerifyFlags:
    """Flags of `verify`."""

    updates: str = ""
    """How many updates to repeat: a number or all; by default the first minute's."""
    workers: int = 3
    """Workers of the repetition."""
    pool: str = "process"
    """process or inline."""
    trust_code: bool = False
    """Import names that the run folder gives."""


def verify_command(rest: list[str], parse: Parse) -> int:
    """Run `drumline verify`."""
    from drumline.commands.verify import verify_again, verify_two
    from drumline.recipes.methods import find_method

    names: list[str] = []
    while rest and not rest[0].startswith("-"):
        names.append(rest.pop(0))
    options = parse(VerifyFlags, rest, "verify RUN | A B")
    if not 1 <= len(names) <= 2:
        raise WrongUse("give one run to repeat or two to compare, as in: drumline verify last")
    folders = [_open(name, options.trust_code) for name in names]
    if len(folders) == 2:
        difference, what = verify_two(folders[0], folders[1]), "the updates that both runs have"
    else:
        if options.updates and options.updates != "all" and not options.updates.isdigit():
            raise WrongUse(f"--updates {options.updates!r} is neither a number nor all")
        count = 10**12 if options.updates == "all" else int(options.updates or 0)
        method = find_method(folders[0].document["method"])
        layout = method.layout(workers=options.workers, pool=options.pool, tensorboard=False)  # pyright: ignore[reportArgumentType]
        done, difference = verify_again(folders[0], count or None, layout)
        what = f"{done} updates repeated on {layout.worker_count} workers"
    if difference is None:
        print(f"equal: {what}")
        return 0
    print(f"differs first at update {difference.update} in {difference.column}")
    return 1


@dataclasses.dataclass(frozen=True)
class EpisodeFlags:
    """Flags of `episode`."""

    member: int = 0
    """Member of the generation, or episode of the evaluation."""
    checkpoint: int | None = None
    """The version that the episode belongs to; by default the newest checkpoint."""
    evaluation: bool = False
    """A scheduled evaluation's episode instead of a training episode."""
    stack_seconds: float = 10.0
    """Show where the program stands whenever no step was made for this long."""
    trust_code: bool = False
    """Import names that the run folder gives."""


def episode_command(rest: list[str], parse: Parse) -> int:
    """Run `drumline episode`."""
    import faulthandler

    from drumline.commands.episode import LoneEpisode
    from drumline.recipes.blame import named

    names, rest = _names(rest, 1, "episode RUN")
    options = parse(EpisodeFlags, rest, "episode RUN")
    if options.stack_seconds <= 0:
        raise WrongUse(f"--stack-seconds must be above 0, got {options.stack_seconds}")
    folder = _open(names[0], options.trust_code)
    lone = LoneEpisode(folder, options.member, options.checkpoint, evaluation=options.evaluation)
    print(f"{named(lone.task)}; Ctrl-C ends it", flush=True)

    def progress(amount: int) -> None:
        # A thread of C's: it shows the stack even if the environment never gives the GIL back.
        faulthandler.dump_traceback_later(options.stack_seconds, repeat=True)

    progress(0)
    try:
        result = lone.run(progress)
    finally:
        faulthandler.cancel_dump_traceback_later()
    print(f"return {result.episode_return!r}, {result.length} env steps")
    return 0


HANDLERS: dict[str, Handler] = {
    "train": train_command,
    "resume": resume_command,
    "evaluate": evaluate_command,
    "enjoy": enjoy_command,
    "plot": plot_command,
    "verify": verify_command,
    "episode": episode_command,
}
