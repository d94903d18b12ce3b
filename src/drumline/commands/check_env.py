"""`drumline check-env ENV`."""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from drumline.commands.command_line import CommandLine, WrongUse

if TYPE_CHECKING:
    from drumline.commands.environment_findings import Checked


@dataclass(frozen=True)
class CheckEnvFlags:
    """Flags of `drumline check-env`."""

    engine: Literal["auto", "gymnasium", "envpool"] = "auto"
    """Package that makes the environment; auto: Gymnasium if it has the id, else EnvPool."""
    env_kwargs: str = ""
    """Arguments of the environment's constructor as JSON, as in '{"forward_reward_weight": 2}'."""
    flatten_observations: bool = False
    """Check it as a method with this flag sees it: observations in parts as one vector."""
    steps: int = 200
    """Env steps of each episode that is repeated and compared."""
    seconds: float = 1.0
    """Time its speed for this many seconds."""
    hang_seconds: float = 60.0
    """Give up when no step has ended for this long."""
    json: bool = False
    """Print one JSON object."""


def command(line: CommandLine) -> int:
    """Check an environment before training: form, seeds, hidden state, speed; 2 for a fault."""
    flags = line.flags("ENV", {"check": CheckEnvFlags()})["check"]
    if len(line.names) != 1:
        got = " ".join(line.names) or "nothing"
        raise WrongUse(
            f"check-env takes one ENV before the flags, got {got}, as in: "
            "drumline check-env my_envs:Reach"
        )
    for name in ("steps", "seconds", "hang_seconds"):
        if not getattr(flags, name) > 0:
            flag = name.replace("_", "-")
            raise WrongUse(f"--{flag} must be above 0, got {getattr(flags, name)}")
    from drumline.api.foreign_code import importable_cwd
    from drumline.api.kept_prints import about, kept_prints
    from drumline.commands.environment_checks import EnvironmentChecks
    from drumline.commands.environment_findings import Finding
    from drumline.display.plain import json_line
    from drumline.envs.environment import EnvironmentSpec
    from drumline.envs.make import resolve_engine
    from drumline.recipes.named_objects import arguments_of
    from drumline.runs.safe_text import visible
    from drumline.runtime.guard import Guard

    importable_cwd()
    env_id = line.names[0]
    engine = resolve_engine(env_id, flags.engine)
    spec = EnvironmentSpec(
        env_id, engine, options=arguments_of(flags), flatten=flags.flatten_observations
    )
    with Guard(flags.hang_seconds) as guard, kept_prints(lambda text: None) as prints:
        checked = EnvironmentChecks(spec, flags.steps, flags.seconds, guard).run()
    if prints.lines:
        sentence = f"{about(prints)}. A training keeps the newest 10 MiB in its run folder"
        checked.findings.append(Finding("output", "note", sentence))
    if flags.json:
        print(json_line(_document(checked)))
    else:
        print(visible("\n".join(_page(checked, flags)), lines=True))
    return 0 if checked.passed else 2


def _document(checked: "Checked") -> dict[str, Any]:
    return {
        "env_id": checked.env_id,
        "engine": checked.engine,
        "passed": checked.passed,
        "observations": checked.observations,
        "actions": checked.actions,
        "checks": [vars(finding) for finding in checked.findings],
        "promise_kept_by": checked.kept,
        "not_served": checked.not_served,
        "no_promise": checked.no_promise,
        "measured": checked.measured,
    }


def _page(checked: "Checked", flags: CheckEnvFlags) -> list[str]:
    lines = [f"{checked.env_id} ({checked.engine})"]
    lines += [f"{f.verdict:<6}{f.check:<14}{f.sentence}" for f in checked.findings]
    if checked.kept:
        lines.append(f"the promise can be kept by: {', '.join(checked.kept)}")
    if checked.passed:
        lines.append(f"next: {shlex.join(_next(checked, flags))}")
    return lines


def _next(checked: "Checked", flags: CheckEnvFlags) -> list[str]:
    """Return the words of a training in the environment that was checked, as it was checked."""
    from drumline.envs.environment import FLATTEN

    method = "hts" if checked.pictures and "hts" in checked.kept else checked.kept[0]
    words = ["drumline", "train", method, checked.env_id]
    if flags.engine != "auto":
        words += ["--engine", flags.engine]
    if flags.env_kwargs:
        words += ["--env-kwargs", flags.env_kwargs]
    if flags.flatten_observations:
        words.append(FLATTEN)
    if not checked.ends:
        words += ["--max-episode-steps", "1000"]
    return words
