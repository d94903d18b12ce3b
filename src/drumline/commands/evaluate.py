"""`drumline evaluate RUN`."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drumline.commands.command_line import CommandLine, WrongUse

if TYPE_CHECKING:
    from drumline.runs.folder import RunFolder
    from drumline.runs.policy_files import StoredPolicy


@dataclass(frozen=True)
class EvaluateFlags:
    """Flags of `drumline evaluate`."""

    policy: str = "best"
    """best: policy of the highest evaluation mean; last: policy at the end or the stop; or the path
    of a policy file, as `drumline rebuild` writes one."""
    episodes: int = 20
    """Number of episodes."""
    seed: int = 0
    """Root of the episodes' seeds and of drawn actions: the same seed gives the same numbers."""
    deterministic: bool = False
    """Take the most likely action each time; the default, unless the run was made with
    --evaluate-sample, as Atari's presets are."""
    sample: bool = False
    """Draw actions, from the distribution of the method's training or a softmax.

    hts, a2c, ppo and impala draw from their policy's distribution. The other methods draw discrete
    actions from the softmax of the outputs, and continuous ones with the action noise of es's
    training.
    """
    json: bool = False
    """Print one JSON object."""
    trust_code: bool = False
    """Import the code that the run folder names."""


def command(line: CommandLine) -> int:
    """Run episodes of a saved policy and print their mean return."""
    flags = line.flags("RUN", {"evaluation": EvaluateFlags()})["evaluation"]
    refuse_both_kinds(sample=flags.sample, deterministic=flags.deterministic)
    from drumline.api.evaluation import draws_actions, evaluate_policy
    from drumline.api.kept_prints import kept_prints
    from drumline.api.stored_policy import environment_of
    from drumline.commands.closing import env_steps_at, mean_line, summary_of
    from drumline.commands.trusted_code import trust_of
    from drumline.display.plain import json_line
    from drumline.runs.folder import RunFolder
    from drumline.runs.problem import problem_of

    folder = RunFolder.open(line.name())
    config = folder.document["config"]
    stored = stored_policy_of(folder, flags.policy)
    of_policy = stored.objective.get("function") or environment_of(stored).id
    if flags.policy.endswith(".safetensors") and of_policy != problem_of(config):
        raise WrongUse(
            f"--policy {flags.policy} is of {of_policy}, and {folder.shown} trained on "
            f"{problem_of(config)}: give a policy of that run"
        )
    trust = trust_of(line, trust_code=flags.trust_code)
    sample = draws_actions(config, sample=flags.sample, deterministic=flags.deterministic)
    with kept_prints(_say_aside):
        result = evaluate_policy(stored, config, flags.episodes, flags.seed, trust, sample=sample)
    update = stored.document.get("update")
    if flags.json:
        made_by = {"run": folder.shown, "method": folder.stated("method")}
        named = {"env_id": problem_of(config), "policy": flags.policy, "update": update}
        steps = {"env_steps": env_steps_at(folder, update), "seed": flags.seed}
        every = {"returns": result.returns, "lengths": result.lengths, "actions": result.actions}
        every["info"] = dict(result.info)
        print(json_line({**made_by, **named, **steps, **summary_of(result.returns), **every}))
        return 0
    print(mean_line(result.returns, config))
    for name, mean in result.info:
        print(f"{name} {mean:g}")
    if sample:
        print(f"actions {result.actions}")
    return 0


def stored_policy_of(folder: "RunFolder", policy: str) -> "StoredPolicy":
    """Return the policy that `--policy` names; WrongUse if it names none."""
    from drumline.runs.policy_files import NAMES, read_policy, read_policy_file

    if policy in NAMES:
        return read_policy(folder, policy)
    if policy.endswith(".safetensors"):
        return read_policy_file(Path(policy))
    raise WrongUse(f"--policy {policy!r} is neither best, last nor a .safetensors file")


def _say_aside(text: str) -> None:
    from drumline.runs.safe_text import visible

    print(visible(text), file=sys.stderr)


def refuse_both_kinds(*, sample: bool, deterministic: bool) -> None:
    """Raise WrongUse for --sample together with --deterministic."""
    if sample and deterministic:
        raise WrongUse("--sample and --deterministic contradict each other: give one of them")
